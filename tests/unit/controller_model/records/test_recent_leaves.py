"""Minutes in which replicas left ISRs: each once, in order, and none beyond the window."""

from __future__ import annotations

from controller_model.records.recent_leaves import WINDOW_MINUTES, noted, within_window

MINUTE_MS = 60_000


def test_a_minute_counts_once_and_at_its_own_time() -> None:
    """Also if it is read late, after a later one."""
    minutes = noted(noted(noted((), 5 * MINUTE_MS), 5 * MINUTE_MS + 59_999), 4 * MINUTE_MS)
    assert minutes == (4, 5)


def test_leaves_older_than_the_window_are_dropped() -> None:
    """Whether it is added before or after the newest: no more than the window is ever held."""
    minutes: tuple[int, ...] = ()
    for minute in range(100):
        minutes = noted(minutes, minute * MINUTE_MS)
    assert minutes == tuple(range(100 - WINDOW_MINUTES, 100))
    assert noted(minutes, 3 * MINUTE_MS) == minutes


def test_the_window_ends_now() -> None:
    """The current minute counts; one that is as old as the window does not."""
    assert within_window((10,), (10 + WINDOW_MINUTES) * MINUTE_MS - 1) == 1
    assert within_window((10,), (10 + WINDOW_MINUTES) * MINUTE_MS) == 0
