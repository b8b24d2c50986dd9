"""Pending writes while a log is folded, and the controller's health by them."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.records.changes import SessionState
from controller_model.records.events import ControllerZombie
from controller_model.records.pending_writes import (
    ControllerHealth,
    PendingWriteKind,
)
from controller_model.records.views import ClusterView
from tests.support.histories import (
    Fold,
    History,
    controller_payload,
    small_cluster,
    state_path,
)


def followed(history: History) -> Fold:
    """Return a fold after two heartbeats, so that it has a controller health."""
    fold = Fold()
    history.heartbeat()
    history.heartbeat()
    fold.follow(history)
    return fold


def health(fold: Fold) -> ControllerHealth:
    """Return the pending writes in the cluster's view."""
    view: ClusterView = fold.cluster_view()
    return view.pending_writes.health


def beats(history: History, fold: Fold, count: int) -> list[ControllerZombie]:
    """Let heartbeats pass; return the pending_writes that failed."""
    for _ in range(count):
        history.heartbeat()
    return [event for event in fold.follow(history) if isinstance(event, ControllerZombie)]


def test_a_controller_that_does_nothing_is_a_zombie_once() -> None:
    """A broker dies and nothing is written: reported once after the write timeout, with the evidence."""
    history = small_cluster()
    fold = followed(history)
    history.broker_gone(1)
    died_at = history.now + 1
    assert beats(history, fold, 5) == []
    assert health(fold) is ControllerHealth.WORKING
    (reported,) = beats(history, fold, 20)
    first_beat = died_at + 10_000
    assert (reported.controller, reported.epoch, reported.last_write_at) == (0, 1, None)
    assert reported.pending == {"new_leader": 1, "isr_removal": 1}
    assert reported.pending_since == first_beat
    assert reported.at == first_beat + 50_000
    assert reported.write_timeout_ms == 45_002
    due = fold.cluster_view().pending_writes
    assert (due.health, due.oldest_at) == (ControllerHealth.ZOMBIE, died_at)


def test_a_zombie_that_works_again_and_stops_again_is_reported_again() -> None:
    """A write ends the episode; the next silence is another one."""
    history = small_cluster()
    fold = followed(history)
    history.broker_gone(1)
    assert len(beats(history, fold, 10)) == 1
    history.state("t", 1, leader=2, isr=(2, 0), leader_epoch=1)
    assert beats(history, fold, 1) == []
    due = fold.cluster_view().pending_writes
    assert (due.health, due.counts, due.last_write_at) == (
        ControllerHealth.SLOW,
        {"isr_removal": 1},
        history.now + 1,
    )
    assert len(beats(history, fold, 10)) == 1


def test_a_trickle_is_slow() -> None:
    """One leader every 20 s while many are due: the controller is slow, not a zombie."""
    history = small_cluster(t=dict.fromkeys(range(12), (1, 0, 2)))
    fold = followed(history)
    history.broker_gone(1)
    for partition in range(8):
        history.state("t", partition, leader=0, isr=(0, 2), leader_epoch=1)
        assert beats(history, fold, 2) == []
    due = fold.cluster_view().pending_writes
    assert (due.health, due.counts) == (ControllerHealth.SLOW, {"new_leader": 4})


def test_leaders_written_as_none_are_work() -> None:
    """A controller that can only write that there is no leader works, too."""
    history = small_cluster(t=dict.fromkeys(range(12), (1,)))
    fold = followed(history)
    history.broker_gone(1)
    for partition in range(12):
        history.state("t", partition, leader=-1, isr=(1,), leader_epoch=1)
        assert beats(history, fold, 2) == []
    assert health(fold) is ControllerHealth.NOT_NEEDED


def test_pending_writes_are_tracked_for_one_controller() -> None:
    """A new controller gets the whole write timeout, however long the previous one was silent."""
    history = small_cluster()
    fold = followed(history)
    history.broker_gone(1)
    history.state("t", 0, leader=0, isr=(0, 2), leader_epoch=1)
    assert beats(history, fold, 5) == []
    assert fold.cluster_view().pending_writes.last_write_at == history.now + 1 - 40_000
    history.delete("/controller")
    history.elect(2)
    assert beats(history, fold, 5) == []
    due = fold.cluster_view().pending_writes
    assert (due.pending_since, due.last_write_at) == (history.now + 1 - 40_000, None)
    assert len(beats(history, fold, 1)) == 1


