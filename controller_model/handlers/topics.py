"""Topics: assignments, reassignments and deletions.

A topic's assignment and its partitions' states are facts of their own, and either may come
first. The states of a topic end with it.
"""

from collections.abc import Collection, Mapping

import msgspec

from controller_model.facts.facts import (
    AssignmentsAre,
    TopicDeletionGone,
    TopicDeletionIs,
    TopicGone,
    TopicIs,
)
from controller_model.facts.stamp import Stamp, where
from controller_model.kafka.ids import TopicPartition
from controller_model.records.events import (
    AnyEvent,
    ReassignmentCompleted,
    ReassignmentStarted,
    TopicCreated,
    TopicDeleted,
    TopicDeletionCompleted,
    TopicDeletionRequested,
    TopicExpanded,
)
from controller_model.state.cluster import ClusterState
from controller_model.state.topic_state import PartitionRecord, TopicState


def apply_topic(state: ClusterState, fact: TopicIs) -> list[AnyEvent]:
    """Apply a topic's assignment."""
    old = state.topic(fact.topic)
    is_reassigned = any(fact.adding.get(p) or fact.removing.get(p) for p in fact.partitions)
    since = fact.since if old.reassigning_since is None else old.reassigning_since
    before = sum(record.replicas is not None for record in old.partitions.values())
    new = msgspec.structs.replace(
        old,
        partitions=_assigned(old, fact),
        adding=fact.adding,
        removing=fact.removing,
        topic_id=fact.topic_id,
        reassigning_since=since if is_reassigned else None,
        exists=True,
        unreadable=tuple(part for part in old.unreadable if part != fact.stamp.place),
        origin=fact.origin,
    )
    state.put_topic(new)
    if not state.control.log.baseline:
        return []
    return _topic_events(state, fact, old, new, before)


def apply_assignments(state: ClusterState, fact: AssignmentsAre) -> list[AnyEvent]:
    """Apply new partitions of a topic, and other replicas of held ones."""
    old, about, name = state.topic(fact.topic), where(fact.stamp), fact.topic
    before = len(old.partitions)
    partitions = {
        partition: msgspec.structs.replace(record, replicas=replicas)
        if (record := old.partitions.get(partition)) is not None
        else PartitionRecord(replicas)
        for partition, replicas in fact.partitions.items()
    }
    adding = _merged(old.adding, fact.adding, fact.partitions)
    removing = _merged(old.removing, fact.removing, fact.partitions)
    since = fact.since if old.reassigning_since is None else old.reassigning_since
    new = msgspec.structs.replace(
        old,
        adding=adding,
        removing=removing,
        reassigning_since=since if adding or removing else None,
    )
    state.put_assignments(old, new, partitions)
    if not state.control.log.baseline:
        return []
    events: list[AnyEvent] = []
    reassigned = {partition for partition in partitions if _is_reassigned(old, partition)}
    now = {partition for partition in partitions if _is_reassigned(new, partition)}
    if started := _named(name, now - reassigned):
        events.append(ReassignmentStarted(topic=name, partitions=started, **about))
    if completed := _named(name, reassigned - now):
        events.append(ReassignmentCompleted(topic=name, partitions=completed, **about))
    count = len(new.partitions)
    if count > before:
        events.append(TopicExpanded(topic=name, before=before, partitions=count, **about))
    return events


def _merged(
    held: Mapping[int, tuple[int, ...]],
    stated: Mapping[int, tuple[int, ...]],
    partitions: Collection[int],
) -> Mapping[int, tuple[int, ...]]:
    """Return the replicas of each partition, as stated for these partitions, and as held for all others."""
    if not stated and held.keys().isdisjoint(partitions):
        return held
    left = {each: replicas for each, replicas in held.items() if each not in partitions}
    return left | {each: replicas for each, replicas in stated.items() if replicas}


