"""Snapshots of the metadata log: the whole state at an offset, applied over what is held.

The rule: what a snapshot names is so from then on, and what it does not name goes, but only once it was read to its end
without a hole. It holds no elections and no times: across it, elections are an interval by the epoch.
"""

from controller_model.facts.facts import (
    BrokerConfigIs,
    ControllerEpochIs,
    ControllerIs,
    CountingStarts,
    ElectionsAre,
    FeatureIs,
    MigrationStateIs,
    PartitionGone,
    RegisteredControllerIs,
    TopicConfigIs,
    TopicIs,
)
from controller_model.kafka.cluster_facts import DEFAULT_BROKER
from controller_model.kafka.ids import NO_CONTROLLER, Position
from controller_model.kafka.metadata_records import (
    BROKER_RESOURCE,
    MIN_ISR,
    TOPIC_RESOURCE,
    UNCLEAN,
)
from controller_model.records.events import AnyEvent, BrokerEnd
from controller_model.records.metadata_log import (
    NO_EPOCH,
    SnapshotFinished,
    SnapshotRecord,
    SnapshotStarted,
)
from controller_model.sources.kraft.brokers import end_registration
from controller_model.sources.kraft.reading import NO_CAUSE, UNKNOWN_EPOCH, Reading
from controller_model.sources.kraft.state import (
    KraftState,
    SnapshotReading,
    count_from,
    quorum_of,
)
from controller_model.sources.kraft.topics import end_topic
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import mark_incomplete, mark_unfollowed
from controller_model.state.source import Handle
from controller_model.state.topic_state import TopicState


def reading_of(
    state: ClusterState, kraft: KraftState, record: SnapshotRecord, handle: Handle
) -> Reading:
    """Return what the records of a snapshot are read with."""
    return Reading(
        state,
        kraft,
        handle,
        record.observed_at,
        record.generation,
        record.end - 1,
        UNKNOWN_EPOCH,
        NO_CAUSE,
        kraft.snapshot,
    )


def start(state: ClusterState, kraft: KraftState, record: SnapshotStarted) -> list[AnyEvent]:
    """Begin to read a snapshot."""
    log = state.control.log
    log.view.resyncs += 1
    log.view.resync_under_way = True
    wanted, answers = log.wanted, record.answers
    if wanted is not None and answers is not None and answers >= wanted.number:
        log.wanted = None
    kraft.replaces = False
    count_from(state.control, record.end - 1)
    if not kraft.is_counting:
        return []
    reason = f"a snapshot is being read: {record.reason or 'no reason'}"
    return mark_unfollowed(state, at=record.observed_at, reason=reason, ask=False)


def finish(
    state: ClusterState, kraft: KraftState, record: SnapshotFinished, handle: Handle
) -> list[AnyEvent]:
    """End the reading of a snapshot: drop what it did not name, and hold the log at its end."""
    log, snapshot = state.control.log, kraft.snapshot
    reading = reading_of(state, kraft, record, handle)
    kraft.snapshot = None
    log.view.resync_under_way = False
    if snapshot is None or not snapshot.is_whole:
        kraft.is_whole = False
        reason = "a snapshot with a hole in it"
        return mark_incomplete(state, at=record.observed_at, reason=reason, ask=True)
    events = sweep(reading, snapshot)
    before = kraft.told_epoch if kraft.epoch == NO_EPOCH else kraft.epoch
    kraft.end, kraft.begins, kraft.known_end = (
        record.end,
        record.end,
        max(kraft.known_end, record.end),
    )
    kraft.epoch, kraft.appended_at = record.epoch, snapshot.at
    kraft.is_whole = True
    kraft.epochs = [(record.epoch, record.end - 1)]
    log.position = Position(record.generation, max(log.position.seq, record.end))
    log.views_from = Position(record.generation, snapshot.began)
    if not kraft.is_counting:
        kraft.is_counting = True
        events += _state_controller(reading, record)
        return events + handle(state, CountingStarts(reading.stamp, None, is_vacant=False))
    if log.baseline and record.epoch != before:
        events += _state_elections(reading, record.epoch, before)
        events += _state_controller(reading, record)
    count_from(state.control, kraft.end)
    return events


