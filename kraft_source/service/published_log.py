"""Follows what `kcm.changes` holds of a KRaft cluster: where its metadata log ends there, for a reader that has read it.

The rule: it takes records in the order of the topic, as the fold does (controller_model.sources.kraft.order): a slice
counts if it continues what is held, a snapshot once it is whole. So a hole that a reader meets is known here as well,
whoever wrote what is around it. It begins somewhere in the topic, and knows nothing of what was before.
"""

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from controller_model.kafka.metadata_records import Int32, Int64
from controller_model.records.decoding import DECODING_ERRORS
from controller_model.records.metadata_log import (
    MetadataHeartbeat,
    MetadataReconciled,
    MetadataSlice,
    SnapshotFinished,
    SnapshotPart,
    SnapshotStarted,
)
from kraft_source.wire.messages import EpochEnd
from source_log.generation_fencing import OtherWatcher

MAX_EPOCHS = 200
"""Epochs whose beginnings are known, the newest ones."""


def _tag(kind: type[msgspec.Struct]) -> str:
    return str(kind.__struct_config__.tag)


SLICE, HEARTBEAT = _tag(MetadataSlice), _tag(MetadataHeartbeat)
_RECONCILED = _tag(MetadataReconciled)
_STARTED, _PART, _FINISHED = _tag(SnapshotStarted), _tag(SnapshotPart), _tag(SnapshotFinished)


class PublishedRecord(OtherWatcher, frozen=True):
    """A record of the topic, reduced to its place in the metadata log. Its content is not decoded, which would cost more."""

    record: str = ""
    """The record's tag; empty for a change of a cluster with ZooKeeper."""
    kind: str = ""
    """Of such a change: its kind."""
    cluster_id: str | None = None
    first: Int64 = 0
    last: Int64 = -1
    after_epoch: Int32 = 0
    epoch: Int32 = 0
    end: Int64 = 0
    number: Int64 = 0
    parts: Int64 = 0


_decoder = msgspec.json.Decoder(tuple[PublishedRecord, ...])


def decode_published(message: bytes) -> Sequence[PublishedRecord]:
    """Return the records of a message; none if it cannot be read, or holds requests of elections only."""
    try:
        return _decoder.decode(message)
    except DECODING_ERRORS:
        return ()


class PublishedLog:
    """Where a reader of the topic stands in the metadata log."""

    def __init__(self) -> None:
        self.generation = 0
        self.end: EpochEnd | None = None
        """The offset behind what a reader holds, and the epoch of the record before it; None: not known."""
        self.is_missing = False
        """The topic holds something behind `end` that does not continue it: a reader asks for what is between."""
        self.cluster_id: str | None = None
        self._epochs: list[tuple[int, int]] = []
        """Where epochs begin, with their number."""
        self._snapshot: tuple[str, int, int] | None = None
        """The snapshot that is being written: by whom, its end and epoch."""
        self._parts = 0

    @property
    def _held(self) -> int:
        return 0 if self.end is None else self.end.end_offset

    @property
    def snapshot_writer(self) -> str | None:
        """Who has begun to write a snapshot, until that is complete: readers drop slices in the meantime."""
        return None if self._snapshot is None else self._snapshot[0]

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch of a record that a reader holds; None: not known."""
        if self.end is None or offset >= self.end.end_offset:
            return None
        index = bisect_right(self._epochs, offset, key=lambda each: each[0])
        return self._epochs[index - 1][1] if index else None

    def apply_record(self, record: PublishedRecord) -> bool:
        """Take the next record of the topic; return whether a reader got further by it."""
        if record.generation < self.generation:
            return False
        if record.generation > self.generation:
            is_beginning = (
                record.first == 0 if record.record == SLICE else record.record == _STARTED
            )
            # A log that we join in its middle is taken as it is.
            if self.generation and not is_beginning:
                return False
            self._begin(record)
        self.cluster_id = record.cluster_id or self.cluster_id
        if record.record == SLICE:
            return self._apply_slice(record)
        if record.record in {HEARTBEAT, _RECONCILED}:
            is_read = self._snapshot is None and self.end is not None
            self.is_missing = self.is_missing or (is_read and record.end > self._held)
            return False
        return self._apply_snapshot(record)

    def _begin(self, record: PublishedRecord) -> None:
        is_first = not self.generation
        self.generation = record.generation
        self.cluster_id = None
        self.end = self._snapshot = None
        self._epochs = []
        self.is_missing = False
        if not is_first:
            self.end = EpochEnd(0, 0)

    def _apply_snapshot(self, record: PublishedRecord) -> bool:
        place = (record.watcher, record.end, record.epoch)
        if record.record == _STARTED:
            if record.end > self._held:
                self._snapshot, self._parts = place, 0
                return True
        elif record.record == _PART and self.end is None and self._snapshot is None:
            # It began before what we have read; its first parts are taken for granted.
            self._snapshot, self._parts = place, record.number
            return True
        elif place == self._snapshot:
            if record.record == _PART:
                is_next = record.number == self._parts + 1
                self._parts += is_next
                return is_next
            self._snapshot = None
            if record.parts == self._parts:
                self._move(record.end, record.end - 1, record.epoch, forgets=True)
                self.is_missing = False
                return True
        return False

    def _apply_slice(self, record: PublishedRecord) -> bool:
        if self._snapshot is not None:
            return False
        end = record.first if self.end is None else self.end.end_offset
        if record.last < end:
            return False
        if record.first > end:
            self.is_missing = True
            return False
        self._move(record.last + 1, record.first, record.epoch)
        self.is_missing = False
        return True

    def _move(self, end: int, since: int, epoch: int, *, forgets: bool = False) -> None:
        if forgets:
            self._epochs = []
        if not self._epochs or self._epochs[-1][1] != epoch:
            self._epochs.append((since, epoch))
            del self._epochs[:-MAX_EPOCHS]
        self.end = EpochEnd(end, epoch)
