"""Partitions of the metadata log: their replicas, leaders and ISRs, and why a leader was elected.

The rule: a change states only what it changes. The partition epoch grows by one with each, the leader epoch if the
leader is stated (org.apache.kafka.metadata.PartitionRegistration.merge). An unclean election is stated
(LeaderRecoveryState); a broker that is fenced or shuts down is stated in the same batch
(ReplicationControlManager.handleBrokerFenced, handleBrokerInControlledShutdown). A replica may not lead while its log
directory is offline (ReplicationControlManager.LeaderAcceptor), which depends on its partition and on its broker.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from controller_model.facts.facts import AssignmentsAre, PartitionIs, Replicas, TopicIs
from controller_model.kafka.elections import RECOVERING
from controller_model.kafka.ids import NO_LEADER, TopicPartition, new_tuple
from controller_model.kafka.kraft_elections import EligibleLeaders
from controller_model.kafka.metadata_records import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    Partition,
    PartitionChange,
)
from controller_model.records.events import AnyEvent, LeaderElectionKind
from controller_model.sources.kraft.reading import Reading
from controller_model.sources.kraft.state import KraftState
from controller_model.state.topic_state import PartitionRecord, TopicState
from controller_model.tracking import asked_elections

# Python 3.11 looks up a member of an Enum in Python code: once here, instead of for each change.
_OFFLINE = LeaderElectionKind.OFFLINE
_UNCLEAN = LeaderElectionKind.UNCLEAN
_PREFERRED = LeaderElectionKind.PREFERRED
_REASSIGNMENT = LeaderElectionKind.REASSIGNMENT
_CONTROLLED_SHUTDOWN = LeaderElectionKind.CONTROLLED_SHUTDOWN
_UNKNOWN = LeaderElectionKind.UNKNOWN

_NOTHING = PartitionRecord()

_UNPLACED = frozenset({MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY})


def read_partitions(
    reading: Reading, topic_id: str, records: Sequence[Partition]
) -> list[AnyEvent]:
    """Read consecutive records of whole partitions of one topic."""
    state = reading.state
    name = state.topics.name_of(topic_id)
    if name is None:
        return reading.odd(records[0], f"a partition of topic id {topic_id}, which has no name")
    topic = state.topic(name)
    partitions = {each.partition_id: each.replicas for each in records}
    adding = {each.partition_id: each.adding_replicas for each in records if each.adding_replicas}
    removing = {
        each.partition_id: each.removing_replicas for each in records if each.removing_replicas
    }
    stamp = reading.stamp
    if topic.exists:
        fact = AssignmentsAre(stamp, name, partitions, adding, removing, since=reading.at)
        events = reading.state_fact(fact)
    else:
        created = TopicIs(stamp, name, topic_id, partitions, adding, removing, since=reading.at)
        events = reading.state_fact(created)
    held = state.topic(name).partitions
    for each in records:
        events += _state_partition(reading, name, each, held[each.partition_id])
    if reading.snapshot is not None:
        named = reading.snapshot.topics
        named[name] = named.get(name, 0) + len(partitions)
    return events


def _state_partition(
    reading: Reading, topic: str, new: Partition, old: PartitionRecord
) -> list[AnyEvent]:
    election = _UNKNOWN
    if old.leader is not None and new.leader != old.leader and new.leader >= 0:
        is_unclean = new.leader_recovery_state == RECOVERING != old.leader_recovery_state
        election = _UNCLEAN if is_unclean else _UNKNOWN
    epoch = reading.epoch
    directories = _numbered(reading.kraft, new.directories)
    if reading.snapshot is not None and old.partition_epoch == new.partition_epoch:
        epoch = old.controller_epoch  # nothing was written since
    return reading.state_fact(
        PartitionIs(
            reading.stamp,
            topic,
            new.partition_id,
            new.leader,
            new.isr,
            new.leader_epoch,
            epoch,
            new.leader_recovery_state,
            (new_tuple(TopicPartition, (topic, new.partition_id)),),
            new.partition_epoch,
            is_first=old.leader is None,
            election=election,
            eligible=_eligible(
                new.eligible_leader_replicas,
                new.last_known_elr,
                _offline(reading.kraft, new.replicas, new.directories),
            ),
            directories=directories,
        )
    )


def read_change(reading: Reading, change: PartitionChange) -> list[AnyEvent]:
    """Read what changed of a partition."""
    state = reading.state
    name = state.topics.name_of(change.topic_id)
    topic = None if name is None else state.topic(name)
    partition = change.partition_id
    old = _NOTHING if topic is None else topic.partitions.get(partition, _NOTHING)
    if name is None or topic is None or old.replicas is None or old.leader is None:
        return reading.odd(
            change, f"partition {partition} of topic id {change.topic_id} is not known"
        )
    events: list[AnyEvent] = []
    is_reassigned = not (
        change.replicas is change.adding_replicas is change.removing_replicas is None
    )
    if is_reassigned:
        events += _state_replicas(reading, topic, change, old.replicas)
    leader = old.leader if change.leader is None else change.leader
    isr = old.isr if change.isr is None else change.isr
    election, asked_by = _UNKNOWN, None
    if leader != old.leader and leader >= 0:
        election = _election(reading, change, old, is_reassigned=is_reassigned)
        if election is _PREFERRED:
            control = state.control
            asked_by = asked_elections.origin_of(control, name, partition, at=control.now)
    cause = reading.cause.brokers
    recovery = change.leader_recovery_state
    eligible, directories = old.eligible, old.directories
    failed = () if eligible is None else eligible.failed
    if change.directories is not None:
        # Kafka states them with each change of the replicas that is one of theirs (PartitionChangeBuilder).
        directories = _numbered(reading.kraft, change.directories)
        replicas = old.replicas if change.replicas is None else change.replicas
        failed = _offline(reading.kraft, replicas, change.directories)
        eligible = _merged(eligible, change, failed)
    elif not (change.eligible_leader_replicas is change.last_known_elr is None):
        eligible = _merged(eligible, change, failed)
    # By position: keywords cost a part of a microsecond for each change.
    fact = PartitionIs(
        reading.stamp,
        name,
        partition,
        leader,
        isr,
        old.leader_epoch + (change.leader is not None),
        reading.epoch,
        old.leader_recovery_state if recovery is None else recovery,
        (new_tuple(TopicPartition, (name, partition)),),
        (old.partition_epoch or 0) + 1,
        None,
        False,
        election,
        asked_by,
        None,
        bool(cause) and not cause.isdisjoint(old.isr) and not cause.issubset(isr),
        (),
        False,
        eligible,
        directories,
    )
    return events + reading.state_fact(fact)


def state_directories(reading: Reading, broker: int) -> list[AnyEvent]:
    """State which replicas of a broker are offline, after its directories that are online have changed."""
    state = reading.state
    if not state.control.totals.replicas.get(broker):
        return []
    events: list[AnyEvent] = []
    for name in sorted(state.topics.names()):
        topic = state.topics.peek(name)
        if topic is None or topic.topic_id is None:
            continue
        for partition, old in list(topic.partitions.items()):
            replicas, held = old.replicas or (), old.eligible or EligibleLeaders()
            if broker not in replicas or old.leader is None:
                continue
            failed = _offline(reading.kraft, replicas, _named(reading.kraft, old.directories))
            if failed != held.failed:
                eligible = _eligible(held.elr, held.last_known, failed)
                events += reading.state_fact(
                    _restated(reading, topic.name, partition, old, eligible)
                )
    return events


def clear_eligible(reading: Reading, topic: TopicState) -> list[AnyEvent]:
    """Drop the eligible leader replicas of a topic's partitions (TopicDelta.replay of ClearElrRecord)."""
    events: list[AnyEvent] = []
    for partition, old in list(topic.partitions.items()):
        held = old.eligible
        if held is None or not (held.elr or held.last_known):
            continue
        fact = _restated(reading, topic.name, partition, old, _eligible((), (), held.failed))
        epoch = (old.partition_epoch or 0) + 1
        fact = msgspec.structs.replace(fact, partition_epoch=epoch, controller_epoch=reading.epoch)
        events += reading.state_fact(fact)
    return events


