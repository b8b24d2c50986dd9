"""Provides times in milliseconds since 1970, as records carry them: the machine's, or read from text.

Clock and texts are read here and nowhere else, so every option, parameter and record
means the same moment. A time without a zone is refused, not guessed.
"""

import datetime as dt
import re
import time

_MILLISECONDS = re.compile(r"[0-9]{1,17}")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def clock_ms() -> int:
    """Return the machine's time, which may be set forward or back at any moment."""
    return time.time_ns() // 1_000_000


def steady_ns() -> int:
    """Return nanoseconds of a clock that nobody sets and that advances while the process, or the machine, sleeps.

    Python's own monotonic clock stops while the machine sleeps: after that, stale figures would
    seem fresh.
    """
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


_STEADY_FROM_MS = clock_ms() - steady_ns() // 1_000_000


def steady_ms() -> int:
    """Return a time that began as the machine's and that nobody sets, for ages and deadlines."""
    return _STEADY_FROM_MS + steady_ns() // 1_000_000


def parse_time(text: str) -> int:
    """Return a time in milliseconds since 1970; raise ValueError with a text for the user.

    >>> parse_time("1795251600000") == parse_time("2026-11-21T09:00:00Z")
    True
    """
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        parsed = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time; write it as 2026-11-21T10:00:00Z, or as milliseconds since 1970"
        ) from None
    if parsed.tzinfo is None:
        raise ValueError(f"{text!r} has no zone; append Z for UTC, or +01:00")
    return (parsed - _EPOCH) // dt.timedelta(milliseconds=1)
