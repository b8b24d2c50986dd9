"""Wait for a condition with a deadline; the error says what was last seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 60.0
"""No measure of speed: on busy cores, servers and TLS handshakes take many times as long as alone."""

SESSION_MS = 30_000
"""Of brokers that no test wants fenced: their heartbeats may be seconds late."""

POLL_S = 0.02  # short compared with everything that tests wait for
MAX_POLL_S = 0.1
"""The pause grows to this in the first seconds, so that polling does not slow down long waits."""


def wait_until(
    look: Callable[[], T], holds: Callable[[T], bool] = bool, *, deadline_s: float = DEADLINE_S
) -> T:
    """Look repeatedly until the condition holds, and return what was seen; AssertionError names the last."""
    began = time.monotonic()
    deadline = began + deadline_s
    while True:
        seen = look()
        if holds(seen):
            return seen
        assert time.monotonic() < deadline, f"not true within {deadline_s:g} s; last seen: {seen!r}"
        waited = time.monotonic() - began
        time.sleep(min(MAX_POLL_S, POLL_S * (1 + waited)))
