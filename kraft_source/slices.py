"""Makes slices of kcm's log from committed batches of the metadata log.

The rule: a slice is of one epoch, its offsets follow those of the slice before it, and it has whole transactions only.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from controller_model.kafka.metadata_records import MetadataRecord
from controller_model.records.metadata_log import (
    METADATA_LOG_VERSION,
    NO_EPOCH,
    MetadataBatch,
    MetadataSlice,
)
from kraft_source.observer.released import CommittedBatch

MAX_RECORDS = 2_000
"""Kept records after which a slice ends with its batch."""
MAX_SPAN_MS = 10_000
"""The longest time that a slice covers, unless a transaction takes longer: what is judged by time is judged at its end."""


class SliceMaker:
    """Takes batches in the order of their offsets, and gives slices."""

    def __init__(
        self,
        *,
        cluster: str,
        watcher: str,
        generation: int,
        cluster_id: str | None = None,
        cut_at: int | None = None,
    ) -> None:
        """Begin before a log's first record; a slice ends before the batch at offset `cut_at`."""
        self._head: dict[str, Any] = {
            "v": METADATA_LOG_VERSION,
            "cluster": cluster,
            "watcher": watcher,
            "generation": generation,
            "cluster_id": cluster_id,
        }
        self._cut_at = cut_at
        self._epoch = NO_EPOCH
        self._taken: list[CommittedBatch] = []
        self._records = 0

    def begin_after(self, epoch: int) -> None:
        """Start behind a record of this epoch, such as the last one that a snapshot includes."""
        self._epoch = epoch

    def add(self, batch: CommittedBatch) -> Iterator[MetadataSlice]:
        """Take the next batch; yield the slice before it if it can not be in that, and one that is full."""
        if self._taken:
            first, last = self._taken[0], self._taken[-1]
            is_late = batch.at - first.at > MAX_SPAN_MS and not last.is_in_transaction
            if is_late or last.epoch != batch.epoch or batch.offset == self._cut_at:
                yield from self.cut()
        self._taken.append(batch)
        self._records += len(batch.records)
        if self._records >= MAX_RECORDS and not batch.is_in_transaction:
            yield from self.cut()

    def cut(self) -> Iterator[MetadataSlice]:
        """Yield what has been taken since the last slice."""
        if not self._taken:
            return
        last = self._taken[-1]
        times = (each.at for each in self._taken)
        pauses = (after - before for before, after in itertools.pairwise(times))
        unknown: Counter[str] = Counter()
        for each in self._taken:
            unknown.update(each.unknown)
        yield MetadataSlice(
            **self._head,
            first=self._taken[0].offset,
            last=last.last_offset,
            after_epoch=self._epoch,
            epoch=last.epoch,
            observed_at=last.at,
            batches=tuple(_kept(each) for each in self._taken if each.records),
            longest_pause_ms=max(pauses, default=None),
            unknown=unknown,
        )
        self._epoch = last.epoch
        self._taken, self._records = [], 0


def _kept(batch: CommittedBatch) -> MetadataBatch:
    offsets = tuple(offset for offset, _ in batch.records)
    is_dense = offsets[-1] - offsets[0] == len(offsets) - 1
    return MetadataBatch(
        offset=offsets[0],
        at=batch.at,
        # A snapshot's header is in no log.
        records=tuple(cast("MetadataRecord", record) for _, record in batch.records),
        offsets=() if is_dense else offsets,
    )
