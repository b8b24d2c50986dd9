"""Reads one snapshot of the metadata log in parts, of any size in little memory.

The parts are cut by size, so a batch may begin in one and end in another. A snapshot is complete when all
its bytes are there: a header first, a footer last, and every batch with its checksum (RecordsSnapshotReader).
"""

from collections import Counter
from collections.abc import Iterator

from controller_model.kafka.metadata_records import SnapshotHeader
from kraft_source.observer.released import (
    Released,
    SnapshotChunk,
    SnapshotComplete,
    SnapshotOpened,
)
from kraft_source.wire.batches import CorruptBatchError, RecordBatch, split_batches
from kraft_source.wire.messages import EpochEnd, FetchSnapshot, SnapshotAnswer
from kraft_source.wire.records import Record, decode


class SnapshotDownload:
    """One attempt to read a snapshot from the controller that named it."""

    def __init__(self, snapshot: EpochEnd) -> None:
        self.snapshot = snapshot
        self.is_finished = False
        self._position = 0
        self._rest = b""
        """The beginning of a batch that ends in the next part."""
        self._next_offset = 0
        self._has_header = False

    def next_request(self, leader_epoch: int) -> FetchSnapshot:
        """Return the request for the next part."""
        return FetchSnapshot(self.snapshot, self._position, leader_epoch)

    def read(self, answer: SnapshotAnswer) -> Iterator[Released]:
        """Yield what a part holds; raise CorruptBatchError if it is not the next part of this snapshot."""
        records: list[Record] = []
        unknown: Counter[str] = Counter()
        for batch in self._batches(answer):
            decoded = decode(batch)
            unknown.update(decoded.unknown)
            for _, record in decoded.records:
                if isinstance(record, SnapshotHeader):
                    self._has_header = True
                    yield SnapshotOpened(self.snapshot, record.last_contained_log_timestamp)
                else:
                    records.append(record)
            if not self._has_header:
                raise CorruptBatchError("a snapshot begins without its header")
        if records or unknown:
            yield SnapshotChunk(records, unknown)
        if self._position == answer.size:
            self.is_finished = True
            yield SnapshotComplete(self.snapshot)

    def _batches(self, answer: SnapshotAnswer) -> Iterator[RecordBatch]:
        """Yield the batches that end in a part, and keep the beginning of the next one."""
        place = f"position {self._position} of a snapshot of {answer.size} bytes"
        if answer.position != self._position or not answer.data:
            sent = f"{len(answer.data)} bytes from {answer.position}"
            raise CorruptBatchError(f"{place} was asked for, and {sent} are sent")
        data, read = self._rest + answer.data, 0
        for batch in split_batches(data):
            if batch.offset != self._next_offset:
                raise CorruptBatchError(f"record {self._next_offset} is missing at {place}")
            self._next_offset = batch.last_offset + 1
            read += len(batch.data)
            yield batch
        self._rest = data[read:]
        self._position += len(answer.data)
        if self._position > answer.size or (self._position == answer.size and self._rest):
            raise CorruptBatchError(f"the part at {place} does not end with it")
