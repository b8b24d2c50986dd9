"""KRaft's metadata log as a source: slices, snapshots and heartbeats become facts.

The rule: nothing raises because of what the log holds. A record that continues what is held is applied as Kafka applies
it; what it states is stated as it is, and nothing is inferred that the log itself shows.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from controller_model.facts.facts import ClusterIdIs, ControllerIs, CountingStarts, QuorumIs
from controller_model.facts.stamp import Stamp
from controller_model.kafka import metadata_records as kafka
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.events import AnyEvent
from controller_model.records.metadata_log import (
    AnyMetadataRecord,
    MetadataBatch,
    MetadataHeartbeat,
    MetadataReconciled,
    MetadataSlice,
    SnapshotFinished,
    SnapshotPart,
    SnapshotStarted,
)
from controller_model.records.quorum import QuorumView
from controller_model.records.views import ABSENT_IN_KRAFT
from controller_model.sources.kraft import (
    brokers,
    order,
    partitions,
    quorum,
    reconciliation,
    snapshots,
    topics,
)
from controller_model.sources.kraft.reading import (
    ABOUT_BROKERS,
    NO_CAUSE,
    SAMPLED,
    Reading,
    cause_of,
)
from controller_model.sources.kraft.state import (
    KraftState,
    SnapshotReading,
    count_from,
    kraft_of,
    quorum_of,
)
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import is_proof_due, mark_incomplete, mark_verified
from controller_model.state.control_plane import ControlPlane
from controller_model.state.log_state import is_time
from controller_model.state.source import Handle, Inferred, Source
from controller_model.tracking import asked_elections

_Reader = Callable[[Reading, Any], list[AnyEvent]]

READERS: Mapping[type[Any], _Reader] = {
    kafka.RegisterBroker: brokers.read_registration,
    kafka.UnregisterBroker: brokers.read_registration_end,
    kafka.FenceBroker: brokers.read_fence,
    kafka.UnfenceBroker: brokers.read_unfence,
    kafka.BrokerRegistrationChange: brokers.read_registration_change,
    kafka.Topic: topics.read_topic,
    kafka.RemoveTopic: topics.read_topic_end,
    kafka.Config: topics.read_config,
    kafka.ClearElr: topics.read_elr_end,
    kafka.PartitionChange: partitions.read_change,
    kafka.FeatureLevel: quorum.read_feature,
    kafka.KRaftVersion: quorum.read_kraft_version,
    kafka.Voters: quorum.read_voters,
    kafka.LeaderChange: quorum.read_leader_change,
    kafka.RegisterController: quorum.read_controller,
    kafka.UnregisterController: quorum.read_controller_end,
    kafka.ZkMigrationState: quorum.read_migration_state,
}
"""What reads each record; records of whole partitions are read together (`partitions.read_partitions`)."""


class KraftSource(Source):
    """Makes facts of a metadata log."""

    absent = ABSENT_IN_KRAFT
    state_type = KraftState
    has_own_order = True
    clock_name = "the active controller's clock"

    def adopt(self, control: ControlPlane) -> None:
        """Make `control.source` this source's own state: a new one, or what was unpacked."""
        super().adopt(control)
        if control.quorum is None:
            control.quorum = QuorumView()

    def name_of(self, record: AnyMetadataRecord) -> tuple[str, str]:
        """Return the kind of a record and which part of the metadata log it is of."""
        if isinstance(record, MetadataSlice):
            return "slice", f"__cluster_metadata {record.first}-{record.last}"
        if isinstance(record, MetadataHeartbeat):
            return "heartbeat", "__cluster_metadata"
        if isinstance(record, MetadataReconciled):
            return "reconciliation", f"__cluster_metadata {record.end}"
        return "snapshot", f"__cluster_metadata {record.end}-{record.epoch}"

    def split(self, record: AnyMetadataRecord) -> Iterable[AnyMetadataRecord]:
        """Return the parts of a slice, each of which ends with a record after which health is sampled."""
        return _parts(record) if isinstance(record, MetadataSlice) else (record,)

    def admit(
        self, state: ClusterState, record: AnyMetadataRecord
    ) -> tuple[AnyMetadataRecord | None, list[AnyEvent]]:
        """Return what of a record continues what is held, and what that shows."""
        return order.admit(state, record)

    def apply(
        self, state: ClusterState, record: AnyMetadataRecord, handle: Handle
    ) -> tuple[list[AnyEvent], bool]:
        """Apply a record that was admitted."""
        kraft = kraft_of(state.control)
        events = _cluster_id(state, record, handle)
        is_sampled = True
        if isinstance(record, MetadataSlice):
            applied, is_sampled = _apply_slice(state, kraft, record, handle)
            events += applied
        elif isinstance(record, MetadataHeartbeat):
            events += _apply_heartbeat(state, kraft, record, handle)
        elif isinstance(record, MetadataReconciled):
            events += reconciliation.compare(state, kraft, record)
            events += _verify(state, kraft, record.observed_at, is_caught_up=True)
            is_sampled = False
        elif isinstance(record, SnapshotStarted):
            events += snapshots.start(state, kraft, record)
        elif isinstance(record, SnapshotPart):
            reading = snapshots.reading_of(state, kraft, record, handle)
            events += _read_all(reading, record.records)
            is_sampled = False
        else:
            events += snapshots.finish(state, kraft, record, handle)
            events += _count_unknown(state, kraft, record)
        kraft.is_applying = False
        return events, is_sampled

    def infer(self, control: ControlPlane) -> Inferred:
        """Infer nothing; bring the place in the metadata log up to date."""
        quorum.show_log(control)
        return Inferred()

    def broker_state(self, control: ControlPlane, broker: int) -> str | None:
        """Return the state that the controller has given a broker (BrokerControlState); None: it is not registered."""
        held = control.brokers.get(broker)
        if held is None or held.record.fenced is None:
            return None
        if held.record.fenced:
            return "FENCED"
        return "CONTROLLED_SHUTDOWN" if held.record.shutting_down else "UNFENCED"


