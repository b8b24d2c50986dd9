"""Wait for a condition with a deadline, and say what was last seen when it does not come true."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.02  # short against everything that tests wait for
MOST_POLL_S = 0.1
"""The pause grows to this in the first seconds: what takes long is not slowed by who waits for it."""


def wait_until(
    look: Callable[[], T], holds: Callable[[T], bool] = bool, *, deadline_s: float = 30.0
) -> T:
    """Look until what is seen holds, and return it; AssertionError names the last thing seen."""
    began = time.monotonic()
    deadline = began + deadline_s
    while True:
        seen = look()
        if holds(seen):
            return seen
        assert time.monotonic() < deadline, f"not true within {deadline_s:g} s; last seen: {seen!r}"
        waited = time.monotonic() - began
        time.sleep(min(MOST_POLL_S, POLL_S * (1 + waited)))
