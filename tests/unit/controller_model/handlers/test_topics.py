"""Brokers, topics, partitions: what one change reports, in written-out histories."""

from __future__ import annotations

import pytest

from controller_model.records.events import (
    AnyEvent,
    BrokerStopped,
    IsrExpanded,
    IsrShrunk,
    LeaderElectionKind,
    LeadersElected,
    TopicCreated,
    TopicDeleted,
    TopicExpanded,
)
from tests.support.histories import (
    Fold,
    History,
    begun,
    kinds,
    only,
    replaced,
    small_cluster,
    state_path,
)


def end_of(events: list[AnyEvent]) -> str:
    """Return how the one broker that stopped ended."""
    return only(events, BrokerStopped).end.value


def elected(events: list[AnyEvent]) -> str:
    """Return the kind of the one leader election."""
    return only(events, LeadersElected).election.value


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ((1, [1, 2, 0], 1), (0, [1, 2, 0], 2), "preferred"),
        ((-1, [0], 1), (0, [0], 2), "offline"),
        ((-1, [0], 1), (1, [1], 2), "unclean"),
        ((0, [0, 1, 2], 1), (1, [1, 2], 2), "controlled_shutdown"),
        ((0, [0, 1, 2], 1), (2, [0, 1, 2], 2), "unknown"),
        ((0, [0, 1], 1), (2, [2, 1], 3), "unknown"),
        ((0, [0, 1], 1), (2, [2], 3), "unclean"),
    ],
)
def test_leader_elections_are_classified(
    before: tuple[int, list[int], int], after: tuple[int, list[int], int], kind: str
) -> None:
    """The step from one state to the next shows the election; if it fits none, it is unknown."""
    history, fold = begun(t={0: (0, 1, 2)})
    history.state("t", 0, leader=before[0], isr=before[1], leader_epoch=before[2])
    fold.follow(history)
    history.state("t", 0, leader=after[0], isr=after[1], leader_epoch=after[2])
    assert elected(fold.follow(history)) == kind
    assert fold.state.control.counters.leader_elections[kind] == 1
    assert fold.state.control.counters.unclean_elections == (kind == "unclean")


def test_a_replica_that_rejoined_unseen_and_leads_is_not_unclean() -> None:
    """The ISR grew in an update that was merged away: the version shows that, the leader epoch does not."""
    history, fold = begun(t={0: (0, 1, 2)})
    history.state("t", 0, leader=1, isr=[1, 2], leader_epoch=1)
    fold.follow(history)
    history.state("t", 0, leader=1, isr=[1, 2, 0], leader_epoch=1, seen=False)
    history.state("t", 0, leader=0, isr=[1, 2, 0], leader_epoch=2)
    assert elected(fold.follow(history)) == LeaderElectionKind.UNKNOWN.value
    assert fold.state.control.log.view.missed_updates == 1


def test_updates_that_were_merged_away_add_up() -> None:
    """Each unseen update counts, at any place; seen updates do not."""
    history, fold = begun(t={0: (0, 1), 1: (1, 0)})
    for partition, unseen in ((0, 2), (1, 1)):
        for n in range(unseen):
            history.state("t", partition, leader=partition, isr=[n % 2], seen=False)
        history.state("t", partition, leader=partition, isr=[0, 1])
        fold.follow(history)
    history.state("t", 1, leader=1, isr=[1])
    fold.follow(history)
    assert fold.state.control.log.view.missed_updates == 3


def test_a_reassignment_moves_the_leader_off_a_replica_that_goes() -> None:
    """Only then; a preferred election during a reassignment is still reported as one."""
    history, fold = begun(t={0: (0, 1, 2)}, u={0: (1, 0, 2)})
    history.topic("t", {0: [1, 2, 0]}, removing={0: [0]})
    history.state("t", 0, leader=1, isr=[0, 1, 2], leader_epoch=1)
    assert elected(fold.follow(history)) == "reassignment"
    history.topic("u", {0: [0, 1, 2]}, removing={0: [2]})
    history.state("u", 0, leader=0, isr=[1, 0, 2], leader_epoch=1)
    assert elected(fold.follow(history)) == "preferred"


def came_back(broker: int, **topics: dict[int, tuple[int, ...]]) -> tuple[History, Fold]:
    """Return a cluster in which a broker has just lost its session and registered again."""
    history, fold = begun(**topics)
    history.broker_gone(broker)
    history.broker(broker)
    fold.follow(history)
    return history, fold


