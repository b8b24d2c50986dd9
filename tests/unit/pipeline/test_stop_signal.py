"""A stop signal knows when the main loop that asks it turned last."""

from __future__ import annotations

import time

import pytest

from pipeline.stop_signal import StopSignal


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which the test sets."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_each_question_of_the_loop_is_a_turn(now: list[float]) -> None:
    """A wait counts at its beginning and at its end, a signal that sets it does not count."""
    stop = StopSignal()
    now[0] = 130.0
    assert stop.age_s == 30.0
    assert not stop.is_set()
    assert stop.age_s == 0.0
    now[0] = 140.0
    assert not stop.wait(0)
    now[0] = 150.0
    stop.set()
    assert stop.age_s == 10.0
    assert stop.wait()
    now[0] = 160.0
    stop.turned()
    assert (stop.age_s, stop.is_set()) == (0.0, True)


def test_a_wait_that_lasts_counts_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the loop waits, it has just turned when it goes on."""
    times = iter((100.0, 100.0, 100.0, 100.0, 170.0, 170.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(times, 170.0))
    stop = StopSignal()
    stop.set()
    stop.wait(70.0)
    assert stop.age_s < 70.0
