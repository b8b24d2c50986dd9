"""Topics and partitions: assignments, leaders, ISRs, and which election made a leader.

The rule: an event is read off the step from the old state to the new one. Where ZooKeeper merged
several steps into one, the step that is left is told as it is, and classed "unknown" if it fits
no election of Kafka's (kafka.controller.PartitionStateMachine and Election, 3.9).
"""

from __future__ import annotations

import msgspec

from controller_model import election_ledger
from controller_model.bookkeeping import steps_merged
from controller_model.changes import ZnodeChange
from controller_model.cluster import ClusterState, ControlPlane, Mark, PartitionRecord, TopicState
from controller_model.events import (
    AnyEvent,
    IsrExpanded,
    IsrShrunk,
    LeaderElectionKind,
    LeadersElected,
    PartitionsOffline,
    PartitionsOnline,
    ReassignmentCompleted,
    ReassignmentStarted,
    StaleControllerWrite,
    TopicCreated,
    TopicDeleted,
    TopicExpanded,
    where,
)
from controller_model.ids import Position, TopicPartition, new_tuple
from controller_model.views import Failover
from controller_model.znodes import (
    PartitionStateZnode,
    TopicZnode,
    Znode,
    ZnodeKind,
    decode_partition_state,
    decode_topic,
)

# Python 3.11 finds a member of an Enum by running Python code: here once, not with each change.
_UNDER_WAY = Failover.UNDER_WAY
_INITIAL = LeaderElectionKind.INITIAL
_OFFLINE = LeaderElectionKind.OFFLINE
_UNCLEAN = LeaderElectionKind.UNCLEAN
_PREFERRED = LeaderElectionKind.PREFERRED
_REASSIGNMENT = LeaderElectionKind.REASSIGNMENT
_CONTROLLED_SHUTDOWN = LeaderElectionKind.CONTROLLED_SHUTDOWN
_UNKNOWN = LeaderElectionKind.UNKNOWN
_REASSIGN_PARTITIONS = ZnodeKind.REASSIGN_PARTITIONS.value


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
    recreated = before > 0 and _is_another(topic.mark, change)
    count = len(assignment.partitions)
    created = topic.mark is None or recreated or (before == 0 and count > 0)
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
    return events + election_ledger.recount_due(state, change)


