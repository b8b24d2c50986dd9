"""Format times and names for people, and read times from them.

This module imports little, because every command needs it, also those that must answer at
once.
"""

import datetime as dt
import sys

from pipeline.clock import parse_time
from pipeline.runtime import UsageError


def read_milliseconds(option: str, text: str) -> int:
    """Return a time in milliseconds since 1970; raises UsageError."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise UsageError(f"option {option}: {error}") from None


def time_text(milliseconds: int) -> str:
    """Return a time in the form that `--at` reads; outside the calendar's range, in milliseconds.

    >>> time_text(1795251600123)
    '2026-11-21T09:00:00.123Z'
    """
    try:
        time = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def known(figure: int | None) -> str:
    """Return a figure as text; None: it is not known.

    >>> known(0), known(None)
    ('0', 'not known')
    """
    return "not known" if figure is None else str(figure)


def warn(line: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"kcm: {line}\n")


def printable(text: str) -> str:
    r"""Return text without control characters, so that a name in a znode cannot steer the terminal.

    >>> printable("t\x1b[2J")
    't?[2J'
    """
    return "".join(character if character.isprintable() else "?" for character in text)