def test_controller_health_is_unknown_while_controller_is_vacant() -> None:
    """Without a holder the health is unknown and no prediction fails."""
    history = small_cluster()
    fold = followed(history)
    history.broker_gone(0)
    assert beats(history, fold, 30) == []
    due = fold.cluster_view().pending_writes
    assert (due.health, due.known_since, due.pending_since) == (
        ControllerHealth.UNKNOWN,
        None,
        None,
    )
    assert due.counts == {"new_leader": 1, "isr_removal": 1}


def test_controller_health_is_unknown_during_a_migration_to_kraft() -> None:
    """For a KRaft controller other rules apply."""
    history = small_cluster()
    fold = followed(history)
    history.set("/controller", controller_payload(3000, kraft_epoch=5))
    history.broker_gone(1)
    assert beats(history, fold, 30) == []
    assert health(fold) is ControllerHealth.UNKNOWN


@pytest.mark.parametrize("session", [SessionState.SUSPENDED, SessionState.LOST])
def test_controller_health_is_unknown_without_a_zookeeper_session(session: SessionState) -> None:
    """Without a session missing writes prove nothing; a new session restarts the tracking."""
    history = small_cluster()
    fold = followed(history)
    history.broker_gone(1)
    for _ in range(20):
        history.heartbeat(session=session)
    assert beats(history, fold, 0) == []
    assert health(fold) is ControllerHealth.UNKNOWN
    assert beats(history, fold, 5) == []
    assert len(beats(history, fold, 1)) == 1


def test_controller_health_is_unknown_after_a_hole_and_in_a_resync() -> None:
    """Figures that may lack changes give no health."""
    history = small_cluster()
    fold = followed(history)
    history.broker_gone(1)
    history.seq += 1
    assert beats(history, fold, 20) == []
    history.start_resync()
    assert beats(history, fold, 20) == []
    assert health(fold) is ControllerHealth.UNKNOWN
    history.resync()
    assert beats(history, fold, 5) == []
    assert health(fold) is ControllerHealth.WORKING


def test_controller_health_is_unknown_while_the_view_diverges() -> None:
    """Figures that a reconciliation has disproved give no health."""
    history = small_cluster()
    fold = followed(history)
    history.broker_gone(1)
    history.reconciled(znodes=1)
    assert beats(history, fold, 20) == []
    assert health(fold) is ControllerHealth.UNKNOWN


def test_a_heartbeat_that_is_only_late_changes_nothing() -> None:
    """A gap of 25 s is normal for heartbeats; one more millisecond is not."""
    for gap, silent_since in ((25_000, 10_000), (25_001, 0)):
        history = small_cluster()
        fold = followed(history)
        history.broker_gone(1)
        beats(history, fold, 1)
        first = history.now + 1
        history.heartbeat(after_ms=gap)
        fold.follow(history)
        known = fold.cluster_view().pending_writes.pending_since
        assert known == (first if silent_since else first + gap)


def test_controller_health_is_unknown_without_heartbeats() -> None:
    """A log that holds only changes has no clock: the health stays unknown."""
    history = small_cluster()
    history.broker_gone(1)
    fold = Fold()
    fold.follow(history)
    due = fold.cluster_view().pending_writes
    assert (due.health, due.counts[PendingWriteKind.NEW_LEADER]) == (ControllerHealth.UNKNOWN, 1)


def test_preferred_elections_and_notifications_are_due_until_deleted() -> None:
    """The controller deletes these znodes: while they exist, a write is due."""
    history = small_cluster()
    fold = followed(history)
    history.set(
        "/admin/preferred_replica_election",
        {"version": 1, "partitions": [{"topic": "t", "partition": 0}]},
    )
    history.set("/isr_change_notification/isr_change_0000000001", {"version": 1, "partitions": []})
    history.set(
        "/log_dir_event_notification/log_dir_event_0000000001",
        {"version": 1, "broker": 1, "event": 1},
    )
    history.set("/config/changes/config_change_0000000001", b"{}")
    reported = beats(history, fold, 10)
    assert [event.pending for event in reported] == [{"preferred_election": 1, "notifications": 2}]
    for path in (
        "/isr_change_notification/isr_change_0000000001",
        "/log_dir_event_notification/log_dir_event_0000000001",
    ):
        history.delete(path)
        beats(history, fold, 1)
        assert health(fold) is ControllerHealth.ZOMBIE  # its request waits
    history.delete("/admin/preferred_replica_election")
    beats(history, fold, 1)
    assert health(fold) is ControllerHealth.NOT_NEEDED