def end_topic(state: ClusterState, znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Take the end of a topic's znode; what states are left go with their own znodes."""
    topic = state.touch(znode.name)
    state.control.topics -= topic.mark is not None
    topic.mark = None
    topic.adding, topic.removing = {}, {}
    topic.topic_id = None
    topic.reassigning_since = None
    state.control.reassigning.pop(topic.name, None)
    for partition, record in list(topic.partitions.items()):
        record.replicas = None
        if record.mark is None:
            del topic.partitions[partition]
    if not state.control.log.baseline:
        return []
    requested = znode.name in state.control.deleting
    deleted = TopicDeleted(**where(change), topic=znode.name, requested=requested)
    return [deleted, *election_ledger.recount_due(state, change)]


def set_partition_state(
    state: ClusterState, znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Take a partition's leader and ISR."""
    new = decode_partition_state(payload)
    control = state.control
    topic = state.touch_state(znode.name, znode.partition)
    record = record_of(topic, znode.partition)
    # Only failover work under way counts what is due, and a state of a partition does not begin it.
    counting = control.controller.failover is _UNDER_WAY
    due = counting and _is_due(state, topic, record)
    events: list[AnyEvent] = []
    if not control.log.baseline:
        pass
    elif record.leader is None or _is_another(record.mark, change):
        _count_election(state, _INITIAL)
    else:
        # By place, and without `where`: both cost a part of a microsecond with each change.
        events = _Step(
            state,
            control,
            topic,
            znode.partition,
            record,
            record.leader,
            new,
            change,
            change.observed_at,
            control.log.position,
            change.mzxid if change.mzxid is not None else change.read_zxid,
            (new_tuple(TopicPartition, (topic.name, znode.partition)),),
        ).events()
    record.leader = new.leader
    record.isr = new.isr
    record.leader_epoch = new.leader_epoch
    record.controller_epoch = new.controller_epoch
    record.leader_recovery_state = new.leader_recovery_state
    _note_work(control, new, change)
    if counting:
        by = _is_due(state, topic, record) - due
        events += election_ledger.move_due(state, change, by)
    return events


def _note_work(control: ControlPlane, new: PartitionStateZnode, change: ZnodeChange) -> None:
    """Note for the predictions that a state was written under the epoch, and any without a leader."""
    ledger = control.predictions
    epoch = control.controller.epoch
    if epoch is not None and new.controller_epoch >= epoch:
        ledger.written = True
    if new.leader < 0:
        ledger.leaderless_zxid = max(ledger.leaderless_zxid, change.mzxid or 0)


def end_partition_state(state: ClusterState, znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Take the end of a partition's state that is held."""
    topic = state.touch_state(znode.name, znode.partition)
    record = topic.partitions[znode.partition]
    due = _is_due(state, topic, record)
    if record.replicas is None:
        del topic.partitions[znode.partition]
    else:
        topic.partitions[znode.partition] = PartitionRecord(replicas=record.replicas)
    return election_ledger.move_due(state, change, -due)


def _is_another(mark: Mark | None, change: ZnodeChange) -> bool:
    """Tell whether a znode was deleted and made again between two reads."""
    if mark is None or mark.czxid == change.czxid:
        return False
    return bool(mark.czxid and change.czxid)


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
        if record.mark is None:
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


def _count_election(state: ClusterState, kind: LeaderElectionKind) -> None:
    elections = state.control.leader_elections
    name = str(kind)
    elections[name] = elections.get(name, 0) + 1


class _Step(msgspec.Struct, gc=False):
    """One partition's step from the state that is held to a new one."""

    state: ClusterState
    control: ControlPlane
    topic: TopicState
    partition: int
    old: PartitionRecord
    old_leader: int
    new: PartitionStateZnode
    change: ZnodeChange
    at: int
    position: Position
    zxid: int | None
    partitions: tuple[TopicPartition]

    def events(self) -> list[AnyEvent]:
        """Count what happened and tell it."""
        events = self._stale_write()
        if self.topic.name in self.control.deleting:
            return events
        if self.new.leader != self.old_leader:
            events += self._leader_events()
        if self.new.isr != self.old.isr:
            events += self._isr_events()
        return events

    def _stale_write(self) -> list[AnyEvent]:
        ledger = self.control.controller
        current = ledger.epoch
        if current is None or self.new.controller_epoch >= current:
            return []
        moved = (self.new.leader, self.new.leader_epoch) != (
            self.old_leader,
            self.old.leader_epoch,
        )
        newer_than_epoch = (self.change.mzxid or 0) > ledger.epoch_zxid
        if not (moved and newer_than_epoch):
            return []
        ledger.stale_writes += 1
        return [
            StaleControllerWrite(
                controller_epoch=self.new.controller_epoch,
                current_epoch=current,
                partitions=self.partitions,
                at=self.at,
                position=self.position,
                zxid=self.zxid,
            )
        ]

    def _leader_events(self) -> list[AnyEvent]:
        old, new = self.old_leader, self.new.leader
        if new < 0:
            return (
                [
                    PartitionsOffline(
                        from_broker=old,
                        partitions=self.partitions,
                        at=self.at,
                        position=self.position,
                        zxid=self.zxid,
                    )
                ]
                if old >= 0
                else []
            )
        kind = self._election()
        _count_election(self.state, kind)
        self.control.unclean_elections += kind is _UNCLEAN
        events: list[AnyEvent] = [
            LeadersElected(
                election=kind,
                from_broker=old,
                to_broker=new,
                controller_epoch=self.new.controller_epoch,
                partitions=self.partitions,
                at=self.at,
                position=self.position,
                zxid=self.zxid,
            )
        ]
        if old < 0:
            events.append(
                PartitionsOnline(
                    to_broker=new,
                    partitions=self.partitions,
                    at=self.at,
                    position=self.position,
                    zxid=self.zxid,
                )
            )
        return events

    def _election(self) -> LeaderElectionKind:
        new = self.new
        if new.leader not in self.old.isr:
            # Only an unclean election leads with a replica that was not in sync. One that rejoined
            # unseen before it was elected looks the same, unless a step is missing.
            clean_possible = (
                self._steps_are_missing() and new.leader_recovery_state == 0 and len(new.isr) > 1
            )
            return _UNKNOWN if clean_possible else _UNCLEAN
        if self.old_leader < 0 or not self._live(self.old_leader):
            return _OFFLINE
        return self._election_from_live_leader()

    def _election_from_live_leader(self) -> LeaderElectionKind:
        if self.old_leader in self.topic.removing.get(self.partition, ()):
            return _REASSIGNMENT
        if self.old_leader in self.old.isr and self.old_leader not in self.new.isr:
            # In a resync the old leader may be gone as well: only its end will tell.
            if self.control.log.resync is not None:
                return _UNKNOWN
            failed = self.control.brokers[self.old_leader].log_dir_failed
            return _OFFLINE if failed else _CONTROLLED_SHUTDOWN
        replicas = self.old.replicas or ()
        if replicas and replicas[0] == self.new.leader:
            return _PREFERRED
        if _REASSIGN_PARTITIONS in self.control.marks:
            return _REASSIGNMENT
        return _UNKNOWN

    def _steps_are_missing(self) -> bool:
        """Tell whether ZooKeeper merged updates of this state before they could be read."""
        mark = self.old.mark
        merged = mark is not None and steps_merged(mark, self.change.version) > 0
        return merged or self.new.leader_epoch > self.old.leader_epoch + 1

    def _isr_events(self) -> list[AnyEvent]:
        before, after = set(self.old.isr), set(self.new.isr)
        if before == after:
            return []
        left = tuple(b for b in self.old.isr if b not in after)
        joined = tuple(b for b in self.new.isr if b not in before)
        by_controller = self.new.leader_epoch != self.old.leader_epoch
        events: list[AnyEvent] = []
        if left:
            self.control.isr_shrinks += 1
            for broker in left:
                self._note_leave(broker, by_controller=by_controller)
            events.append(
                IsrShrunk(
                    who=left,
                    leader=self.new.leader,
                    by_controller=by_controller,
                    partitions=self.partitions,
                    at=self.at,
                    position=self.position,
                    zxid=self.zxid,
                )
            )
        if joined:
            self.control.isr_expands += 1
            events.append(
                IsrExpanded(
                    who=joined,
                    leader=self.new.leader,
                    partitions=self.partitions,
                    at=self.at,
                    position=self.position,
                    zxid=self.zxid,
                )
            )
        return events

    def _note_leave(self, broker: int, *, by_controller: bool) -> None:
        record = self.control.brokers.get(broker)
        if record is None:
            return
        record.isr_leaves += 1
        # A replica that a reassignment takes away leaves the ISR as well.
        removed = broker in self.topic.removing.get(self.partition, ())
        in_resync = self.control.log.resync is not None
        record.drained += by_controller and record.live and not removed and not in_resync

    def _live(self, broker: int) -> bool:
        record = self.control.brokers.get(broker)
        return record is not None and record.live