def _restated(
    reading: Reading,
    topic: str,
    partition: int,
    held: PartitionRecord,
    eligible: EligibleLeaders | None,
) -> PartitionIs:
    """Return a partition as it is held, but for who is eligible."""
    return PartitionIs(
        reading.stamp,
        topic,
        partition,
        NO_LEADER if held.leader is None else held.leader,
        held.isr,
        held.leader_epoch,
        held.controller_epoch,
        held.leader_recovery_state,
        (new_tuple(TopicPartition, (topic, partition)),),
        held.partition_epoch,
        eligible=eligible,
        directories=held.directories,
    )


def _state_replicas(
    reading: Reading, topic: TopicState, change: PartitionChange, replicas: Replicas
) -> list[AnyEvent]:
    partition = change.partition_id
    adding, removing = change.adding_replicas, change.removing_replicas
    fact = AssignmentsAre(
        reading.stamp,
        topic.name,
        {partition: replicas if change.replicas is None else change.replicas},
        {partition: topic.adding.get(partition, ()) if adding is None else adding},
        {partition: topic.removing.get(partition, ()) if removing is None else removing},
        since=reading.at,
    )
    return reading.state_fact(fact)


def _election(
    reading: Reading, change: PartitionChange, old: PartitionRecord, *, is_reassigned: bool
) -> LeaderElectionKind:
    """Return which election chose the leader that a change states."""
    before = NO_LEADER if old.leader is None else old.leader
    if change.leader_recovery_state == RECOVERING:
        return _UNCLEAN
    if before < 0 or before in reading.cause.lost:
        return _OFFLINE
    if before in reading.cause.stopping:
        return _CONTROLLED_SHUTDOWN
    if is_reassigned:
        return _REASSIGNMENT
    if old.replicas and old.replicas[0] == change.leader and change.isr is None:
        return _PREFERRED
    # Kafka splits what one broker's end causes after 10,000 records; only the last batch states the broker.
    return _UNKNOWN