def test_requests_and_notifications_that_come_and_go_make_no_zombie() -> None:
    """At each heartbeat another one waits: each was processed within seconds, and nothing else was to be written."""
    history = small_cluster()
    fold = followed(history)
    for number in range(20):
        isr_change = f"/isr_change_notification/isr_change_{number:010}"
        request = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
        history.set(isr_change, {"version": 1, "partitions": []})
        history.set("/admin/preferred_replica_election", request)
        assert beats(history, fold, 1) == []
        assert fold.cluster_view().pending_writes.counts == {
            "preferred_election": 1,
            "notifications": 1,
        }
        history.delete(isr_change)
        history.delete("/admin/preferred_replica_election")
    assert beats(history, fold, 1) == []


def test_new_partitions_are_pending_while_a_replica_lives() -> None:
    """A broker that is in no registration, as in any old assignment, changes nothing for others."""
    history = small_cluster(t={0: (0, 9)})
    fold = followed(history)
    history.topic("n", {0: (0, 1), 1: (1, 2), 2: (), 3: (9, 8)})
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts == {"isr_removal": 1, "first_state": 2}
    history.state("n", 0, leader=0, isr=(0, 1))
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts["first_state"] == 1
    history.broker_gone(2)
    fold.follow(history)
    assert fold.cluster_view().pending_writes.counts["first_state"] == 1
    history.broker_gone(1)
    fold.follow(history)
    assert "first_state" not in fold.cluster_view().pending_writes.counts


@pytest.mark.parametrize("moved", [{"adding": {0: (1,)}}, {"removing": {0: (1,)}}])
def test_a_new_partition_that_is_reassigned_is_not_pending(
    moved: dict[str, Any],
) -> None:
    """It never gets a state; those beside it, and those of other topics, do."""
    history = small_cluster()
    fold = followed(history)
    history.topic("n", {0: (0, 1), 1: (1, 2)}, **moved)
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts == {"first_state": 1}
    history.state("n", 0, leader=0, isr=(0,))
    history.state("n", 1, leader=1, isr=(1, 2))
    history.topic_gone("n")
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts == {}
    assert fold.state.control.totals.new == {}


def test_a_state_that_was_removed_by_hand_is_not_pending_before_the_next_controller() -> None:
    """The controller has the partition in its memory; the next one finds a new partition."""
    history = small_cluster()
    fold = followed(history)
    history.delete(state_path("t", 0))
    history.topic("n", {0: (0, 1)})
    assert beats(history, fold, 1) == []
    assert fold.cluster_view().pending_writes.counts == {"first_state": 1}
    history.state("n", 0, leader=0, isr=(0, 1))
    assert beats(history, fold, 20) == []
    assert health(fold) is ControllerHealth.NOT_NEEDED
    history.delete("/controller")
    history.elect(1)
    assert len(beats(history, fold, 7)) == 1
    assert fold.cluster_view().pending_writes.counts == {"first_state": 1}


def test_a_removed_state_that_is_there_again_is_removed_no_more() -> None:
    """Written again, or of a topic that was deleted and created again: what is new then is pending."""
    history = small_cluster(t={0: (0, 1)}, u={0: (0, 1)}, v={0: (0, 1)})
    fold = followed(history)
    for topic in "tuv":
        history.delete(state_path(topic, 0))
    history.topic_gone("u")
    history.topic("u", {0: (1, 2)})
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts == {"first_state": 1}
    history.state("u", 0, leader=1, isr=(1, 2))
    history.state("t", 0, leader=0, isr=(0, 1))
    history.set("/admin/delete_topics/v", b"")
    beats(history, fold, 1)
    assert fold.state.control.source.writes.removed == {"v": {0}}
    history.topic_gone("v")
    history.delete("/admin/delete_topics/v")
    beats(history, fold, 1)
    assert fold.state.control.source.writes.removed == {}
    assert fold.cluster_view().pending_writes.counts == {}