def test_a_controller_elected_later_takes_over_leaders_unchanged() -> None:
    """All sessions lost at once: states stay as they are, and belong to the new registrations."""
    history, fold = came_back(1, t={0: (1, 2)})
    history.delete("/controller")
    history.elect(0)
    history.state("t", 0, leader=2, isr=[2], leader_epoch=1)
    assert elected(fold.follow(history)) == "controlled_shutdown"
    history.broker_gone(1)
    assert end_of(fold.follow(history)) == "controlled_shutdown"


def test_leaders_moved_off_a_dead_broker_found_by_a_resync_are_unknown() -> None:
    """The broker is swept after the states: until then its end looks like a controlled shutdown."""
    history, fold = begun(t={0: (2, 1, 0)})
    history.broker_gone(2, seen=False)
    history.state("t", 0, leader=1, isr=[1, 0], leader_epoch=1, seen=False)
    history.resync()
    assert elected(fold.follow(history)) == "unknown"


@pytest.mark.parametrize("assignment_first", [False, True])
def test_a_replica_removed_by_a_reassignment_counts_no_isr_leave(assignment_first: bool) -> None:
    """Also if the finished assignment is read before the state, as in a resync."""
    history, fold = begun(t={0: (0, 1, 2)})
    history.topic("t", {0: [0, 1, 2]}, removing={0: [2]})
    fold.follow(history)
    history.state("t", 0, leader=0, isr=[0, 1], leader_epoch=1, seen=False)
    history.topic("t", {0: [0, 1]}, seen=False)
    for path in sorted(("/brokers/topics/t", state_path("t", 0)), reverse=not assignment_first):
        history.report(path)
    assert only(fold.follow(history), IsrShrunk).who == (2,)
    record = fold.state.control.brokers[2]
    assert (record.record.isr_leaves, record.drained) == (0, 0)
    history.state("t", 0, leader=0, isr=[0], leader_epoch=1)
    fold.follow(history)
    assert fold.broker_view(1).record.isr_leaves == 1


def test_isr_leaves_count_once_a_minute_and_expire_after_an_hour() -> None:
    """A broker that dies with many replicas is not a flapping replica."""
    history, fold = begun(t={0: (0, 1), 1: (0, 1)})
    first = history.now // 60_000
    for partition in (0, 1):
        history.state("t", partition, leader=0, isr=[0], leader_epoch=1)
    fold.follow(history)
    assert fold.broker_view(1).record.isr_leave_minutes == (first,)
    assert fold.broker_view(0).record.isr_leave_minutes == ()
    history.heartbeat(after_ms=3_600_000)
    history.state("t", 0, leader=0, isr=[0, 1], leader_epoch=2)
    history.state("t", 0, leader=0, isr=[0], leader_epoch=3)
    fold.follow(history)
    assert fold.broker_view(1).record.isr_leave_minutes == (first + 60,)


def test_a_replica_without_a_known_assignment_counts_an_isr_leave() -> None:
    """Without an assignment no reassignment explains the leave."""
    history, fold = begun()
    history.state("new", 0, leader=0, isr=[0, 1])
    history.state("new", 0, leader=0, isr=[0])
    fold.follow(history)
    assert fold.broker_view(1).record.isr_leaves == 1


def test_isr_changes_distinguish_a_dead_follower_from_a_slow_one() -> None:
    """The controller raises the leader epoch; a leader that removes a slow replica does not."""
    history, fold = begun(t={0: (0, 1, 2)})
    history.state("t", 0, leader=0, isr=[0, 1])
    assert not only(fold.follow(history), IsrShrunk).by_controller
    history.state("t", 0, leader=0, isr=[0, 1, 2])
    assert only(fold.follow(history), IsrExpanded).who == (2,)
    history.state("t", 0, leader=0, isr=[0], leader_epoch=1)
    shrunk = only(fold.follow(history), IsrShrunk)
    assert (shrunk.who, shrunk.by_controller) == ((1, 2), True)
    assert (fold.state.control.counters.isr_shrinks, fold.state.control.counters.isr_expands) == (
        2,
        1,
    )


def test_a_write_of_a_deposed_controller_is_reported_but_not_a_leaders_isr_change() -> None:
    """An older controller epoch, written after the epoch's own znode, and the leader moved."""
    history, fold = begun(t={0: (0, 1, 2)})
    history.delete("/controller")
    history.elect(1)
    history.state("t", 0, leader=0, isr=[0, 1], controller_epoch=1)
    assert "StaleControllerWrite" not in kinds(fold.follow(history))
    history.state("t", 0, leader=1, isr=[0, 1], leader_epoch=1, controller_epoch=1)
    assert "StaleControllerWrite" in kinds(fold.follow(history))
    assert fold.state.control.controller.view.stale_writes == 1


