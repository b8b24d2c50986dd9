"""Times and names as they are written for people, and read from them.

The rule: light, because every command needs it, those included that answer in a moment.
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
    """Return a time as people and `--at` read it; out of the calendar, as milliseconds.

    >>> time_text(1795251600123)
    '2026-11-21T09:00:00.123Z'
    """
    try:
        time = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def counted(count: int, noun: str) -> str:
    """Return a number of things.

    >>> counted(1, "broker"), counted(2, "broker")
    ('1 broker', '2 brokers')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


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
    r"""Return text that cannot steer a terminal, whatever somebody wrote into a znode.

    >>> printable("t\x1b[2J")
    't?[2J'
    """
    return "".join(character if character.isprintable() else "?" for character in text)
