"""A walk waits for a fold that lags behind the log, as long as that fold makes progress."""

from __future__ import annotations

from controller_model.kafka.ids import Position
from source_log.fold_lag import STEP, STEP_MS, STOPPED_MS, FoldLag

NOW_MS = 1_000_000


def ours(seq: int) -> Position:
    """Return a position of our generation."""
    return Position(3, seq)


def following(seq: int) -> FoldLag:
    """Return what is known of a fold that has just shown all changes that are published."""
    lag = FoldLag()
    lag.on_view(ours(seq), ours(seq), NOW_MS)
    return lag


def test_each_progress_of_the_fold_allows_one_step() -> None:
    """Counted from where the log ends then."""
    lag = following(100)
    assert lag.allows_walk(ours(100 + STEP - 1), NOW_MS)
    assert not lag.allows_walk(ours(100 + STEP), NOW_MS)
    lag.on_view(ours(101), ours(100 + STEP), NOW_MS + 1)
    assert lag.allows_walk(ours(100 + STEP), NOW_MS + 1)


def test_no_more_than_two_steps_are_ahead_of_the_view() -> None:
    """However often the fold shows a little progress."""
    lag = following(100)
    for seq in range(101, 110):
        lag.on_view(ours(seq), ours(seq + 2 * STEP - 1), NOW_MS)
        assert lag.allows_walk(ours(seq + 2 * STEP - 1), NOW_MS)
        assert not lag.allows_walk(ours(seq + 2 * STEP), NOW_MS)


def test_a_fold_at_an_earlier_generation_has_folded_no_change_of_this_one() -> None:
    """However many changes of the earlier generation it has folded."""
    lag = FoldLag()
    lag.on_view(Position(2, 10 * STEP), ours(2 * STEP - 1), NOW_MS)
    assert lag.allows_walk(ours(2 * STEP - 1), NOW_MS)
    assert not lag.allows_walk(ours(2 * STEP), NOW_MS)


def test_a_step_a_second_is_allowed_until_the_fold_has_shown_progress() -> None:
    """It may be starting."""
    assert FoldLag().allows_walk(ours(1), 0), "on a machine that has just started, too"
    lag = FoldLag()
    assert lag.allows_walk(ours(1), NOW_MS)
    assert not lag.allows_walk(ours(1 + STEP), NOW_MS + STEP_MS - 1)
    assert lag.allows_walk(ours(1 + STEP), NOW_MS + STEP_MS)
    assert not lag.allows_walk(ours(1 + 2 * STEP), NOW_MS + 2 * STEP_MS - 1)


def test_a_walk_stops_waiting_for_a_fold_that_has_stopped() -> None:
    """The same view again does not count as progress; the next one does."""
    lag = following(100)
    far = ours(10 * STEP)
    lag.on_view(ours(100), far, NOW_MS + STOPPED_MS)
    assert not lag.allows_walk(far, NOW_MS + STOPPED_MS)
    assert lag.allows_walk(far, NOW_MS + STOPPED_MS + 1)
    lag.on_view(ours(101), far, NOW_MS + STOPPED_MS + 1)
    assert not lag.allows_walk(far, NOW_MS + STOPPED_MS + 1)
