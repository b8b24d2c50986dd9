"""Topics and partitions: assignments, leaders and ISRs.

The rule: a topic's znode holds its replicas, a partition's own znode its leader and ISR. Either may
be read first. The states of a topic end with it, because ZooKeeper holds no znode without its
parents.
"""

import msgspec

from controller_model.handlers import controller
from controller_model.handlers.partition_step import PartitionStep, count_election
from controller_model.kafka.coordinators import COORDINATOR_OF, Coordinator
from controller_model.kafka.ids import NO_LEADER, TopicPartition
from controller_model.records.changes import ZnodeChange
from controller_model.records.events import (
    AnyEvent,
    CoordinatorsMoved,
    LeaderElectionKind,
    LeadersElected,
    PartitionsOffline,
    ReassignmentCompleted,
    ReassignmentStarted,
    TopicCreated,
    TopicDeleted,
    TopicExpanded,
    where,
)
from controller_model.records.views import Failover
from controller_model.sources.zookeeper.payloads import (
    PartitionStateZnode,
    TopicZnode,
    decode_partition_state,
    decode_topic,
)
from controller_model.sources.zookeeper.znode_kinds import Znode
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.topic_state import PartitionRecord, TopicState
from controller_model.state.znode_stat import ZnodeStat

# Python 3.11 looks up a member of an Enum in Python code: once here, instead of for each change.
_UNDER_WAY = Failover.UNDER_WAY
_INITIAL = LeaderElectionKind.INITIAL

_NOTHING = PartitionRecord()


def set_topic(
    state: ClusterState, znode: Znode, change: ZnodeChange, payload: bytes, stat: ZnodeStat
) -> list[AnyEvent]:
    """Apply a topic's assignment."""
    assignment = decode_topic(payload)
    old = state.topic(znode.name)
    new = msgspec.structs.replace(
        old,
        partitions=_assigned(old, assignment, born=change.czxid or 0),
        adding=assignment.adding,
        removing=assignment.removing,
        topic_id=assignment.topic_id,
        reassigning_since=_reassigning_since(old, assignment, change),
        stat=stat,
    )
    state.put_topic(new)
    if not state.control.log.baseline:
        return []
    requested = znode.name in state.control.deleting
    events = _topic_events(old, new, change, requested=requested)
    return events + controller.finish_failover(state, change.observed_at)


def _topic_events(
    old: TopicState, new: TopicState, change: ZnodeChange, *, requested: bool
) -> list[AnyEvent]:
    """Return the events of a new assignment: a topic created, recreated or expanded, and reassignments."""
    about = where(change)
    before, count = _assigned_count(old), _assigned_count(new)
    events: list[AnyEvent]
    if recreated := before > 0 and _is_another(old.stat, change):
        events = [TopicDeleted(topic=new.name, requested=requested, **about)]
    else:
        events = _reassignment_events(old, new, change)
    if old.stat is None or recreated or (before == 0 and count > 0):
        events.append(TopicCreated(topic=new.name, partitions=count, **about))
    elif count > before:
        events.append(TopicExpanded(topic=new.name, before=before, partitions=count, **about))
    return events


def _assigned_count(topic: TopicState) -> int:
    return sum(record.replicas is not None for record in topic.partitions.values())


