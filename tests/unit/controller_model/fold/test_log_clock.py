"""The log's time continues with any clock of a watcher; a wrong clock is reported."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from controller_model.fold.log_clock import LEAP_MS, time_after
from controller_model.records.completeness import LATE_MS
from controller_model.records.events import Anomaly, ControllerZombie
from controller_model.records.pending_writes import write_timeout_ms
from controller_model.state.log_state import LATEST_MS, STEP_MS
from tests.support.histories import Fold, History, only, small_cluster

HOUR_MS = 3_600_000
BEAT_MS = 10_000


def begun() -> tuple[History, Fold]:
    """Return a cluster that is folded, after its first heartbeat."""
    history, fold = small_cluster(), Fold()
    history.heartbeat()
    fold.follow(history)
    return history, fold


def anomalies(fold: Fold) -> list[str]:
    """Return the reasons of all anomalies."""
    return [event.reason for event in fold.events if isinstance(event, Anomaly)]


def beat(history: History, fold: Fold, ms: int) -> None:
    """Send heartbeats for a while."""
    for _ in range(ms // BEAT_MS + 1):
        history.heartbeat()
    fold.follow(history)


@pytest.mark.parametrize("takes_over", [False, True])
def test_a_zombie_is_found_after_a_step_back(takes_over: bool) -> None:
    """After one heartbeat an hour ahead, or a change of watchers: silence is found as soon as otherwise."""
    history, fold = begun()
    history.heartbeat(after_ms=HOUR_MS)
    history.now -= HOUR_MS
    if takes_over:
        history.new_generation("w2")
        history.resync()
    history.heartbeat()
    history.broker_gone(2)
    beat(history, fold, write_timeout_ms(2) + 3 * BEAT_MS)
    assert only(fold.events, ControllerZombie).pending
    (reported,) = anomalies(fold)
    stepped = HOUR_MS - BEAT_MS * (not takes_over)
    assert reported.startswith("the watcher's clock stepped back by ")
    assert abs(int(reported.split(" by ")[1].split()[0]) - stepped) < 1_000


def test_time_after_equals_the_time_after_the_change_is_applied() -> None:
    """It equals the time after the change, with clocks that step, jump and show nonsense."""
    history, fold = begun()
    for step_ms in (0, 1, -20_000, 500, 2 * LEAP_MS, 1_000, 10**15, 30_000, -(10**15), 60_000):
        history.now += step_ms
        history.heartbeat(after_ms=10_000)
        expected = time_after(fold.state, history.changes[-1])
        fold.follow(history)
        assert fold.state.control.now == expected, step_ms


def test_the_log_clock_never_falls_and_its_correction_disappears() -> None:
    """It is reduced by a tenth of the time that passes, until the log's time is the watcher's."""
    history, fold = begun()
    history.heartbeat(after_ms=60_000)
    history.now -= 60_000
    seen = [fold.state.control.now]
    for _ in range(65):
        beat(history, fold, 0)
        seen.append(fold.state.control.now)
    control = fold.state.control
    assert seen == sorted(seen)
    steps = [after - before for before, after in itertools.pairwise(seen[2:])]
    assert set(steps) <= {BEAT_MS * 9 // 10, BEAT_MS}
    assert control.log.clock is None
    assert control.now == history.changes[-1].observed_at
    assert len(anomalies(fold)) == 1


def test_a_gap_reduces_the_clock_correction_and_stays_a_gap() -> None:
    """Watchers whose clocks differ take over in turns: the log's time does not drift away."""
    history, fold = begun()
    began = history.now
    for _ in range(5):
        history.now += HOUR_MS
        beat(history, fold, 0)
        history.now -= HOUR_MS
        beat(history, fold, 0)
    control = fold.state.control
    assert control.now < began + HOUR_MS + 5 * (LATE_MS + 1) + 100_000 + 1_000
    before = control.now
    history.heartbeat(after_ms=2 * HOUR_MS)
    fold.follow(history)
    assert control.now - before > LATE_MS


def test_the_log_clock_waits_for_small_steps_back() -> None:
    """A clock that is behind by no more than that is not a step: time waits, and nothing is reported."""
    history, fold = begun()
    now = fold.state.control.now
    history.heartbeat(after_ms=-STEP_MS)
    fold.follow(history)
    assert fold.state.control.now == now
    assert anomalies(fold) == []
    assert fold.state.control.log.clock is None
    history.heartbeat(after_ms=-1)
    fold.follow(history)
    assert len(anomalies(fold)) == 1


@pytest.mark.parametrize("timestamp", [2**62, -(2**63), 2**63 - 1, LATEST_MS + 1, -1])
def test_an_impossible_timestamp_does_not_move_the_log_clock(timestamp: int) -> None:
    """The change is applied at the log's time; one report covers any number of them in a row."""
    history, fold = begun()
    now = fold.state.control.now
    for _ in range(3):
        history.heartbeat(after_ms=0)
        history.changes[-1] = msgspec.structs.replace(history.changes[-1], observed_at=timestamp)
    fold.follow(history)
    control = fold.state.control
    assert control.now == control.log.view.heartbeat_at == now
    assert anomalies(fold) == [f"a record says that it is of {timestamp}, which is no time"]
    beat(history, fold, 0)
    assert control.now == history.now + 1
    assert control.log.clock is None


def test_a_hole_is_reported_at_the_logs_time() -> None:
    """It does not have the time of the record that reveals the hole."""
    history, fold = begun()
    history.seq += 1
    history.heartbeat()
    history.changes[-1] = msgspec.structs.replace(history.changes[-1], observed_at=2**62)
    fold.follow(history)
    assert fold.state.control.log.view.incomplete_since == fold.state.control.now < LATEST_MS


def test_a_log_that_begins_with_no_time_has_one_from_the_next_record_on() -> None:
    """The jump from no time to now is not doubted."""
    history, fold = small_cluster(), Fold()
    history.changes[0] = msgspec.structs.replace(history.changes[0], observed_at=2**62)
    fold.follow(history)
    assert fold.state.control.now == history.now + 1
    assert fold.state.control.log.view.verified_at == history.now + 1


def test_one_record_far_ahead_does_not_move_the_log_clock() -> None:
    """One in the year 2099, then as before: the time has not moved, and it is reported."""
    history, fold = begun()
    now = fold.state.control.now
    honest = history.now
    history.now = 4_070_908_800_000
    beat(history, fold, 0)
    assert fold.state.control.now == now
    assert fold.state.control.log.view.heartbeat_at == now
    history.now = honest
    beat(history, fold, 0)
    assert fold.state.control.now == history.now + 1
    (reported,) = anomalies(fold)
    assert reported.startswith("one record says that it is of 407090881")
    assert fold.state.control.log.clock is None


def test_a_long_gap_without_a_watcher_is_accepted_at_the_second_record() -> None:
    """After a week without records the second record confirms the jump."""
    history, fold = begun()
    history.now += 7 * LEAP_MS
    beat(history, fold, 0)
    beat(history, fold, 0)
    assert fold.state.control.now == history.now + 1
    assert anomalies(fold) == []
    assert fold.state.control.log.clock is None
