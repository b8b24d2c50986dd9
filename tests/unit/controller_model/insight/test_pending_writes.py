"""The pending writes from the controller, partition by partition."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from controller_model.insight.pending_writes import (
    PendingWrite,
    health_of,
    is_reassignment_pending,
    list_pending_writes,
)
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.records.completeness import Status
from controller_model.records.pending_writes import ControllerHealth, PendingWriteKind
from tests.support.histories import Fold, small_cluster
from tests.support.partition_facts import ALL, T0, part, up


def due(*partitions: PartitionFacts, cluster: ClusterFacts = ALL) -> list[PendingWrite]:
    """Return the pending writes in these partitions."""
    return list(list_pending_writes(partitions, cluster))


def test_each_due_write_has_the_state_to_be_written() -> None:
    """A new leader, none, an ISR removal, a leader that is back, a first state."""
    cluster = up(1, 2, 3, gone_since={8: None, 9: 50, 7: 40})
    assert due(part(leader=9, isr=(9, 3, 2)), cluster=cluster) == [
        PendingWrite(PendingWriteKind.NEW_LEADER, *T0, since=50, leader=2, isr=(3, 2))
    ]
    assert due(part(leader=9, isr=(9,)), cluster=cluster) == [
        PendingWrite(PendingWriteKind.NEW_LEADER, *T0, since=50, leader=-1, isr=None)
    ]
    assert due(part(isr=(9, 1, 7, 8)), cluster=cluster) == [
        PendingWrite(PendingWriteKind.ISR_REMOVAL, *T0, since=40, isr=(1,))
    ]
    assert due(part(isr=(1, 8)), cluster=cluster)[0].since is None
    assert due(part(leader=-1, isr=(3,))) == [
        PendingWrite(PendingWriteKind.LEADER_BACK, *T0, leader=3, isr=(3,), sure=False)
    ]
    assert due(part(leader=-1, isr=(9,))) == []
    assert due(part(leader=None, isr=(), replicas=(9, 3, 2))) == [
        PendingWrite(PendingWriteKind.FIRST_STATE, *T0, leader=3, isr=(3, 2))
    ]
    assert due(part(leader=None, isr=(), replicas=(9,))) == []
    assert due(part()) == []


def test_broker_0_leads_like_any_other_broker() -> None:
    """Its id does not mean "no leader": if it is dead, a new leader is due; in a deletion, its leadership ends."""
    (write,) = due(part(replicas=(0, 1), leader=0, isr=(0, 1)))
    assert (write.kind, write.leader, write.sure) == (PendingWriteKind.NEW_LEADER, 1, True)
    (deletion,) = due(part(replicas=(0,), leader=0, isr=(0,), deleting=True), cluster=up(0))
    assert (deletion.kind, deletion.leader) == (PendingWriteKind.TOPIC_DELETION, -1)


def moving(**fields: Any) -> PartitionFacts:
    """Return a partition that moves from 1 to 2, under its second leader epoch."""
    half = {"replicas": (2, 3, 1), "adding": (2,), "removing": (1,), "leader_epoch": 1}
    return part(**{**half, **fields})


def test_a_reassignment_is_due_when_its_target_is_in_sync() -> None:
    """Phase B: the leader stays if it is a target, else the first target leads."""
    assert due(moving(leader=1, isr=(1, 3, 2))) == [
        PendingWrite(PendingWriteKind.REASSIGNMENT, *T0, leader=2, isr=(3, 2))
    ]
    assert due(moving(leader=3, isr=(3, 2)))[0].leader == 3
    assert due(moving(isr=(1, 3))) == []
    assert due(moving(replicas=(1,), adding=(), isr=(1,))) == []
    assert due(moving(leader=3, isr=(3, 2), leader_epoch=0)) == []


def test_a_reassignment_needs_a_target() -> None:
    """Nothing is due if every replica is to be removed, or if none moves."""
    still = part(replicas=(1, 2), isr=(1, 2), leader_epoch=1)
    assert not is_reassignment_pending(replace(still, removing=(1, 2)), {1, 2})
    assert not is_reassignment_pending(still, {1, 2})
    assert is_reassignment_pending(replace(still, adding=(2,)), {1, 2})


def test_a_reassignment_under_the_first_leader_epoch_may_have_come_before_the_state() -> None:
    """Kafka does not look at it again until the state changes: it is not certain that anything is due."""
    in_sync = part(replicas=(1, 2), adding=(2,), isr=(1, 2))
    assert not is_reassignment_pending(in_sync, {1, 2})
    assert is_reassignment_pending(replace(in_sync, leader_epoch=1), {1, 2})


def test_a_deletion_is_due_unless_any_partition_halts_it() -> None:
    """One dead replica or reassignment makes the whole topic ineligible; other topics continue."""
    begun = part(1, deleting=True, leader=-1)
    other = part(0, topic="u", deleting=True)
    reported = [
        PendingWrite(PendingWriteKind.TOPIC_DELETION, *other.id, leader=-1),
    ]
    assert due(part(deleting=True), begun, part(2, deleting=True, leader=None), other) == [
        PendingWrite(PendingWriteKind.TOPIC_DELETION, *T0, leader=-1),
        *reported,
    ]
    assert due(part(deleting=True), part(1, deleting=True, replicas=(1, 9)), other) == reported
    assert due(part(deleting=True), part(1, deleting=True, adding=(2,)), other) == reported


def test_controller_health_is_unknown_unless_figures_are_live() -> None:
    """Unless the figures are live, the controller's health is unknown."""
    history = small_cluster()
    history.heartbeat()
    fold = Fold()
    fold.follow(history)
    view = fold.cluster_view()
    assert health_of(view, Status.LIVE) is ControllerHealth.NOT_NEEDED
    assert all(
        health_of(view, status) is ControllerHealth.UNKNOWN
        for status in Status
        if status != Status.LIVE
    )