def _topic_events(
    state: ClusterState, fact: TopicIs, old: TopicState, new: TopicState, before: int
) -> list[AnyEvent]:
    """Return the events of a new assignment: a topic created, recreated or expanded, and reassignments."""
    about, name, count = where(fact.stamp), fact.topic, len(fact.partitions)
    events: list[AnyEvent] = []
    is_recreated = before > 0 and fact.is_another
    if is_recreated:
        events.append(_deleted(state, fact.stamp, name))
    else:
        reassigned = {p for p in (*old.adding, *old.removing) if _is_reassigned(old, p)}
        now = {p for p in fact.partitions if _is_reassigned(new, p)}
        if started := _named(name, now - reassigned):
            events.append(ReassignmentStarted(topic=name, partitions=started, **about))
        if completed := _named(name, (reassigned - now) & fact.partitions.keys()):
            events.append(ReassignmentCompleted(topic=name, partitions=completed, **about))
    if not old.exists or is_recreated or (before == 0 and count > 0):
        events.append(TopicCreated(topic=name, partitions=count, **about))
    elif count > before:
        events.append(TopicExpanded(topic=name, before=before, partitions=count, **about))
    return events


def _assigned(old: TopicState, fact: TopicIs) -> Mapping[int, PartitionRecord]:
    """Return a topic's partitions under a new assignment; of an outdated state only the origin stays."""
    partitions: dict[int, PartitionRecord] = {}
    for partition, record in old.partitions.items():
        replicas = fact.partitions.get(partition)
        if partition in fact.outdated:
            partitions[partition] = PartitionRecord(replicas, origin=record.origin)
        elif replicas is not None or record.is_stated:
            partitions[partition] = msgspec.structs.replace(record, replicas=replicas)
    for partition, replicas in fact.partitions.items():
        if partition not in partitions:
            partitions[partition] = PartitionRecord(replicas)
    return partitions


def _is_reassigned(topic: TopicState, partition: int) -> bool:
    return bool(topic.adding.get(partition) or topic.removing.get(partition))


def _named(topic: str, partitions: set[int]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, partition) for partition in sorted(partitions))


def apply_topic_end(state: ClusterState, fact: TopicGone) -> list[AnyEvent]:
    """Apply the deletion of a topic: its states are gone; each origin ends with its own value."""
    name = fact.topic
    old = state.topic(name)
    left = {
        partition: PartitionRecord(origin=record.origin)
        for partition, record in old.partitions.items()
        if record.origin is not None
    }
    new = TopicState(
        name,
        left,
        min_isr=old.min_isr,
        unclean=old.unclean,
        config_origin=old.config_origin,
        unreadable=tuple(part for part in old.unreadable if part != fact.stamp.place),
        view_digests=old.view_digests,
    )
    state.put_topic(new)
    if not state.control.log.baseline:
        return []
    return [_deleted(state, fact.stamp, name, is_requested=fact.is_requested)]


def _deleted(
    state: ClusterState, stamp: Stamp, topic: str, *, is_requested: bool = False
) -> TopicDeleted:
    """Return the event of a topic's end, whether that was seen or another topic of its name stands in its place."""
    requested = is_requested or topic in state.control.deleting
    return TopicDeleted(**where(stamp), topic=topic, requested=requested)


def apply_deletion(state: ClusterState, fact: TopicDeletionIs) -> list[AnyEvent]:
    """Apply a request to delete a topic."""
    if fact.topic in state.control.deleting:
        return []
    state.set_deleting(fact.topic, fact.since)
    if not state.control.log.baseline:
        return []
    return [TopicDeletionRequested(**where(fact.stamp), topic=fact.topic)]


def apply_deletion_end(state: ClusterState, fact: TopicDeletionGone) -> list[AnyEvent]:
    """Apply that a topic does not wait for its deletion any more."""
    name = fact.topic
    requested_at = state.control.deleting.get(name)
    state.set_deleting(name, None)
    if requested_at is None or not state.control.log.baseline:
        return []
    is_deleted = not state.topic(name).exists
    return [
        TopicDeletionCompleted(
            **where(fact.stamp), topic=name, deleted=is_deleted, requested_at=requested_at
        )
    ]
