"""Which records continue the metadata log that is held, and what is to be said of those that do not.

The rule: an offset with its epoch names one record for ever, whoever wrote it to the log of kcm. A slice continues what
is held if it covers the next offset and agrees on the epoch of the one before. What is held already is dropped. A gap is
asked for by its offset; another epoch shows another history, of which only a snapshot or its beginning is taken.
"""

from bisect import bisect_right

import msgspec

from controller_model.kafka.ids import Position
from controller_model.records.events import AnyEvent
from controller_model.records.metadata_log import (
    NO_EPOCH,
    AnyMetadataRecord,
    MetadataBatch,
    MetadataHeartbeat,
    MetadataReconciled,
    MetadataSlice,
    SnapshotFinished,
    SnapshotPart,
    SnapshotStarted,
)
from controller_model.sources.kraft.state import EPOCHS_KEPT, KraftState, SnapshotReading, kraft_of
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import count_anomaly, mark_incomplete
from controller_model.state.log_state import STEP_MS

Admitted = tuple[AnyMetadataRecord | None, list[AnyEvent]]
"""What of a record is applied (None: nothing), and what its place shows."""

_ANOTHER_HISTORY = "another history of the metadata log"


def admit(state: ClusterState, record: AnyMetadataRecord) -> Admitted:
    """Return what of a record continues what is held; move the position to its end."""
    control = state.control
    kraft, position = kraft_of(control), control.log.position
    if kraft.is_applying:
        kraft.is_applying = kraft.is_whole = False
        if kraft.snapshot is not None:
            kraft.snapshot.is_whole = False
    if record.generation < position.generation:
        return _drop(state)
    if isinstance(record, MetadataSlice):
        admitted, events = _admit_slice(state, kraft, record)
    elif isinstance(record, MetadataHeartbeat | MetadataReconciled):
        admitted, events = _admit_heartbeat(state, kraft, record)
    elif isinstance(record, SnapshotStarted):
        admitted, events = _admit_start(state, kraft, record)
    else:
        admitted, events = _admit_part(state, kraft, record)
    if admitted is None:
        return None, events
    kraft.is_applying = True
    return _in_time(state, kraft, admitted), events


def _in_time(
    state: ClusterState, kraft: KraftState, record: AnyMetadataRecord
) -> AnyMetadataRecord:
    """Return a record at the log's time, if it is of before that for another reason than a clock.

    Another watcher's heartbeat may have waited; a snapshot, and what follows one, may tell again what was held. A
    slice may have waited as well: heartbeats go on while nothing is committed that a leader has appended. A clock is
    behind only where a slice is of before the record that it follows.
    """
    control = state.control
    now = control.now - (control.log.clock.correction if control.log.clock else 0)
    if record.observed_at >= now:
        kraft.is_retelling = False
        return record
    has_waited = not isinstance(record, MetadataSlice) or (
        kraft.appended_at is not None and record.observed_at >= kraft.appended_at - STEP_MS
    )
    if kraft.is_retelling or has_waited:
        return msgspec.structs.replace(record, observed_at=now)
    return record


def _drop(state: ClusterState) -> Admitted:
    state.control.log.view.not_newer += 1
    return None, []


def _admit_slice(state: ClusterState, kraft: KraftState, record: MetadataSlice) -> Admitted:
    position = state.control.log.position
    if record.generation > position.generation:
        if record.first != 0 or record.after_epoch != NO_EPOCH:
            return None, _lacks(state, record, offset=0)
        # It continues the log of which nothing is held now.
        _begin_generation(state, kraft, record, record.last, record.epoch)
        kraft.replaces = position.generation > 0
    is_held = record.last < kraft.end
    kraft.known_end = max(kraft.known_end, record.seq)
    is_repeated = is_held and _epoch_at(kraft, record.last) in {None, record.epoch}
    if is_repeated or kraft.snapshot is not None:
        return _drop(state)
    if record.first > kraft.end:
        return None, _lacks(state, record, offset=kraft.end)
    before = record.epoch if record.first < kraft.end else record.after_epoch
    if is_held or before != kraft.epoch or record.epoch < kraft.epoch:
        return None, _is_another(state, record)
    return _continue(state, kraft, record), []


def _continue(state: ClusterState, kraft: KraftState, record: MetadataSlice) -> MetadataSlice:
    """Move to the end of a slice that continues what is held; return what of it is new."""
    log, end = state.control.log, kraft.end
    if record.first < end:
        batches = tuple([cut for each in record.batches if (cut := _from(each, end)) is not None])
        record = msgspec.structs.replace(
            record, first=end, after_epoch=kraft.epoch, batches=batches
        )
    if record.epoch != kraft.epoch:
        kraft.epochs.append((record.epoch, end))
        del kraft.epochs[:-EPOCHS_KEPT]
    kraft.end, kraft.epoch, kraft.arrived_at = record.seq, record.epoch, record.observed_at
    kraft.known_end = max(kraft.known_end, record.seq)
    _move(state, record, record.seq)
    if log.wanted is not None and log.wanted.offset is not None:
        log.wanted = None
    return record


def _from(batch: MetadataBatch, offset: int) -> MetadataBatch | None:
    """Return a batch without its records before an offset; None if none is left."""
    offsets = [batch.offset_of(index) for index in range(len(batch.records))]
    skipped = sum(each < offset for each in offsets)
    left = tuple(offsets[skipped:])
    if not left:
        return None
    return MetadataBatch(left[0], batch.at, batch.records[skipped:], left, batch.ahead)


