"""Holds the end of the metadata log back until it is committed.

A leader serves records that no majority has yet, and another leader may replace them
(KafkaRaftClient.tryCompleteFetchRequest reads without regard to the high watermark). So the high watermark is the
gate: what is above it is held, and cut off again if the log of a new leader diverges from it. A transaction
of the metadata log (Begin to End) is held until its end is committed as well, for its records apply together or
not at all.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from kraft_source.observer.released import CommittedBatch
from kraft_source.wire.batches import CorruptBatchError, RecordBatch, split_batches
from kraft_source.wire.messages import EpochEnd
from kraft_source.wire.records import (
    ABORT_TRANSACTION,
    BEGIN_TRANSACTION,
    Decoded,
    decode,
)


class _Held(NamedTuple):
    batch: RecordBatch
    decoded: Decoded


class HeldLog:
    """The log behind what has been handed on: an end to fetch from, and batches that wait for their commit."""

    def __init__(self, released: EpochEnd) -> None:
        self.released = released
        """The offset behind the last record handed on, and that record's epoch."""
        self._held: deque[_Held] = deque()
        self._begun: list[_Held] = []
        """Committed batches of a transaction whose end is not committed yet."""
        self._is_in_transaction = False

    @property
    def end(self) -> EpochEnd:
        """Where to fetch from: the offset behind the last record that we hold, and that record's epoch."""
        last = self._held[-1] if self._held else self._begun[-1] if self._begun else None
        if last is None:
            return self.released
        return EpochEnd(last.batch.last_offset + 1, last.batch.epoch)

    @property
    def is_waiting(self) -> bool:
        """Whether records wait for their commit."""
        return bool(self._held)

    def append(self, data: bytes, leader_epoch: int) -> None:
        """Append what the leader of an epoch sent for `end`.

        Raises CorruptBatchError, and appends nothing, if it is damaged or does not continue what we hold.
        """
        end, epoch = self.end
        appended = []
        for batch in split_batches(data):
            if batch.last_offset < end:
                continue
            is_begun = batch.offset < end == self.released.end_offset
            if batch.offset != end and not is_begun:
                raise CorruptBatchError(f"offset {end} was asked for, and {batch.offset} is sent")
            if not epoch <= batch.epoch <= leader_epoch:
                raise CorruptBatchError(
                    f"epoch {batch.epoch} at offset {end} follows epoch {epoch}, under the leader of {leader_epoch}"
                )
            appended.append(_Held(batch, decode(batch)))
            end, epoch = batch.last_offset + 1, batch.epoch
        self._held.extend(appended)

    def drop(self) -> bool:
        """Cut off all that was not handed on; return whether there was anything."""
        has_dropped = self.end != self.released
        self._held.clear()
        self._begun.clear()
        self._is_in_transaction = False
        return has_dropped

    def truncate(self, diverging: EpochEnd) -> bool:
        """Cut off what a leader's log does not have; return False if that is more than what is held.

        `diverging` is the leader's largest epoch that is not above the last one we hold, and where it ends
        there (KafkaRaftClient.handleFetchResponse, ReplicatedLog.truncateToEndOffset).
        """
        while self._held:
            batch = self._held[-1].batch
            if batch.last_offset < diverging.end_offset and batch.epoch <= diverging.epoch:
                return True
            self._held.pop()
        end, epoch = self.end
        return end <= diverging.end_offset and epoch <= diverging.epoch

    def release(self, high_watermark: int) -> list[CommittedBatch]:
        """Return what is committed below the high watermark, up to the last place where no transaction is open."""
        released: list[CommittedBatch] = []
        while self._held and self._held[0].batch.last_offset < high_watermark:
            held = self._held.popleft()
            self._begun.append(held)
            for _, mark in held.decoded.marks:
                self._is_in_transaction = mark == BEGIN_TRANSACTION
            if not self._is_in_transaction:
                released += self._committed(self._begun)
                self.released = EpochEnd(held.batch.last_offset + 1, held.batch.epoch)
                self._begun = []
        return released

    def _committed(self, group: list[_Held]) -> Iterator[CommittedBatch]:
        """Yield the batches of a transaction, or one batch, without the records of transactions that were aborted."""
        start = self.released.end_offset
        aborted: list[range] = []
        begin = start
        for offset, mark in (each for held in group for each in held.decoded.marks):
            if mark == BEGIN_TRANSACTION:
                begin = offset
            elif mark == ABORT_TRANSACTION:
                aborted.append(range(begin, offset))
        for number, (batch, decoded) in enumerate(group, start=1):
            records = decoded.records
            if aborted or batch.offset < start:
                records = [
                    (offset, record)
                    for offset, record in records
                    # A control record, such as an election, stands whatever becomes of a transaction around it.
                    if offset >= start
                    and (batch.is_control or not any(offset in each for each in aborted))
                ]
            yield CommittedBatch(
                max(batch.offset, start),
                batch.last_offset,
                batch.epoch,
                batch.at,
                records,
                decoded.unknown,
                is_in_transaction=number < len(group),
            )