def test_removed_states_of_very_many_topics_leave_no_certain_new_partition() -> None:
    """More topics than are looked at: no first state is certain."""
    topics: dict[str, dict[int, tuple[int, ...]]] = {f"t{n}": {0: (0, 1)} for n in range(101)}
    history = small_cluster(**topics)
    fold = followed(history)
    for topic in topics:
        history.delete(state_path(topic, 0))
    history.topic("n", {0: (0, 1)})
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts == {}


def test_controller_health_is_unknown_where_the_watcher_may_not_read() -> None:
    """Without brokers, assignments and states nothing is known to be pending."""
    history = small_cluster()
    fold = followed(history)
    history.broker_gone(1)
    for _ in range(20):
        history.heartbeat(denied=("/brokers/ids",))
    assert beats(history, fold, 0) == []
    assert health(fold) is ControllerHealth.UNKNOWN


def test_new_partitions_of_a_topic_to_be_deleted_are_not_pending() -> None:
    """A topic that is deleted loses its states before its znode: its partitions are not new ones."""
    history = small_cluster()
    fold = followed(history)
    history.topic("n", {0: (0, 1)})
    history.set("/admin/delete_topics/n", b"")
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts == {}


def test_a_topic_deletion_is_due_until_it_has_begun() -> None:
    """Partitions of topics to be deleted that still have a leader; after that the brokers have to answer."""
    history = small_cluster(t={0: (0, 1), 1: (1, 2)}, u={0: (0, 1)})
    fold = followed(history)
    history.set("/admin/delete_topics/t", b"")
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts == {"topic_deletion": 2}
    history.state("t", 0, leader=-1, isr=(1,), leader_epoch=1)
    beats(history, fold, 1)
    due = fold.cluster_view().pending_writes
    assert (due.counts, due.last_write_at) == ({"topic_deletion": 1}, history.now + 1)
    history.state("t", 1, leader=-1, isr=(2,), leader_epoch=1)
    beats(history, fold, 20)
    assert health(fold) is ControllerHealth.NOT_NEEDED


@pytest.mark.parametrize("halt", ["reassignment", "dead replica"])
def test_a_halted_topic_deletion_is_not_due(halt: str) -> None:
    """A reassignment, or a dead replica, makes a topic ineligible for deletion, and no other topic."""
    history = small_cluster(t={0: (0, 1), 1: (1, 2)}, u={0: (0, 1)})
    fold = followed(history)
    history.set("/admin/delete_topics/t", b"")
    history.set("/admin/delete_topics/u", b"")
    if halt == "reassignment":
        history.topic("t", {0: (0, 1, 2), 1: (1, 2)}, adding={0: (2,)})
    else:
        history.broker_gone(2)
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts == {"topic_deletion": 1}


def test_at_most_a_hundred_topics_to_be_deleted_are_checked() -> None:
    """A hundred at each heartbeat, the first ones."""
    topics: dict[str, dict[int, tuple[int, ...]]] = {f"t{n}": {0: (0, 1)} for n in range(101)}
    history = small_cluster(**topics)
    for topic in topics:
        history.set(f"/admin/delete_topics/{topic}", b"")
    fold = followed(history)
    assert fold.cluster_view().pending_writes.counts == {"topic_deletion": 100}


def test_a_reassignment_is_due_when_all_its_target_is_in_sync() -> None:
    """Adding 2 for 1: due once 2 is in the ISR, no longer when 2 is gone or the topic is deleted."""
    history = small_cluster(t={0: (0, 1), 1: (1, 0)}, u={0: (0,)})
    fold = followed(history)
    history.topic("t", {0: (2, 0, 1), 1: (1, 0)}, adding={0: (2,)}, removing={0: (1,)})
    history.state("t", 0, leader=0, isr=(0, 1), leader_epoch=1)
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts == {}
    history.state("t", 0, leader=0, isr=(0, 1, 2), leader_epoch=1)
    (reported,) = beats(history, fold, 7)
    assert reported.pending == {"reassignment": 1}
    assert reported.last_write_at == reported.at - 50_000
    history.topic("t", {0: (2, 0), 1: (1, 0)})
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts == {}