def test_a_topics_creation_expansion_and_deletion_are_reported() -> None:
    """Created, expanded, its deletion requested, deleted."""
    history, fold = begun()
    history.topic("new", {0: [0]})
    history.state("new", 0, leader=0, isr=[0])
    assert only(fold.follow(history), TopicCreated).partitions == 1
    history.topic("new", {0: [0], 1: [1]})
    assert only(fold.follow(history), TopicExpanded).before == 1
    assert fold.counts().without_state == 1
    history.set("/admin/delete_topics/new", b"")
    history.state("new", 0, leader=-1, isr=[0], leader_epoch=1)
    assert kinds(fold.follow(history)) == ["TopicDeletionRequested"]
    assert (fold.counts().offline, fold.counts().deleting_topics) == (0, 1)
    history.topic_gone("new")
    history.delete("/admin/delete_topics/new")
    assert only(fold.follow(history), TopicDeleted).requested
    assert fold.counts().topics == 1
    assert list(fold.state.topics.names()) == ["t"]


def test_a_topic_deleted_by_hand_is_reported_as_not_requested() -> None:
    """A topic's znode deleted by hand."""
    history, fold = begun()
    history.topic_gone("t")
    reported = only(fold.follow(history), TopicDeleted)
    assert (reported.requested, reported.source_number) == (False, history.zxid)


def test_a_deletion_found_by_a_resync_is_reported_as_requested() -> None:
    """The sweep deletes requests of deletion last, so the topic's end still sees its request."""
    history, fold = begun()
    history.set("/admin/delete_topics/t", b"")
    history.topic_gone("t", seen=False)
    history.delete("/admin/delete_topics/t", seen=False)
    history.resync()
    assert only(fold.follow(history), TopicDeleted).requested


def test_a_recreated_topic_is_reported_without_an_unclean_election() -> None:
    """Deleted and created again between two reads: no unclean election, no expansion."""
    history, fold = begun(t={0: (0, 1)})
    history.topic_gone("t", seen=False)
    history.topic("t", {0: [2]})
    history.state("t", 0, leader=2, isr=[2])
    reported = fold.follow(history)
    assert kinds(reported) == ["TopicDeleted", "TopicCreated"]
    assert fold.state.control.counters.leader_elections == {"initial": 1}
    assert fold.state.control.counters.unclean_elections == 0


def test_a_record_without_czxid_keeps_the_known_czxid() -> None:
    """So a topic that is created again after it is still reported as another one."""
    history, fold = begun(t={0: (0, 1)})
    history.set("/brokers/topics/t", {"version": 3, "partitions": {"0": [1, 0]}})
    history.changes[-1] = replaced(history.changes[-1], czxid=None)
    history.topic_gone("t", seen=False)
    history.topic("t", {0: [2]})
    assert kinds(fold.follow(history)) == ["TopicDeleted", "TopicCreated"]


@pytest.mark.parametrize("end_seen", [False, True])
def test_a_recreated_topic_inherits_no_leader(end_seen: bool) -> None:
    """Its former states end with it, although their deletes are reported later; until then the digest holds them."""
    history, fold = begun(t={0: (0, 1), 1: (1, 0)})
    history.topic_gone("t", seen=False)
    if end_seen:
        history.report("/brokers/topics/t")
    history.topic("t", {0: [2]})
    fold.follow(history)
    topic = fold.state.topics.get("t")
    assert topic is not None
    assert {p: (r.replicas, r.leader, r.isr) for p, r in topic.partitions.items()} == {
        0: ((2,), None, ()),
        1: (None, None, ()),
    }
    assert (fold.counts().without_state, fold.broker_view(0).leaders) == (1, 0)
    for partition in (0, 1):
        history.report(state_path("t", partition))
    history.state("t", 0, leader=2, isr=[2])
    history.reconciled()
    assert "Divergent" not in kinds(fold.follow(history))
    assert fold.state.control.log.view.divergent_since is None
    assert fold.state.control.counters.leader_elections == {"initial": 1}
    topic = fold.state.topics.get("t")
    assert topic is not None
    assert {p: r.leader for p, r in topic.partitions.items()} == {0: 2}


def test_a_topic_that_was_unreadable_at_first_is_created_when_it_is_read() -> None:
    """Its znode counts at once, its partitions once they are known."""
    history, fold = begun()
    history.set("/brokers/topics/new", "{")
    assert kinds(fold.follow(history)) == ["Anomaly"]
    assert (fold.counts().topics, fold.counts().partitions) == (2, 2)
    history.topic("new", {0: [0]})
    assert kinds(fold.follow(history)) == ["TopicCreated"]