def _numbered(kraft: KraftState, directories: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of log directories; a new one gets the next."""
    known = kraft.directories
    try:
        return _shared(tuple([known[each] for each in directories]))
    except KeyError:
        for each in directories:
            known.setdefault(each, len(known))
    return _numbered(kraft, directories)


@lru_cache(4096)
def _shared(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return one value for all equal ones: a cluster has few that differ."""
    return numbers


def _offline(kraft: KraftState, replicas: Replicas, directories: Sequence[str]) -> Replicas:
    """Return the replicas whose log directory is offline (DirectoryId.isOnline)."""
    held = kraft.online_dirs
    found = [
        replica
        for replica, each in zip(replicas, directories, strict=False)
        if each not in (online := held.get(replica, ()))
        and each not in _UNPLACED
        and (online or each == LOST_DIRECTORY)
    ]
    return tuple(found) if found else ()


def _named(kraft: KraftState, numbers: tuple[int, ...]) -> list[str]:
    """Return log directories by their numbers."""
    names = list(kraft.directories)
    return [names[each] for each in numbers]


def _eligible(elr: Replicas, last_known: Replicas, failed: Replicas) -> EligibleLeaders | None:
    return EligibleLeaders(elr, last_known, failed) if elr or last_known or failed else None


def _merged(
    held: EligibleLeaders | None, change: PartitionChange, failed: Replicas
) -> EligibleLeaders | None:
    """Return who is eligible after a change; the replicas in `failed` have their log directories offline."""
    before = EligibleLeaders() if held is None else held
    elr, last_known = change.eligible_leader_replicas, change.last_known_elr
    return _eligible(
        before.elr if elr is None else elr,
        before.last_known if last_known is None else last_known,
        failed,
    )