def test_at_most_a_hundred_reassigning_topics_are_checked_for_pending_writes() -> None:
    """A hundred at each heartbeat, the first ones."""
    topics: dict[str, dict[int, tuple[int, ...]]] = {f"t{n}": {0: (0, 1)} for n in range(101)}
    history = small_cluster(**topics)
    for topic in topics:
        history.topic(topic, {0: (0, 1)}, adding={0: (1,)})
        history.state(topic, 0, leader=0, isr=(0, 1), leader_epoch=1)
    fold = followed(history)
    assert fold.cluster_view().pending_writes.counts == {"reassignment": 100}


@pytest.mark.parametrize("path", ["/brokers/ids/2", "/brokers/ids/0", "/admin/delete_topics/t"])
def test_a_reassignment_that_is_halted_is_not_due(path: str) -> None:
    """A dead target or leader has to be handled first; a topic that is being deleted stays as it is."""
    history = small_cluster(t={0: (2, 0, 1)})
    history.topic("t", {0: (2, 0, 1)}, adding={0: (2,)}, removing={0: (1,)})
    history.state("t", 0, leader=0, isr=(0, 1, 2), leader_epoch=1)
    fold = followed(history)
    assert fold.cluster_view().pending_writes.counts == {"reassignment": 1}
    if path in history.znodes:
        history.delete(path)
    else:
        history.set(path, b"")
    beats(history, fold, 1)
    assert PendingWriteKind.REASSIGNMENT not in fold.cluster_view().pending_writes.counts


def test_a_leader_that_is_back_is_due_only_after_a_later_registration() -> None:
    """No leader, and its only ISR member registered since then: due. Before then: a failed log directory."""
    history = small_cluster(t={0: (1,), 1: (0,)})
    fold = followed(history)
    history.broker_gone(1)
    history.state("t", 0, leader=-1, isr=(1,), leader_epoch=1)
    written = history.zxid
    history.state("t", 1, leader=-1, isr=(0,), leader_epoch=1)
    history.broker(1)
    fold.follow(history)
    assert fold.state.control.source.writes.leaderless_zxid == {1: written, 0: written + 1}
    assert fold.cluster_view().pending_writes.counts == {"leader_back": 1}
    history.state("t", 0, leader=1, isr=(1,), leader_epoch=2)
    fold.follow(history)
    assert fold.cluster_view().pending_writes.counts == {}
    history.state("t", 0, leader=-1, isr=(1,), leader_epoch=3)
    history.state("t", 1, leader=0, isr=(0,), leader_epoch=2)
    fold.follow(history)
    assert fold.state.control.source.writes.leaderless_zxid[1] == history.zxid - 1
    assert fold.cluster_view().pending_writes.counts == {}


@pytest.mark.parametrize(("gone", "pending"), [((), 1), ((2,), 1), ((1, 2), 0), ((0, 1, 2), 0)])
def test_no_leader_with_two_live_members_of_the_isr_is_pending(
    gone: tuple[int, ...], pending: int
) -> None:
    """The controller leaves one member in the ISR, which alone may be in a failed log directory."""
    history = small_cluster(t={0: (0, 1, 2)})
    history.broker(3)
    history.delete("/controller")
    history.elect(3)
    history.state("t", 0, leader=-1, isr=(0, 1, 2), leader_epoch=1)
    fold = followed(history)
    for broker in gone:
        history.broker_gone(broker)
    reported = beats(history, fold, 7)
    assert fold.cluster_view().pending_writes.counts.get("leader_back", 0) == pending
    assert len(reported) == pending


def test_leaderless_partitions_of_other_topics_are_not_due_deletions() -> None:
    """Only partitions of topics to be deleted are counted, and of these only those with a leader."""
    history = small_cluster(t={0: (0, 1)}, u={0: (1, 0), 1: (0, 1)})
    fold = followed(history)
    history.state("u", 0, leader=-1, isr=(1,), leader_epoch=1)
    history.set("/admin/delete_topics/t", b"")
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts == {"topic_deletion": 1}


def test_broker_0_that_leads_its_own_partition_makes_no_pending_write() -> None:
    """It registered after a leaderless state was written, but it still leads its own partition."""
    history = small_cluster(t={0: (1,), 1: (0,)})
    fold = followed(history)
    history.broker_gone(1)
    history.state("t", 0, leader=-1, isr=(1,), leader_epoch=1)
    history.delete("/brokers/ids/0")
    history.broker(0)
    fold.follow(history)
    assert fold.cluster_view().pending_writes.counts == {}