KRAFT: Final[Source] = KraftSource()
"""The source of all clusters that keep their metadata in a KRaft quorum; it holds nothing itself."""


def _parts(record: MetadataSlice) -> list[MetadataSlice]:
    """Return a slice as parts, which end with the records after which health is sampled, and with the slice."""
    ends: list[tuple[int, int, list[MetadataBatch]]] = []
    batches: list[MetadataBatch] = []
    for batch in record.batches:
        kinds = [type(each) for each in batch.records]
        if SAMPLED.isdisjoint(kinds):
            batches.append(batch)
            continue
        # What the batch states of brokers is the cause of all of it.
        ahead = (*batch.ahead, *(each for each in batch.records if type(each) in ABOUT_BROKERS))
        offsets = tuple(batch.offset_of(index) for index in range(len(kinds)))
        cuts = [0, *(index + 1 for index, kind in enumerate(kinds) if kind in SAMPLED)]
        for begin, end in itertools.pairwise([*cuts, len(kinds)]):
            if begin == end:
                continue
            places = offsets[begin:end]
            stated = batch.records[begin:end]
            batches.append(MetadataBatch(places[0], batch.at, stated, places, ahead))
            if kinds[end - 1] in SAMPLED and places[-1] < record.last:
                ends.append((places[-1], batch.at, batches))
                batches = []
    if not ends:
        return [record]
    parts: list[MetadataSlice] = []
    first, first_at, after_epoch = record.first, record.first_at, record.after_epoch
    for last, at, held in ends:
        part = msgspec.structs.replace(
            record,
            first=first,
            last=last,
            first_at=first_at,
            after_epoch=after_epoch,
            batches=tuple(held),
            observed_at=at,
            longest_pause_ms=None,
            unknown={},
        )
        parts.append(part)
        first, first_at, after_epoch = last + 1, None, record.epoch
    rest = msgspec.structs.replace(
        record, first=first, first_at=None, after_epoch=after_epoch, batches=tuple(batches)
    )
    return [*parts, rest]


def _apply_slice(
    state: ClusterState, kraft: KraftState, record: MetadataSlice, handle: Handle
) -> tuple[list[AnyEvent], bool]:
    log, generation, epoch = state.control.log, record.generation, record.epoch
    events: list[AnyEvent] = []
    count_from(state.control, record.first)
    if kraft.replaces:
        kraft.replaces = False
        log.views_from = log.position
        reading = Reading(
            state, kraft, handle, record.observed_at, generation, record.first, epoch, NO_CAUSE
        )
        # Until all of it is told again, figures show a cluster of long ago.
        reason = "the metadata log is read from its beginning"
        events += mark_incomplete(state, at=record.observed_at, reason=reason, ask=False)
        events += snapshots.sweep(reading, SnapshotReading("", 0, 0, 0, 0))
    if not kraft.is_counting:
        kraft.is_counting = True
        # The log is held from its first record on, before which there was nothing.
        at = record.batches[0].at if record.batches else record.observed_at
        stamp = Stamp(at, log.position, record.first)
        events += handle(state, CountingStarts(stamp, None, is_vacant=False))
        log.views_from = log.position
    is_sampled = False
    for batch in record.batches:
        cause = cause_of(batch)
        at = batch.at if is_time(batch.at) else state.control.now
        reading = Reading(
            state,
            kraft,
            handle,
            at,
            generation,
            batch.offset,
            epoch,
            cause,
            None,
            record.after_epoch,
        )
        events += _read_all(reading, batch.records, batch)
        log.view.last_change_at = at
        is_sampled = is_sampled or not SAMPLED.isdisjoint(map(type, batch.records))
    pauses = [kraft.longest_pause_ms, record.longest_pause_ms or 0]
    if None not in {kraft.appended_at, record.first_at} and record.after_epoch == epoch:
        pauses.append((record.first_at or 0) - (kraft.appended_at or 0))
    kraft.longest_pause_ms, kraft.appended_at = max(pauses), kraft.arrived_at
    count_from(state.control, record.seq)
    is_caught_up = record.high_watermark is None or record.seq >= record.high_watermark
    if record.high_watermark is not None and is_caught_up:
        stamp = Stamp(record.observed_at, log.position)
        held = quorum_of(state.control)
        fact = QuorumIs(
            stamp,
            None,
            None,
            record.high_watermark,
            held.sample if held.is_sampled else None,
            unreachable_since=held.unreachable_since,
            leader_silent_since=held.leader_silent_since,
        )
        handle(state, fact)
    events += _count_unknown(state, kraft, record)
    return events + _verify(state, kraft, record.observed_at, is_caught_up), is_sampled


