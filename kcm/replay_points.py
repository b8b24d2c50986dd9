"""Places in a log as a user writes them: GENERATION:SEQ, or a time."""

from __future__ import annotations

import datetime as dt
import re

from controller_model.ids import Position
from controller_model.log_replay import Point
from pipeline.runtime import UsageError

_POSITION = re.compile(r"([0-9]{1,19}):([0-9]{1,19})")
_MILLISECONDS = re.compile(r"[0-9]{1,17}")


def read_point(option: str, text: str) -> Point:
    """Return the place of either kind; raises UsageError, naming the option."""
    if _POSITION.fullmatch(text):
        return read_position(option, text)
    return read_time(option, text)


def read_position(option: str, text: str) -> Point:
    """Return a place by its position; raises UsageError.

    >>> read_position("--until", "7:12").until
    Position(generation=7, seq=12)
    """
    match = _POSITION.fullmatch(text)
    if match is None:
        raise UsageError(f"option {option}: {text!r} is not GENERATION:SEQ, such as 68719477000:17")
    return Point(until=Position(int(match[1]), int(match[2])))


def read_time(option: str, text: str) -> Point:
    """Return a place by its time: ISO 8601 with a zone, or milliseconds since 1970.

    >>> read_time("--at", "2026-11-21T10:00:00+01:00").at == read_time("--at", "1795251600000").at
    True
    """
    return Point(at=read_milliseconds(option, text))


def read_milliseconds(option: str, text: str) -> int:
    """Return a time in milliseconds since 1970; raises UsageError."""
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"option {option}: {text!r} is no time; write it as 2026-11-21T10:00:00Z, "
            "or as milliseconds since 1970"
        ) from None
    if time.tzinfo is None:
        raise UsageError(f"option {option}: {text!r} has no zone; append Z for UTC, or +01:00")
    since = time - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return since // dt.timedelta(milliseconds=1)


def time_text(milliseconds: int) -> str:
    """Return a time as people and `--at` read it; out of the calendar, as milliseconds.

    >>> time_text(1795251600123)
    '2026-11-21T09:00:00.123Z'
    """
    try:
        time = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"
