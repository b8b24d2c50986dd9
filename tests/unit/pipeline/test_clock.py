"""Times are read and counted in one way."""

from __future__ import annotations

import pytest

from pipeline.clock import now_ms, parse_time, steady_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1795251600123", 1795251600123),
        ("2026-11-21T09:00:00.123Z", 1795251600123),
        ("2026-11-21T10:00:00.123+01:00", 1795251600123),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2026-11-21T09:00:00", None),
        ("123456789012345678", None),
        ("-1", None),
        ("\N{SUPERSCRIPT TWO}", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_time_is_read_or_refused(text: str, milliseconds: int | None) -> None:
    """Milliseconds or ISO 8601 with a zone; nothing is guessed."""
    assert parse_time(text) == milliseconds


def test_the_steady_clock_begins_as_the_machines() -> None:
    """They differ by what somebody sets meanwhile, and the steady one never goes back."""
    assert abs(steady_ms() - now_ms()) < 60_000
    first = steady_ms()
    assert steady_ms() >= first