def _read_all(
    reading: Reading,
    records: tuple[kafka.MetadataRecord, ...],
    batch: MetadataBatch | None = None,
) -> list[AnyEvent]:
    """Read records that stand together; those of whole partitions of one topic at once."""
    events: list[AnyEvent] = []
    index = 0
    while index < len(records):
        record = records[index]
        if batch is not None:
            reading.offset = batch.offset_of(index)
            if not reading.state.control.log.baseline:
                count_from(reading.state.control, reading.offset)
        index += 1
        if not isinstance(record, kafka.Partition):
            events += READERS[type(record)](reading, record)
            continue
        together = [record]
        while index < len(records):
            following = records[index]
            if not isinstance(following, kafka.Partition) or following.topic_id != record.topic_id:
                break
            together.append(following)
            index += 1
        events += partitions.read_partitions(reading, record.topic_id, together)
    return events


def _cluster_id(state: ClusterState, record: AnyMetadataRecord, handle: Handle) -> list[AnyEvent]:
    if record.cluster_id in {None, state.control.config.cluster_id}:
        return []
    stamp = Stamp(record.observed_at, state.control.log.position, place="__cluster_metadata")
    return handle(state, ClusterIdIs(stamp, str(record.cluster_id)))


def _count_unknown(
    state: ClusterState, kraft: KraftState, record: MetadataSlice | SnapshotFinished
) -> list[AnyEvent]:
    """Count records of a newer Kafka that the watcher could not read: what they changed is not held."""
    if not record.unknown:
        return []
    quorum_view = quorum_of(state.control)
    for kind, count in record.unknown.items():
        quorum_view.unknown[kind] = quorum_view.unknown.get(kind, 0) + count
    state.control.log.view.unreadable += sum(record.unknown.values())
    kraft.is_whole = False
    named = ", ".join(sorted(record.unknown))
    reason = (
        f"records of a newer Kafka were skipped, which this release of kcm cannot read: {named}"
    )
    return mark_incomplete(state, at=record.observed_at, reason=reason, ask=False)


def _apply_heartbeat(
    state: ClusterState, kraft: KraftState, record: MetadataHeartbeat, handle: Handle
) -> list[AnyEvent]:
    control = state.control
    control.log.view.heartbeat_at = record.sent_at
    asked_elections.release_expired(control)
    stamp = Stamp(record.observed_at, control.log.position)
    fact = QuorumIs(
        stamp,
        record.leader,
        record.leader_epoch,
        record.high_watermark,
        record.quorum,
        record.snapshot_end,
        record.snapshot_at,
        record.unreachable_since,
        record.leader_silent_since,
    )
    events = handle(state, fact)
    leader, epoch, view = record.leader, record.leader_epoch, control.controller.view
    if control.log.baseline and kraft.snapshot is None and leader is not None and epoch is not None:
        at = record.observed_at
        reading = Reading(
            state, kraft, handle, at, record.generation, kraft.end - 1, epoch, NO_CAUSE
        )
        if leader < 0 and epoch > kraft.epoch and kraft.appended_at is not None:
            if view.id != NO_CONTROLLER:
                events += quorum.end_controller(reading, kraft.appended_at, at)
        elif leader >= 0 and epoch == kraft.epoch and (view.id, view.vacant_since) == _UNKNOWN:
            # Its election was before the snapshot that was taken.
            events += handle(state, ControllerIs(stamp, leader, elected_at=None, is_same=True))
    is_caught_up = record.end == kraft.end
    return events + _verify(state, kraft, record.observed_at, is_caught_up)


_UNKNOWN = (NO_CONTROLLER, None)
"""Nobody is known to be the controller, nor that there is none."""


def _verify(state: ClusterState, kraft: KraftState, at: int, is_caught_up: bool) -> list[AnyEvent]:
    """State that the figures are complete: all offsets are held up to the end that is known."""
    control = state.control
    if not (
        is_caught_up
        and kraft.is_whole
        and kraft.snapshot is None
        and control.log.baseline
        and kraft.end >= kraft.known_end
        and is_proof_due(state, at)
    ):
        return []
    entries = control.topics + control.totals.partitions + len(control.brokers)
    return mark_verified(state, at=at, entries=entries)
