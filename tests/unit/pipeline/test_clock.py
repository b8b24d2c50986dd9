"""Times are read and counted in one way."""

from __future__ import annotations

import time

import pytest

from pipeline.clock import clock_ms, parse_time, steady_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1795251600123", 1795251600123),
        ("2026-11-21T09:00:00.123Z", 1795251600123),
        ("2026-11-21T10:00:00.123+01:00", 1795251600123),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_a_time_is_read(text: str, milliseconds: int) -> None:
    """Milliseconds and ISO 8601 with any zone give the same moments."""
    assert parse_time(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-11-21T09:00:00", "has no zone; append Z"),
        ("123456789012345678", "is no time"),
        ("-1", "is no time"),
        ("\N{SUPERSCRIPT TWO}", "is no time"),
        ("yesterday", "is no time; write it as"),
        ("", "is no time"),
    ],
)
def test_an_invalid_time_is_refused(text: str, why: str) -> None:
    """Nothing is guessed, and the error shows the given text."""
    with pytest.raises(ValueError, match=why) as caught:
        parse_time(text)
    assert repr(text) in str(caught.value)


def test_the_steady_clock_starts_at_the_system_clock() -> None:
    """They differ only after the system clock is set, and the steady clock never goes back."""
    assert abs(steady_ms() - clock_ms()) < 60_000
    first = steady_ms()
    assert steady_ms() >= first


def test_time_in_which_the_machine_sleeps_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an exporter or a watcher received before a suspension is stale after it. Only one clock advances in between."""
    before = steady_ms()
    real = time.clock_gettime_ns
    asleep = {time.CLOCK_BOOTTIME: 3_600_000_000_000}
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: real(clock) + asleep.get(clock, 0))
    assert 3_600_000 <= steady_ms() - before < 3_700_000