def _state_elections(reading: Reading, epoch: int, before: int) -> list[AnyEvent]:
    """State that there was at least one election, and at most one in each epoch."""
    view = reading.state.control.controller.view
    possible = max(0, epoch - before - 1) if before != NO_EPOCH else 0
    fact = ElectionsAre(
        reading.stamp,
        view.elections + 1,
        view.missed_elections + 1,
        missed_since=reading.state.control.controller.held_until,
        possible=view.possible_elections + possible,
    )
    return reading.state_fact(fact)


def _state_controller(reading: Reading, record: SnapshotFinished) -> list[AnyEvent]:
    """State who the controller was at the end of a snapshot, if its watcher knew; its election is not an event."""
    is_known = record.leader is not None and record.leader_epoch == record.epoch
    leader = record.leader if is_known and record.leader is not None else NO_CONTROLLER
    return [
        *reading.state_fact(ControllerIs(reading.stamp, leader, elected_at=None, is_same=True)),
        *reading.state_fact(ControllerEpochIs(reading.stamp, record.epoch)),
    ]


def sweep(reading: Reading, snapshot: SnapshotReading) -> list[AnyEvent]:
    """Drop what is held and not in a snapshot."""
    state, control = reading.state, reading.state.control
    events: list[AnyEvent] = []
    for broker in sorted(control.brokers.keys() - set(snapshot.brokers)):
        events += end_registration(reading, broker, BrokerEnd.UNKNOWN)
    configs = {(resource, name): set[str]() for resource, name, _ in snapshot.configs}
    for resource, name, key in snapshot.configs:
        configs[resource, name].add(key)
    for name in state.topics.names():
        events += _sweep_topic(reading, name, snapshot.topics.get(name), configs)
    config = control.config
    for broker_name in sorted({*config.broker_min_isr, *config.broker_unclean}):
        resource_name = "" if broker_name == DEFAULT_BROKER else broker_name
        named = configs.get((BROKER_RESOURCE, resource_name), set())
        min_isr, unclean = (
            config.broker_min_isr.get(broker_name),
            config.broker_unclean.get(broker_name),
        )
        fact = BrokerConfigIs(reading.stamp, broker_name, *_kept(named, min_isr, unclean))
        events += reading.state_fact(fact)
    quorum = quorum_of(control)
    for feature in sorted(quorum.features.keys() - set(snapshot.features)):
        events += reading.state_fact(FeatureIs(reading.stamp, feature, None))
    for each in sorted(quorum.controllers.keys() - set(snapshot.controllers)):
        events += reading.state_fact(RegisteredControllerIs(reading.stamp, each, None))
    if not snapshot.has_migration:
        events += reading.state_fact(MigrationStateIs(reading.stamp, None))
    return events


def _sweep_topic(
    reading: Reading, name: str, count: int | None, configs: dict[tuple[int, str], set[str]]
) -> list[AnyEvent]:
    """Drop a topic that is not named, or what of it is not."""
    state = reading.state
    topic = state.topics.peek(name) or TopicState(name)
    if count is None and topic.topic_id is not None:
        return end_topic(reading, name, topic.topic_id)
    events: list[AnyEvent] = []
    named = configs.get((TOPIC_RESOURCE, name), set())
    kept = _kept(named, topic.min_isr, topic.unclean)
    if kept != (topic.min_isr, topic.unclean):
        events += reading.state_fact(TopicConfigIs(reading.stamp, name, *kept))
    if count is not None and len(topic.partitions) > count:
        events += _cut(reading, name, count)
    return events


def _kept(
    named: set[str], min_isr: int | None, unclean: bool | None
) -> tuple[int | None, bool | None]:
    return (
        min_isr if MIN_ISR in named else None,
        unclean if UNCLEAN in named else None,
    )


def _cut(reading: Reading, name: str, count: int) -> list[AnyEvent]:
    """Drop the partitions of a topic from a number on: another history had created them."""
    state = reading.state
    events: list[AnyEvent] = []
    topic = state.topic(name)
    for partition in [each for each in topic.partitions if each >= count]:
        events += reading.state_fact(PartitionGone(reading.stamp, name, partition))
    topic = state.topic(name)
    left = {
        partition: held.replicas or ()
        for partition, held in topic.partitions.items()
        if partition < count
    }
    fact = TopicIs(
        reading.stamp,
        name,
        topic.topic_id,
        left,
        {each: topic.adding[each] for each in left if each in topic.adding},
        {each: topic.removing[each] for each in left if each in topic.removing},
        since=reading.at,
    )
    return events + reading.state_fact(fact)
