"""Incidents: what keeps one open, when it is over, and when that cannot be known."""

from __future__ import annotations

import pytest

from controller_model.insight.incident_sentence import sentence
from controller_model.records.changes import SessionState
from controller_model.records.completeness import LATE_MS
from controller_model.records.events import IncidentClosed
from controller_model.records.incidents import (
    LONGEST_MS,
    QUIET_MS,
    STANDING_MS,
    IncidentEnd,
)
from tests.support.failing import BEAT_MS, beat, begun, closed, opened, quiet


def test_partitions_offline_before_an_incident_do_not_keep_it_open() -> None:
    """Partitions that were offline all the time neither count nor keep it open."""
    history, fold = begun(t={0: (0, 1, 2)}, single={0: (2,)})
    history.broker_gone(2)
    history.state("single", 0, leader=-1, isr=[2], leader_epoch=1)
    history.state("t", 0, leader=0, isr=[0, 1], leader_epoch=1)
    fold.follow(history)
    beat(history, fold, STANDING_MS // BEAT_MS + 1)
    assert closed(fold).end is IncidentEnd.STANDING
    assert closed(fold).still[0] == "broker 2 is gone"
    fold.accounts.clear()
    history.delete("/controller")
    history.elect(0)
    fold.follow(history)
    assert opened(fold).offline_before == 1
    quiet(history, fold)
    assert closed(fold).end is IncidentEnd.RECOVERED
    assert closed(fold).number == 2
    assert "offline" not in closed(fold).summary


def test_the_quiet_time_is_exact_to_the_millisecond() -> None:
    """With one millisecond less it stays open."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    fold.follow(history)
    abnormal = opened(fold).last_abnormal_at
    for _ in range(5):
        history.heartbeat()
    history.heartbeat(after_ms=abnormal + QUIET_MS - 1 - (history.now + 1))
    fold.follow(history)
    assert fold.cluster_view().incidents.open == 1
    history.heartbeat(after_ms=1)
    fold.follow(history)
    assert closed(fold).closed_at == abnormal + QUIET_MS


def test_a_new_failure_within_the_quiet_time_is_of_the_same_incident() -> None:
    """Repeated failures of the controller are one record with all elections."""
    history, fold = begun()
    for _ in range(4):
        history.delete("/controller")
        history.elect(0)
        fold.follow(history)
        beat(history, fold, 3)
    assert opened(fold).controller_elections == 4
    assert opened(fold).controllers == (0, 0, 0, 0, 0)
    quiet(history, fold)
    assert closed(fold).summary == (
        "Controller 0 in 4 elections, 40 ms without one; over after 1 min 30 s."
    )


def test_a_vacant_controller_keeps_an_incident_open() -> None:
    """A vacant /controller is abnormal at every sample."""
    history, fold = begun()
    history.delete("/controller")
    fold.follow(history)
    quiet(history, fold)
    assert opened(fold).still == ("nobody holds /controller",)
    assert opened(fold).last_abnormal_at == history.now + 1
    assert sentence(opened(fold)) == (
        "Nobody was controller for 1 min 10 s; going on: nobody holds /controller."
    )


def test_an_incident_that_never_ends_is_cut_after_a_day() -> None:
    """A broker bounces every half minute: after the cut, the next bounce opens another incident."""
    history, fold = begun()
    for _ in range(LONGEST_MS // 40_000 + 2):
        history.broker_gone(2, seen=False)
        history.broker(2)
        for _ in range(4):
            history.heartbeat()
    fold.follow(history)
    first, *_ = [event.incident for event in fold.accounts if isinstance(event, IncidentClosed)]
    assert first.end is IncidentEnd.CUT
    assert first.closed_at is not None
    assert LONGEST_MS <= first.closed_at - first.started_at < LONGEST_MS + 2 * BEAT_MS
    assert first.broker_ends["bounced"] > 2_000
    assert "bounced" in first.summary
    assert "cut after 2" in first.summary
    assert fold.cluster_view().incidents.total == 2


@pytest.mark.parametrize("session", [SessionState.SUSPENDED, SessionState.LOST])
def test_an_incident_stays_open_while_the_zookeeper_session_is_lost(session: SessionState) -> None:
    """The quiet time starts again with the new session, and the record is marked incomplete."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    fold.follow(history)
    for _ in range(20):
        history.heartbeat(session=session)
    fold.follow(history)
    assert not opened(fold).complete
    beat(history, fold, 5)
    assert fold.cluster_view().incidents.open == 1
    beat(history, fold, 2)
    assert not closed(fold).complete
    assert closed(fold).summary.endswith("(counts are at least).")


def test_a_gap_between_heartbeats_does_not_count_as_quiet_time() -> None:
    """Without heartbeats changes may be missing: the quiet time starts again."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    fold.follow(history)
    history.heartbeat(after_ms=LATE_MS + QUIET_MS)
    fold.follow(history)
    assert fold.cluster_view().incidents.open == 1
    assert not opened(fold).complete
    quiet(history, fold)
    assert closed(fold).end is IncidentEnd.RECOVERED


def test_a_long_resync_with_timely_heartbeats_leaves_an_incident_complete() -> None:
    """However long it takes: the watcher reports while it reads, as its heartbeats prove."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    history.start_resync()
    for path in history.znodes:
        history.report(path)
        history.heartbeat()
    history.finish_resync()
    fold.follow(history)
    quiet(history, fold)
    assert history.now - closed(fold).started_at > LATE_MS + QUIET_MS
    assert closed(fold).complete
    assert closed(fold).summary == "Controller 0, 10 ms without one; over after 10 ms."


def test_a_late_heartbeat_in_a_resync_makes_an_incident_incomplete() -> None:
    """If a heartbeat in it is late, it counts as if there were none."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    history.start_resync()
    for path in history.znodes:
        history.report(path)
    history.heartbeat(after_ms=LATE_MS + 1)
    history.heartbeat()
    history.finish_resync()
    fold.follow(history)
    assert not opened(fold).complete
    assert fold.state.control.incidents.unsure_until == fold.state.control.now


def test_an_incident_opened_by_a_resync_after_a_lost_session_is_incomplete() -> None:
    """An incident that it opens may lack what happened before, and the quiet time starts with it."""
    history, fold = begun()
    history.heartbeat(session=SessionState.LOST)
    history.delete("/brokers/ids/2", seen=False)
    history.resync()
    fold.follow(history)
    assert opened(fold).brokers_lost == (2,)
    assert not opened(fold).complete
    assert fold.state.control.incidents.unsure_until == fold.state.control.now
    assert fold.state.control.incidents.is_unsure is False


def test_a_hole_during_an_incident_makes_its_counts_lower_bounds() -> None:
    """It does not close while the figures are incomplete."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    fold.follow(history)
    quiet(history, fold)
    history.delete("/controller")
    history.seq += 1
    history.elect(0)
    fold.follow(history)
    assert not opened(fold).complete
    beat(history, fold, 2 * QUIET_MS // BEAT_MS)
    assert opened(fold).number == 2, "what is incomplete is not over"


def test_a_slow_follower_does_not_keep_an_incident_open() -> None:
    """Its leaving and joining is counted, and does not restart the quiet time."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    fold.follow(history)
    for _ in range(7):
        history.state("t", 0, leader=0, isr=[0, 1])
        history.state("t", 0, leader=0, isr=[0, 1, 2])
        history.heartbeat()
    fold.follow(history)
    assert closed(fold).isr_shrinks == 6, "the seventh came after a minute"


def test_no_levels_are_taken_as_before_while_the_session_is_suspended() -> None:
    """Levels for comparison are only taken while the session is connected."""
    history, fold = begun(single={0: (2,)})
    history.heartbeat(session=SessionState.SUSPENDED)
    fold.follow(history)
    assert fold.state.control.incidents.unsure_until == history.now + 1
    assert fold.accounts == []


def test_a_clock_that_was_set_back_neither_ends_nor_holds_an_incident() -> None:
    """Deadlines follow the log's own time, which never goes back and never stops."""
    history, fold = begun()
    history.heartbeat(after_ms=2 * STANDING_MS)
    history.now -= 2 * STANDING_MS
    history.delete("/controller")
    history.heartbeat()
    fold.follow(history)
    assert opened(fold).still == ("nobody holds /controller",)
    history.elect(0)
    fold.follow(history)
    quiet(history, fold)
    assert closed(fold).end is IncidentEnd.RECOVERED


def test_an_odd_record_is_nothing_of_an_incident() -> None:
    """Only an anomaly of what no Kafka writes is; others come from the log, and depend on what of it is read."""
    history, fold = begun()
    history.broker_gone(2)
    fold.follow(history)
    before = fold.state.control.incidents.revision
    history.set("/no/such/place", "")
    assert [type(event).__name__ for event in fold.follow(history)] == ["Anomaly"]
    assert fold.state.control.incidents.revision == before