def test_offline_and_online_are_reported() -> None:
    """Leader -1 and back; the figure counts a dead leader too, before the controller has written."""
    history, fold = begun(t={0: (2,)})
    history.broker_gone(2)
    fold.follow(history)
    assert (fold.counts().offline, fold.counts().pending_leader_writes) == (1, 1)
    history.state("t", 0, leader=-1, isr=[2], leader_epoch=1)
    assert kinds(fold.follow(history)) == ["PartitionsOffline"]
    assert (fold.counts().offline, fold.counts().leaderless) == (1, 1)
    history.broker(2)
    history.state("t", 0, leader=2, isr=[2], leader_epoch=2)
    assert "PartitionsOnline" in kinds(fold.follow(history))
    assert fold.counts().offline == 0


def test_a_partition_without_a_leader_goes_offline_once() -> None:
    """From none (-1) to the leader during a deletion (-2) nothing is reported: it was already offline."""
    history, fold = begun(t={0: (2,)})
    history.state("t", 0, leader=-1, isr=[2], leader_epoch=1)
    assert kinds(fold.follow(history)) == ["PartitionsOffline"]
    history.state("t", 0, leader=-2, isr=[2], leader_epoch=2)
    assert kinds(fold.follow(history)) == []
    assert (fold.counts().offline, fold.counts().leaderless) == (1, 1)


def test_a_topic_deleted_before_the_baseline_is_not_reported() -> None:
    """Nothing is reported of it."""
    history, fold = small_cluster(), Fold()
    history.changes.pop()  # the resync continues
    history.seq -= 1
    history.topic_gone("t")
    assert fold.follow(history) == []
    assert fold.state.topics.get("t") is None


def test_a_reassignment_of_the_old_tools_explains_a_moved_leader() -> None:
    """While /admin/reassign_partitions exists."""
    history, fold = small_cluster(t={0: (0, 1, 2)}), Fold()
    fold.follow(history)
    history.set("/admin/reassign_partitions", {"version": 1, "partitions": []})
    history.state("t", 0, leader=2, isr=(0, 1, 2), leader_epoch=1)
    event = only(fold.follow(history), LeadersElected)
    assert event.election is LeaderElectionKind.REASSIGNMENT


def test_an_assignment_that_shrinks_keeps_only_partitions_with_a_state() -> None:
    """Kafka never writes one; a partition without a state is dropped, another stays until its state ends."""
    history, fold = begun(t={0: (0, 1), 1: (1, 2)})
    history.topic("t", {0: (0, 1), 1: (1, 2), 2: (2, 0)})
    history.topic("t", {0: (0, 1)})
    fold.follow(history)
    topic = fold.state.topics.get("t")
    assert topic is not None
    assert sorted(topic.partitions) == [0, 1]
    assert topic.partitions[1].replicas is None
    assert fold.counts().partitions == 1


def test_a_broker_that_was_never_registered_may_leave_an_isr() -> None:
    """It counts as no leave of a broker."""
    history, fold = begun(t={0: (0, 9)})
    history.state("t", 0, leader=0, isr=(0,), leader_epoch=0)
    event = only(fold.follow(history), IsrShrunk)
    assert event.who == (9,)
    assert 9 not in fold.state.control.brokers


def test_a_reassignment_starts_at_the_mtime_of_its_first_write() -> None:
    """The time at which the watcher reads it, and later writes, do not change the start."""
    history, fold = begun(t={0: (0, 1)})
    history.topic("t", {0: (0, 1, 2)}, adding={0: (2,)}, seen=False)
    began = history.now
    history.now += 90_000
    read = history.report("/brokers/topics/t")
    assert read.observed_at > began == read.mtime
    fold.follow(history)
    assert fold.cluster_view().pending.oldest_reassignment_at == began
    history.topic("t", {0: (0, 1, 2), 1: (0, 1)}, adding={0: (2,)})
    fold.follow(history)
    assert fold.cluster_view().pending.oldest_reassignment_at == began
    history.topic("t", {0: (0, 1, 2), 1: (0, 1)})
    fold.follow(history)
    assert fold.cluster_view().pending.oldest_reassignment_at is None


def test_a_reassignment_without_an_mtime_starts_at_its_record() -> None:
    """A log without mtime gives the time at which the watcher read it."""
    history, fold = begun(t={0: (0, 1)})
    history.topic("t", {0: (0, 1, 2)}, adding={0: (2,)})
    history.changes[-1] = replaced(history.changes[-1], mtime=None)
    fold.follow(history)
    began = history.changes[-1].observed_at
    assert fold.cluster_view().pending.oldest_reassignment_at == began