def test_a_state_without_an_assignment_is_not_a_due_reassignment() -> None:
    """It may be there while its topic is being created or deleted."""
    history = small_cluster(t={0: (0, 1)})
    history.topic("t", {0: (0, 1)}, adding={0: (1,), 1: (1,)})
    for partition in (0, 1):
        history.state("t", partition, leader=0, isr=(0, 1), leader_epoch=1)
    fold = followed(history)
    assert fold.cluster_view().pending_writes.counts == {"reassignment": 1}


def test_the_newest_leaderless_zxid_is_kept_in_any_order_of_reports() -> None:
    """A resync reads states by path, not by zxid."""
    history = small_cluster(t={0: (1,), 1: (1,)})
    history.state("t", 1, leader=-1, isr=(1,), leader_epoch=1, seen=False)
    history.state("t", 0, leader=-1, isr=(1,), leader_epoch=1, seen=False)
    history.report("/brokers/topics/t/partitions/0/state")
    history.report("/brokers/topics/t/partitions/1/state")
    fold = Fold()
    fold.follow(history)
    assert fold.state.control.source.writes.leaderless_zxid == {1: history.zxid}


def test_controller_health_is_unknown_without_a_controller_epoch() -> None:
    """Older epochs do not show whether a write is under the unknown current epoch."""
    history = History()
    history.broker(0)
    history.set("/controller", controller_payload(0), ephemeral_owner=1)
    history.topic("t", {0: (1, 0)})
    history.state("t", 0, leader=1, isr=(1, 0), controller_epoch=7)
    history.resync()
    fold = followed(history)
    assert beats(history, fold, 20) == []
    due = fold.cluster_view().pending_writes
    assert (due.health, due.counts) == (ControllerHealth.UNKNOWN, {"new_leader": 1})


def test_pending_since_restarts_with_the_first_failure_after_completed_work() -> None:
    """Completed work ends the episode; the next failure begins another one."""
    history = small_cluster(t={0: (1, 0), 1: (2, 0)})
    fold = followed(history)
    history.broker_gone(1)
    beats(history, fold, 3)
    history.state("t", 0, leader=0, isr=(0,), leader_epoch=1)
    beats(history, fold, 3)
    assert fold.cluster_view().pending_writes.pending_since is None
    history.broker_gone(2)
    beats(history, fold, 2)
    assert fold.cluster_view().pending_writes.pending_since == history.now + 1 - 10_000


def test_reassignments_are_not_due_while_controller_is_vacant() -> None:
    """They are counted at heartbeats while the controller's health can be known, else dropped."""
    history = small_cluster(t={0: (2, 0, 1)})
    history.topic("t", {0: (2, 0, 1)}, adding={0: (2,)}, removing={0: (1,)})
    history.state("t", 0, leader=0, isr=(0, 1, 2), leader_epoch=1)
    fold = followed(history)
    history.delete("/controller")
    beats(history, fold, 1)
    assert fold.cluster_view().pending_writes.counts == {}


def test_writes_under_an_older_epoch_are_not_work_of_this_controller() -> None:
    """Elections of a zombie under an older epoch are not work of the current holder."""
    history = small_cluster(t=dict.fromkeys(range(3), (1, 0, 2)))
    history.delete("/controller")
    history.elect(2)
    fold = followed(history)
    history.broker_gone(1)
    assert beats(history, fold, 2) == []
    before = fold.cluster_view().pending_writes
    history.state("t", 0, leader=0, isr=(0, 1, 2), leader_epoch=1, controller_epoch=1)
    history.state("t", 0, leader=1, isr=(0, 1, 2), leader_epoch=2, controller_epoch=1)
    beats(history, fold, 1)
    after = fold.cluster_view().pending_writes
    assert (before.last_write_at, after.last_write_at) == (None, None)


def test_the_oldest_pending_write_is_the_first_death() -> None:
    """Of two dead brokers the one that ended first; one that was never registered has no time."""
    history = small_cluster(t={0: (1, 0), 1: (2, 0), 2: (0, 7)})
    fold = followed(history)
    history.broker_gone(2)
    first = history.now + 1
    history.broker_gone(1)
    fold.follow(history)
    assert fold.cluster_view().pending_writes.oldest_at == first
    assert state_path("t", 0) in history.znodes
