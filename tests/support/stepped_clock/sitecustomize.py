"""Lets Python sleep under libfaketime 0.9.10, which refuses clock_nanosleep until a time of the monotonic clock.

Python imports it at its start where this folder is on PYTHONPATH.
"""

import select
import time
from typing import SupportsIndex


def _sleep(seconds: float | SupportsIndex) -> None:
    select.select([], [], [], float(seconds))


time.sleep = _sleep
