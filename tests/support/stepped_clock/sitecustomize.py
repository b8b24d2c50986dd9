"""Lets Python sleep under libfaketime 0.9.10, which refuses clock_nanosleep until a time of the monotonic clock.

Python imports it at its start where this folder is on PYTHONPATH. Without libfaketime it changes nothing.
"""

import os
import select
import time
from typing import SupportsIndex


def _sleep(seconds: float | SupportsIndex) -> None:
    select.select([], [], [], float(seconds))


if "faketime" in os.environ.get("LD_PRELOAD", ""):
    time.sleep = _sleep