def end_topic(state: ClusterState, znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Apply the deletion of a topic's znode: its states are gone; each stat ends with its own znode."""
    old = state.topic(znode.name)
    left = {
        partition: PartitionRecord(stat=record.stat)
        for partition, record in old.partitions.items()
        if record.stat is not None
    }
    new = TopicState(
        znode.name,
        left,
        min_isr=old.min_isr,
        config_stat=old.config_stat,
        unclean=old.unclean,
        view_digests=old.view_digests,
    )
    state.put_topic(new)
    if not state.control.log.baseline:
        return []
    requested = znode.name in state.control.deleting
    deleted = TopicDeleted(**where(change), topic=znode.name, requested=requested)
    return [deleted, *controller.finish_failover(state, change.observed_at)]


def set_partition_state(
    state: ClusterState, znode: Znode, change: ZnodeChange, payload: bytes, stat: ZnodeStat
) -> list[AnyEvent]:
    """Apply a partition's leader and ISR."""
    new = decode_partition_state(payload)
    control = state.control
    topic = state.topic(znode.name)
    old = topic.partitions.get(znode.partition, _NOTHING)
    # Due writes are counted only during failover work, and a partition's state does not begin it.
    counting = control.controller.failover is _UNDER_WAY
    due = counting and _is_due(state, topic, old)
    events: list[AnyEvent] = []
    if not control.log.baseline:
        pass
    elif old.leader is None or _is_another(old.stat, change):
        count_election(control, _INITIAL)
    else:
        # By position, and without `where`: each saves a part of a microsecond for each change.
        PartitionStep(
            control,
            topic,
            znode.partition,
            old,
            old.leader,
            new,
            change,
            change.observed_at,
            control.log.position,
            change.mzxid if change.mzxid is not None else change.read_zxid,
            znode.partitions,
        ).emit(events)
    record = PartitionRecord(
        old.replicas,
        new.leader,
        new.isr,
        new.leader_epoch,
        new.controller_epoch,
        new.leader_recovery_state,
        stat,
    )
    state.put_partition(znode.name, znode.partition, record)
    _note_work(control, new, change)
    if counting:
        by = _is_due(state, topic, record) - due
        events += controller.count_pending(state, change, by)
    if znode.name in COORDINATOR_OF:
        events += _coordinators_moved(COORDINATOR_OF[znode.name], events, change)
    return events


def _coordinators_moved(
    coordinator: Coordinator, events: list[AnyEvent], change: ZnodeChange
) -> list[AnyEvent]:
    """Report that coordinators moved with the leaders of an internal topic."""
    return [
        CoordinatorsMoved(
            **where(change),
            coordinator=coordinator,
            from_broker=event.from_broker,
            to_broker=event.to_broker if isinstance(event, LeadersElected) else NO_LEADER,
            partitions=event.partitions,
        )
        for event in events
        if isinstance(event, LeadersElected | PartitionsOffline)
    ]


def _note_work(control: ControlPlane, new: PartitionStateZnode, change: ZnodeChange) -> None:
    """Note for the pending writes that a state was written under the epoch, or without a leader."""
    held = control.pending_writes
    epoch = control.controller.epoch
    if epoch is not None and new.controller_epoch >= epoch:
        held.written = True
    if new.leader < 0:
        held.leaderless_zxid = max(held.leaderless_zxid, change.mzxid or 0)


def end_partition_state(state: ClusterState, znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Apply the deletion of a partition's state."""
    topic = state.topic(znode.name)
    old = topic.partitions.get(znode.partition, _NOTHING)
    due = _is_due(state, topic, old)
    left = None if old.replicas is None else PartitionRecord(replicas=old.replicas)
    state.put_partition(znode.name, znode.partition, left)
    return controller.count_pending(state, change, -due)


def _is_another(stat: ZnodeStat | None, change: ZnodeChange) -> bool:
    """Return whether a znode was deleted and created again between two reads."""
    if stat is None or stat.czxid == change.czxid:
        return False
    return bool(stat.czxid and change.czxid)


def _is_due(state: ClusterState, topic: TopicState, record: PartitionRecord) -> bool:
    """Return whether a leader write is due for this partition (figures.pending_leader_writes)."""
    if record.replicas is None or record.leader is None or record.leader < 0:
        return False
    broker = state.control.brokers.get(record.leader)
    return (broker is None or not broker.live) and topic.name not in state.control.deleting


def _assigned(old: TopicState, new: TopicZnode, *, born: int) -> dict[int, PartitionRecord]:
    """Return a topic's partitions under a new assignment.

    A state that is older than its topic belongs to a former topic of this name and is dropped.
    ZooKeeper deletes no znode that has children, so such states are gone; their stats are kept
    until their deletion is seen as well.
    """
    partitions: dict[int, PartitionRecord] = {}
    for partition, record in old.partitions.items():
        replicas, stat = new.partitions.get(partition), record.stat
        if stat is not None and 0 < stat.mzxid < born:
            partitions[partition] = PartitionRecord(replicas, stat=stat)
        elif replicas is not None or stat is not None:
            partitions[partition] = msgspec.structs.replace(record, replicas=replicas)
    for partition, replicas in new.partitions.items():
        if partition not in partitions:
            partitions[partition] = PartitionRecord(replicas)
    return partitions


def _reassigning_since(old: TopicState, new: TopicZnode, change: ZnodeChange) -> int | None:
    if not any(new.adding.get(p) or new.removing.get(p) for p in new.partitions):
        return None
    if old.reassigning_since is not None:
        return old.reassigning_since
    return change.mtime or change.observed_at


def _reassignment_events(old: TopicState, new: TopicState, change: ZnodeChange) -> list[AnyEvent]:
    before = {p for p in (*old.adding, *old.removing) if _is_reassigned(old, p)}
    assigned = {p for p, record in new.partitions.items() if record.replicas is not None}
    after = {p for p in assigned if _is_reassigned(new, p)}
    events: list[AnyEvent] = []
    if started := _partitions(new.name, after - before):
        events.append(ReassignmentStarted(topic=new.name, partitions=started, **where(change)))
    if completed := _partitions(new.name, (before - after) & assigned):
        events.append(ReassignmentCompleted(topic=new.name, partitions=completed, **where(change)))
    return events


def _is_reassigned(topic: TopicState, partition: int) -> bool:
    return bool(topic.adding.get(partition) or topic.removing.get(partition))


def _partitions(topic: str, partitions: set[int]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, partition) for partition in sorted(partitions))
