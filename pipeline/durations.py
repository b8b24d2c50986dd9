"""Parses durations as Prometheus writes them, such as 1h30m."""

import re

_UNITS_MS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
    "y": 31_536_000_000,
}
DURATION = r"(?:[0-9]+(?:ms|[smhdwy]))+"
"""The pattern of a duration within a longer text."""
_PART = re.compile(r"([0-9]+)(ms|[smhdwy])")
_WHOLE = re.compile(DURATION)


def duration_ms(text: str) -> int:
    """Return a duration in milliseconds, written as Prometheus does (model.Duration); 0 for any other text.

    >>> duration_ms("1h30m"), duration_ms("0"), duration_ms("")
    (5400000, 0, 0)
    """
    if not _WHOLE.fullmatch(text):
        return 0
    return sum(int(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text))
