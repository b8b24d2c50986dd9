"""The quorum in the metadata log: elections of controllers, voters, registered controllers, features.

The rule: an election is a committed LeaderChange, the first record of its epoch; an epoch without one had only
candidates. The controller before was active until the last record of the epoch before, and for as long again as it was
ever silent: with its no-ops, half a second (metadata.max.idle.interval.ms). So how long there was no controller is in
the log, whether somebody watched or not.
"""

import dataclasses

from controller_model.facts.facts import (
    CandidaciesAre,
    ControllerConfirmed,
    ControllerGone,
    ControllerIs,
    FeatureIs,
    MigrationStateIs,
    RegisteredControllerIs,
    VotersAre,
)
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.kafka.metadata_records import (
    KRAFT_VERSION,
    FeatureLevel,
    KRaftVersion,
    LeaderChange,
    RegisterController,
    UnregisterController,
    Voters,
    ZkMigrationState,
)
from controller_model.records.events import AnyEvent, ElectionCause
from controller_model.records.metadata_log import NO_EPOCH
from controller_model.records.quorum import RegisteredController
from controller_model.sources.kraft.brokers import addresses
from controller_model.sources.kraft.reading import Reading
from controller_model.sources.kraft.state import kraft_of, quorum_of
from controller_model.state.control_plane import ControlPlane


def read_leader_change(reading: Reading, record: LeaderChange) -> list[AnyEvent]:
    """Read the election of a controller."""
    control, kraft, stamp = reading.state.control, reading.kraft, reading.stamp
    is_first = reading.after_epoch == NO_EPOCH
    skipped = reading.epoch - (0 if is_first else reading.after_epoch) - 1
    if skipped > 0 and control.log.baseline:
        reading.state_fact(CandidaciesAre(stamp, quorum_of(control).candidacies + skipped))
    events: list[AnyEvent] = []
    vacant_since = None  # nothing says that there was a controller before
    if kraft.appended_at is not None:
        vacant_since = min(reading.at, kraft.appended_at + kraft.longest_pause_ms)
        events = end_controller(reading, kraft.appended_at, vacant_since)
    cause = ElectionCause.FIRST if is_first else ElectionCause.UNKNOWN
    elected = ControllerIs(
        stamp,
        record.leader_id,
        elected_at=reading.at,
        cause=cause,
        epoch=reading.epoch,
        vacant_since=vacant_since,
    )
    events += reading.state_fact(elected)
    voters = tuple(each.voter_id for each in record.voters)
    return events + reading.state_fact(VotersAre(stamp, voters))


def end_controller(reading: Reading, held_until: int, vacant_at: int) -> list[AnyEvent]:
    """State until when the controller was active at least, and that there is none, unless that is known."""
    confirmed = dataclasses.replace(reading, at=held_until).stamp
    events = reading.state_fact(ControllerConfirmed(confirmed))
    if reading.state.control.controller.view.id != NO_CONTROLLER:
        vacant = dataclasses.replace(reading, at=vacant_at).stamp
        gone = ControllerGone(vacant, was_seen=False)
        events += reading.state_fact(gone)
    return events


def read_voters(reading: Reading, record: Voters) -> list[AnyEvent]:
    """Read the voters of a dynamic quorum."""
    voters = tuple(each.voter_id for each in record.voters)
    return reading.state_fact(VotersAre(reading.stamp, voters))


def read_kraft_version(reading: Reading, record: KRaftVersion) -> list[AnyEvent]:
    """Read kraft.version."""
    if reading.snapshot is not None:
        reading.snapshot.features.append(KRAFT_VERSION)
    return reading.state_fact(FeatureIs(reading.stamp, KRAFT_VERSION, record.kraft_version))


def read_feature(reading: Reading, record: FeatureLevel) -> list[AnyEvent]:
    """Read the level of a feature."""
    if reading.snapshot is not None:
        reading.snapshot.features.append(record.name)
    # Level 0 is how Kafka writes that a feature is off (FeatureControlManager.replay).
    return reading.state_fact(FeatureIs(reading.stamp, record.name, record.feature_level or None))


def read_controller(reading: Reading, record: RegisterController) -> list[AnyEvent]:
    """Read the registration of a controller."""
    if reading.snapshot is not None:
        reading.snapshot.controllers.append(record.controller_id)
    registration = RegisteredController(addresses(record.end_points), record.zk_migration_ready)
    fact = RegisteredControllerIs(reading.stamp, record.controller_id, registration)
    return reading.state_fact(fact)


def read_controller_end(reading: Reading, record: UnregisterController) -> list[AnyEvent]:
    """Read the end of a controller's registration (ClusterControlManager.replay of UnregisterControllerRecord)."""
    return reading.state_fact(RegisteredControllerIs(reading.stamp, record.controller_id, None))


def read_migration_state(reading: Reading, record: ZkMigrationState) -> list[AnyEvent]:
    """Read how far a migration from ZooKeeper is."""
    if reading.snapshot is not None:
        reading.snapshot.has_migration = True
    return reading.state_fact(MigrationStateIs(reading.stamp, record.zk_migration_state))


def show_log(control: ControlPlane) -> None:
    """Bring the place in the metadata log up to date in the view of the quorum."""
    kraft, quorum = kraft_of(control), quorum_of(control)
    quorum.end, quorum.begins, quorum.appended_at = kraft.end, kraft.begins, kraft.appended_at
    quorum.epoch = None if kraft.epoch == NO_EPOCH else kraft.epoch
