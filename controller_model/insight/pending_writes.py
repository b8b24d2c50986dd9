"""Which writes are pending from the controller now, partition by partition, and what they would write.

The kinds are those of `pending_writes`, computed from partitions instead of totals, so that
an operator sees names and expected leaders. `since` is when the end of a broker was seen; None if
nothing in ZooKeeper shows when a write became due.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from controller_model.insight.loss import settled
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.ids import NO_LEADER
from controller_model.records.completeness import Status
from controller_model.records.pending_writes import ControllerHealth, PendingWriteKind
from controller_model.records.views import ClusterView


class PendingWrite(msgspec.Struct, frozen=True):
    """A write that is due from the controller for a partition."""

    kind: PendingWriteKind
    topic: str
    partition: int
    since: Annotated[int, Meta(description="When it became due; null: not known.")] | None = None
    leader: Annotated[int, Meta(description="The leader it would write; -1: none.")] | None = None
    """None if the leader stays."""
    isr: tuple[int, ...] | None = None
    """The ISR that it would write; None if several are possible, or it stays."""
    sure: Annotated[
        bool, Meta(description="False: it may not be due (a failed log directory).")
    ] = True
    """A replica in a failed log directory, which ZooKeeper does not show, needs no write."""


def list_pending_writes(
    partitions: Iterable[PartitionFacts], cluster: ClusterFacts
) -> Iterator[PendingWrite]:
    """Yield the pending writes, at most one for each partition: the next one."""
    deleting: dict[str, list[PartitionFacts]] = {}
    for partition in partitions:
        if partition.deleting:
            deleting.setdefault(partition.topic, []).append(partition)
            continue
        if cluster.aborts_elections(partition):
            continue
        if partition.leader is None:
            write = _first_state(partition, cluster)
        elif partition.leader not in cluster.live:
            write = _new_leader(partition, cluster)
        else:
            write = _isr_removal(partition, cluster) or _reassignment(partition, cluster)
        if write is not None:
            yield write
    for topic in deleting.values():
        for partition in pending_deletions(topic, cluster.live):
            yield PendingWrite(PendingWriteKind.TOPIC_DELETION, *partition.id, leader=NO_LEADER)


def pending_deletions(
    topic: Sequence[PartitionFacts], live: Collection[int]
) -> list[PartitionFacts]:
    """Return the partitions of a topic to be deleted that the controller can begin to delete.

    A reassignment or a replica on a dead broker halts the whole topic (TopicDeletionManager.isTopicEligibleForDeletion).
    Once a partition is written without a leader, brokers have to answer before anything else is written.
    """
    if any(each.reassigning or not all(r in live for r in each.replicas) for each in topic):
        return []
    return [partition for partition in topic if partition.written_leader >= 0]


def is_reassignment_pending(partition: PartitionFacts, live: Collection[int]) -> bool:
    """Return whether the controller can complete a reassignment (KafkaController.isReassignmentComplete).

    It can if all target replicas are in the ISR. One that is not live leaves the ISR first, and a partition
    whose leader is gone gets another one first. A reassignment that waits for its replicas begins with a new leader
    epoch. Under the first leader epoch (0) the answer is False: the partition may have been reassigned before it had a
    state, and only a change of the state makes the controller look again, not its creation.
    """
    if not partition.reassigning or not partition.leader_epoch or partition.leader not in live:
        return False
    target, isr = partition.target, partition.isr
    return bool(target) and all(replica in isr and replica in live for replica in target)


def health_of(view: ClusterView, status: Status) -> ControllerHealth:
    """Return the controller's health for a reader: UNKNOWN unless the figures are live."""
    return view.pending_writes.health if status is Status.LIVE else ControllerHealth.UNKNOWN


def _first_state(partition: PartitionFacts, cluster: ClusterFacts) -> PendingWrite | None:
    # initializeLeaderAndIsrForPartitions: the first live replica leads, the live ones are in sync. A partition
    # that is reassigned before it has a state never gets one.
    live = tuple(replica for replica in partition.replicas if replica in cluster.live)
    if not live or partition.reassigning:
        return None
    return PendingWrite(PendingWriteKind.FIRST_STATE, *partition.id, leader=live[0], isr=live)


def _new_leader(partition: PartitionFacts, cluster: ClusterFacts) -> PendingWrite | None:
    leader, isr, _ = settled(partition, cluster, cluster.live)
    if partition.written_leader < 0:
        if leader == NO_LEADER:
            return None  # waits for a broker
        # The controller leaves one member in an ISR (ReplicaStateMachine): of two that live, neither is the
        # last one, in a failed log directory.
        is_sure = sum(member in cluster.live for member in partition.isr) > 1
        return PendingWrite(
            PendingWriteKind.LEADER_BACK, *partition.id, leader=leader, isr=isr, sure=is_sure
        )
    return PendingWrite(
        PendingWriteKind.NEW_LEADER,
        *partition.id,
        since=cluster.gone_since.get(partition.written_leader),
        leader=leader,
        isr=None if leader == NO_LEADER else isr,
    )


def _isr_removal(partition: PartitionFacts, cluster: ClusterFacts) -> PendingWrite | None:
    gone = [replica for replica in partition.isr if replica not in cluster.live]
    if not gone or len(partition.isr) == 1:
        return None  # the last member stays (ReplicaStateMachine.doRemoveReplicasFromIsr)
    ends = [end for replica in gone if (end := cluster.gone_since.get(replica)) is not None]
    _, isr, _ = settled(partition, cluster, cluster.live)
    return PendingWrite(
        PendingWriteKind.ISR_REMOVAL, *partition.id, since=min(ends, default=None), isr=isr
    )


def _reassignment(partition: PartitionFacts, cluster: ClusterFacts) -> PendingWrite | None:
    if not is_reassignment_pending(partition, cluster.live):
        return None
    leader, target = partition.written_leader, partition.target
    # Phase B: the leader stays if it is a target, else the first target leads.
    leader = leader if leader in target else target[0]
    isr = tuple(replica for replica in partition.isr if replica not in partition.removing)
    return PendingWrite(PendingWriteKind.REASSIGNMENT, *partition.id, leader=leader, isr=isr)
