"""Places in a log as a user writes them: GENERATION:SEQ, or a time."""

from __future__ import annotations

import re

from controller_model.history.log_replay import Point
from controller_model.kafka.ids import Position
from kcm.cli.written import read_milliseconds
from pipeline.runtime import UsageError

_POSITION = re.compile(r"([0-9]{1,19}):([0-9]{1,19})")


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