def _admit_heartbeat(
    state: ClusterState, kraft: KraftState, record: MetadataHeartbeat | MetadataReconciled
) -> Admitted:
    log = state.control.log
    if record.generation > log.position.generation:
        return None, _lacks(state, record, offset=None)
    if kraft.snapshot is None:
        if record.end < kraft.end:
            return _drop(state)
        kraft.known_end = max(kraft.known_end, record.end)
    log.view.watcher = record.watcher
    events: list[AnyEvent] = []
    if kraft.snapshot is None and record.end > kraft.end:
        # All that its watcher has published, or read, is in the log before it.
        events = _lacks(state, record, offset=kraft.end)
    if isinstance(record, MetadataReconciled) and (
        kraft.snapshot is not None or record.end != kraft.end
    ):
        # What it is compared with is not held yet, or not any more: another watcher wrote what follows.
        return None, events
    return record, events


def _admit_start(state: ClusterState, kraft: KraftState, record: SnapshotStarted) -> Admitted:
    log = state.control.log
    position = log.position
    is_same = record.generation == position.generation
    if is_same and record.end <= kraft.end:
        return _drop(state)
    seq = min(record.end, position.seq + 1) if is_same else 1
    if not is_same:
        _begin_generation(state, kraft, record, record.end - 1, record.epoch)
    kraft.snapshot = SnapshotReading(
        record.watcher, record.end, record.epoch, record.observed_at, began=seq
    )
    kraft.is_retelling = True
    _move(state, record, seq)
    return record, []


def _admit_part(
    state: ClusterState, kraft: KraftState, record: SnapshotPart | SnapshotFinished
) -> Admitted:
    reading = kraft.snapshot
    place = (record.watcher, record.end, record.epoch)
    if (
        reading is None
        or record.generation > state.control.log.position.generation
        or place != (reading.watcher, reading.end, reading.epoch)
    ):
        return _drop(state)
    number = record.number if isinstance(record, SnapshotPart) else record.parts + 1
    if isinstance(record, SnapshotPart) and number <= reading.parts:
        return _drop(state)
    if number != reading.parts + 1:
        reading.is_whole = False
    reading.parts = number
    return record, []


def _move(state: ClusterState, record: AnyMetadataRecord, seq: int) -> None:
    log = state.control.log
    log.position = Position(record.generation, seq)
    log.view.watcher = record.watcher


def _begin_generation(
    state: ClusterState, kraft: KraftState, record: AnyMetadataRecord, last: int, epoch: int
) -> None:
    """Begin another generation: nothing that is held says how it continues.

    It may be of the same history all the same: of the same cluster, with the epoch at its last offset that is held there.
    """
    held = kraft.epoch if last >= kraft.end else _epoch_at(kraft, last)
    is_same = record.cluster_id is not None and record.cluster_id == state.control.config.cluster_id
    if is_same and (held is None or (epoch >= held if last >= kraft.end else epoch == held)):
        kraft.told_end = max(kraft.told_end, kraft.end)
        kraft.told_epoch = max(kraft.told_epoch, kraft.epoch)
    else:
        kraft.told_end, kraft.told_epoch = 0, NO_EPOCH
    kraft.end = kraft.begins = kraft.known_end = 0
    kraft.epoch, kraft.epochs, kraft.appended_at = NO_EPOCH, [], None
    kraft.is_whole, kraft.snapshot, kraft.is_retelling = True, None, True


def _epoch_at(kraft: KraftState, offset: int) -> int | None:
    """Return the epoch of a held record; None: it is not held any more which it had."""
    index = bisect_right(kraft.epochs, offset, key=lambda each: each[1])
    return kraft.epochs[index - 1][0] if index else None


def _lacks(state: ClusterState, record: AnyMetadataRecord, *, offset: int | None) -> list[AnyEvent]:
    """Mark what is held as incomplete before a record that does not continue it, and ask for what is between."""
    log = state.control.log
    at = max(state.control.now, 0)
    if record.generation > log.position.generation:
        reason = f"a hole in the log: the beginning of generation {record.generation} is missing"
    else:
        upto = record.first if isinstance(record, MetadataSlice) else record.end
        reason = f"a hole in the log: offsets {offset} to {upto - 1} are missing"
    log.view.holes += log.view.incomplete_since is None
    return mark_incomplete(state, at=at, reason=reason, ask=True, offset=offset)


def _is_another(state: ClusterState, record: MetadataSlice) -> list[AnyEvent]:
    """Report that a record is of another history than what is held, and ask for a snapshot."""
    kraft, log = kraft_of(state.control), state.control.log
    is_known, kraft.is_whole = not kraft.is_whole, False
    at = state.control.now
    events = mark_incomplete(state, at=at, reason=_ANOTHER_HISTORY, ask=True)
    if is_known and log.reason == _ANOTHER_HISTORY:
        return events
    reason = (
        f"the metadata log has another history: epoch {record.after_epoch} before offset {record.first} "
        f"and {record.epoch} after it, where epoch {kraft.epoch} is held up to offset {kraft.end}"
    )
    return [count_anomaly(state, at=at, path="__cluster_metadata", reason=reason), *events]
