"""Topics and partitions: assignments, leaders and ISRs.

The rule: a topic's znode says which replicas there are, a partition's own who leads and who is in
sync. Either may be read first; what states say ends with their topic, since ZooKeeper holds no
znode without its parents.
"""

from __future__ import annotations

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
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.topic_state import PartitionRecord, TopicState
from controller_model.state.znode_stat import ZnodeStat
from controller_model.znodes.znode_kinds import (
    PartitionStateZnode,
    TopicZnode,
    Znode,
    decode_partition_state,
    decode_topic,
)

# Python 3.11 finds a member of an Enum by running Python code: here once, not with each change.
_UNDER_WAY = Failover.UNDER_WAY
_INITIAL = LeaderElectionKind.INITIAL


def record_of(topic: TopicState, partition: int) -> PartitionRecord:
    """Return a partition's record, new if need be."""
    record = topic.partitions.get(partition)
    if record is None:
        record = topic.partitions[partition] = PartitionRecord()
    return record


def set_topic(
    state: ClusterState, znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Take a topic's assignment."""
    assignment = decode_topic(payload)
    topic = state.touch(znode.name)
    before = sum(record.replicas is not None for record in topic.partitions.values())
    told = where(change)
    requested = znode.name in state.control.deleting
    recreated = before > 0 and _is_another(topic.stat, change)
    count = len(assignment.partitions)
    created = topic.stat is None or recreated or (before == 0 and count > 0)
    _end_older_states(topic, change)
    _assign(topic, assignment)
    events = _reassignment_events(state, topic, assignment, change)
    topic.adding, topic.removing = assignment.adding, assignment.removing
    topic.topic_id = assignment.topic_id
    if not state.control.log.baseline:
        return []
    if recreated:
        events = [TopicDeleted(topic=znode.name, requested=requested, **told)]
    if created:
        events.append(TopicCreated(topic=znode.name, partitions=count, **told))
    elif count > before:
        events.append(TopicExpanded(topic=znode.name, before=before, partitions=count, **told))
    return events + controller.recount_due(state, change)


def end_topic(state: ClusterState, znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Take the end of a topic's znode: its states are gone, their stats go with their own znodes."""
    topic = state.touch(znode.name)
    state.control.topics -= topic.stat is not None
    topic.stat = None
    topic.adding, topic.removing = {}, {}
    topic.topic_id = None
    topic.reassigning_since = None
    state.control.reassigning.pop(topic.name, None)
    for partition, record in list(topic.partitions.items()):
        if record.stat is None:
            del topic.partitions[partition]
        else:
            topic.partitions[partition] = PartitionRecord(stat=record.stat)
    if not state.control.log.baseline:
        return []
    requested = znode.name in state.control.deleting
    deleted = TopicDeleted(**where(change), topic=znode.name, requested=requested)
    return [deleted, *controller.recount_due(state, change)]


def set_partition_state(
    state: ClusterState, znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Take a partition's leader and ISR."""
    new = decode_partition_state(payload)
    control = state.control
    topic = state.touch_state(znode.name, znode.partition)
    old = record_of(topic, znode.partition)
    # Only failover work under way counts what is due, and a state of a partition does not begin it.
    counting = control.controller.failover is _UNDER_WAY
    due = counting and _is_due(state, topic, old)
    events: list[AnyEvent] = []
    if not control.log.baseline:
        pass
    elif old.leader is None or _is_another(old.stat, change):
        count_election(control, _INITIAL)
    else:
        # By place, and without `where`: both cost a part of a microsecond with each change.
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
    # Another record and not its fields one by one, each of which costs half as much.
    record = topic.partitions[znode.partition] = PartitionRecord(
        old.replicas,
        new.leader,
        new.isr,
        new.leader_epoch,
        new.controller_epoch,
        new.leader_recovery_state,
        old.stat,
    )
    _note_work(control, new, change)
    if counting:
        by = _is_due(state, topic, record) - due
        events += controller.move_due(state, change, by)
    if znode.name in COORDINATOR_OF:
        events += _coordinators_moved(COORDINATOR_OF[znode.name], events, change)
    return events


def _coordinators_moved(
    coordinator: Coordinator, events: list[AnyEvent], change: ZnodeChange
) -> list[AnyEvent]:
    """Tell that coordinators moved with the leaders of an internal topic."""
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
    """Note for the predictions that a state was written under the epoch, and any without a leader."""
    predictions = control.predictions
    epoch = control.controller.epoch
    if epoch is not None and new.controller_epoch >= epoch:
        predictions.written = True
    if new.leader < 0:
        predictions.leaderless_zxid = max(predictions.leaderless_zxid, change.mzxid or 0)


def end_partition_state(state: ClusterState, znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Take the end of a partition's state that is held."""
    topic = state.touch_state(znode.name, znode.partition)
    record = topic.partitions[znode.partition]
    due = _is_due(state, topic, record)
    if record.replicas is None:
        del topic.partitions[znode.partition]
    else:
        topic.partitions[znode.partition] = PartitionRecord(replicas=record.replicas)
    return controller.move_due(state, change, -due)


def _is_another(stat: ZnodeStat | None, change: ZnodeChange) -> bool:
    """Tell whether a znode was deleted and made again between two reads."""
    if stat is None or stat.czxid == change.czxid:
        return False
    return bool(stat.czxid and change.czxid)


def _end_older_states(topic: TopicState, change: ZnodeChange) -> None:
    """Forget what states of a former topic of this name said: none is older than its topic.

    ZooKeeper deletes no znode that has children, so they are gone; their stats stay until that is
    told as well.
    """
    born = change.czxid or 0
    for partition, record in topic.partitions.items():
        if record.stat is not None and 0 < record.stat.mzxid < born:
            topic.partitions[partition] = PartitionRecord(record.replicas, stat=record.stat)


def _is_due(state: ClusterState, topic: TopicState, record: PartitionRecord) -> bool:
    """Tell whether the controller owes this partition a leader (figures.leader_writes_due)."""
    if record.replicas is None or record.leader is None or record.leader < 0:
        return False
    broker = state.control.brokers.get(record.leader)
    return (broker is None or not broker.live) and topic.name not in state.control.deleting


def _assign(topic: TopicState, assignment: TopicZnode) -> None:
    for partition, replicas in assignment.partitions.items():
        record_of(topic, partition).replicas = replicas
    for partition, record in list(topic.partitions.items()):
        if partition in assignment.partitions:
            continue
        record.replicas = None
        if record.stat is None:
            del topic.partitions[partition]


def _reassignment_events(
    state: ClusterState, topic: TopicState, new: TopicZnode, change: ZnodeChange
) -> list[AnyEvent]:
    before = {p for p in (*topic.adding, *topic.removing) if _is_reassigned(topic, p)}
    after = {p for p in new.partitions if new.adding.get(p) or new.removing.get(p)}
    if not after:
        topic.reassigning_since = None
        state.control.reassigning.pop(topic.name, None)
    elif topic.reassigning_since is None:
        topic.reassigning_since = change.mtime or change.observed_at
        state.control.reassigning[topic.name] = topic.reassigning_since
    if not state.control.log.baseline:
        return []
    told = where(change)
    events: list[AnyEvent] = []
    if started := _partitions(topic.name, after - before):
        events.append(ReassignmentStarted(topic=topic.name, partitions=started, **told))
    if completed := _partitions(topic.name, (before - after) & set(new.partitions)):
        events.append(ReassignmentCompleted(topic=topic.name, partitions=completed, **told))
    return events


def _is_reassigned(topic: TopicState, partition: int) -> bool:
    return bool(topic.adding.get(partition) or topic.removing.get(partition))


def _partitions(topic: str, partitions: set[int]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, partition) for partition in sorted(partitions))
