"""Partitions: leaders, ISRs, and the events of one step of a partition's state.

The rule: an event is derived from the step from the held state to the new one. Why a leader changed
is in the fact. If several steps were merged into one, that one is reported as it is.
"""

from controller_model.facts.facts import PartitionGone, PartitionIs
from controller_model.facts.stamp import where
from controller_model.kafka.coordinators import COORDINATOR_OF
from controller_model.kafka.ids import NO_LEADER
from controller_model.records.events import (
    AnyEvent,
    CoordinatorsMoved,
    IsrExpanded,
    IsrShrunk,
    LeaderElectionKind,
    LeadersElected,
    PartitionsOffline,
    PartitionsOnline,
    StaleControllerWrite,
)
from controller_model.records.recent import note_leave
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.topic_state import PartitionRecord, TopicState

# Python 3.11 looks up a member of an Enum in Python code: once here, instead of for each change.
_INITIAL, _UNCLEAN = LeaderElectionKind.INITIAL, LeaderElectionKind.UNCLEAN

_NOTHING = PartitionRecord()


def apply_partition(state: ClusterState, fact: PartitionIs) -> list[AnyEvent]:
    """Apply a partition's leader and ISR."""
    control = state.control
    topic = state.topic(fact.topic)
    old = topic.partitions.get(fact.partition, _NOTHING)
    events: list[AnyEvent] = []
    if not control.log.baseline:
        pass
    elif fact.is_first:
        elections = control.counters.leader_elections
        elections[_INITIAL] = elections.get(_INITIAL, 0) + 1
    else:
        _report_step(control, topic, old, fact, events)
    # By position: keywords cost a part of a microsecond for each change.
    record = PartitionRecord(
        old.replicas,
        fact.leader,
        fact.isr,
        fact.leader_epoch,
        fact.controller_epoch,
        fact.leader_recovery_state,
        fact.partition_epoch,
        False,
        fact.origin,
        fact.eligible,
        fact.directories,
    )
    state.put_partition(topic, fact.partition, record)
    if fact.topic in COORDINATOR_OF:
        events += _coordinators_moved(fact, events)
    return events


def _report_step(
    control: ControlPlane,
    topic: TopicState,
    old: PartitionRecord,
    fact: PartitionIs,
    events: list[AnyEvent],
) -> None:
    """Count what a step shows, and add it to the events."""
    if fact.stale_under is not None:
        held = control.controller.view
        held.stale_writes = (held.stale_writes or 0) + 1
        events.append(
            StaleControllerWrite(
                **where(fact.stamp),
                controller_epoch=fact.controller_epoch,
                current_epoch=fact.stale_under,
                partitions=fact.named,
            )
        )
    if topic.name in control.deleting:
        return
    if fact.leader != old.leader:
        _report_leader(control, old, fact, events)
    # A different order is no change: the preferred replica is the assignment's first, not the ISR's.
    if fact.isr != old.isr and set(fact.isr) != set(old.isr):
        _report_isr(control, topic, old, fact, events)


def _report_leader(
    control: ControlPlane, old: PartitionRecord, fact: PartitionIs, events: list[AnyEvent]
) -> None:
    before = NO_LEADER if old.leader is None else old.leader
    leader, stamp, named = fact.leader, fact.stamp, fact.named
    at, position, number = stamp.at, stamp.position, stamp.number
    if leader < 0:
        if before >= 0:
            gone = PartitionsOffline(
                from_broker=before, partitions=named, at=at, position=position, source_number=number
            )
            events.append(gone)
        return
    if fact.is_foreign:
        return
    kind, elections = fact.election, control.counters.leader_elections
    elections[kind] = elections.get(kind, 0) + 1
    if kind is _UNCLEAN:
        control.counters.unclean_elections += 1
    events.append(
        LeadersElected(
            election=kind,
            from_broker=before,
            to_broker=leader,
            controller_epoch=fact.controller_epoch,
            partitions=named,
            by=fact.asked_by,
            at=at,
            position=position,
            source_number=number,
        )
    )
    if before < 0:
        back = PartitionsOnline(
            to_broker=leader, partitions=named, at=at, position=position, source_number=number
        )
        events.append(back)


def _report_isr(
    control: ControlPlane,
    topic: TopicState,
    old: PartitionRecord,
    fact: PartitionIs,
    events: list[AnyEvent],
) -> None:
    before, after, stamp = old.isr, fact.isr, fact.stamp
    left = tuple([broker for broker in before if broker not in after])
    joined = tuple([broker for broker in after if broker not in before])
    if left:
        control.counters.isr_shrinks += 1
        for broker in left:
            _count_leave(control, topic, old, fact, broker)
        events.append(
            IsrShrunk(
                who=left,
                leader=fact.leader,
                by_controller=fact.by_controller,
                partitions=fact.named,
                at=stamp.at,
                position=stamp.position,
                source_number=stamp.number,
            )
        )
    if joined:
        control.counters.isr_expands += 1
        events.append(
            IsrExpanded(**where(fact.stamp), who=joined, leader=fact.leader, partitions=fact.named)
        )


def _count_leave(
    control: ControlPlane, topic: TopicState, old: PartitionRecord, fact: PartitionIs, broker: int
) -> None:
    held = control.brokers.get(broker)
    if held is None:
        return
    # A replica that a reassignment removes leaves the ISR as well. So does one that it has
    # already removed, if the assignment is read before the state.
    replicas = old.replicas
    is_removed = broker in topic.removing.get(fact.partition, ())
    if is_removed or (replicas is not None and broker not in replicas):
        return
    record = held.record
    record.isr_leaves += 1
    record.isr_leave_minutes = note_leave(record.isr_leave_minutes, fact.stamp.at)
    held.drained += broker in fact.drained
    control.put_broker(broker, held)


def _coordinators_moved(fact: PartitionIs, events: list[AnyEvent]) -> list[AnyEvent]:
    """Report that coordinators moved with the leaders of an internal topic."""
    return [
        CoordinatorsMoved(
            **where(fact.stamp),
            coordinator=COORDINATOR_OF[fact.topic],
            from_broker=event.from_broker,
            to_broker=event.to_broker if isinstance(event, LeadersElected) else NO_LEADER,
            partitions=event.partitions,
        )
        for event in events
        if isinstance(event, LeadersElected | PartitionsOffline)
    ]


def apply_partition_end(state: ClusterState, fact: PartitionGone) -> list[AnyEvent]:
    """Apply that a partition's state does not exist any more."""
    topic = state.topic(fact.topic)
    old = topic.partitions.get(fact.partition, _NOTHING)
    left = None if old.replicas is None else PartitionRecord(old.replicas)
    state.put_partition(topic, fact.partition, left)
    return []
