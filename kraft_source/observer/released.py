"""Defines what the observer hands on: committed batches, snapshots, and that the log has become another one."""

from collections.abc import Mapping
from typing import NamedTuple

from kraft_source.wire.messages import EpochEnd
from kraft_source.wire.records import Record


class CommittedBatch(NamedTuple):
    """One committed record batch of the metadata log.

    Batches are handed on in the order of their offsets, each once, without a gap: also those of which no
    record is kept, so that their offsets and times are known.
    """

    offset: int
    last_offset: int
    epoch: int
    at: int
    """When it was appended, in ms since 1970 by the clock of the controller that was active."""
    records: list[tuple[int, Record]]
    """The kept records with their offsets; without those of a transaction that was aborted."""
    unknown: Mapping[str, int] = {}
    """What was skipped because only a newer Kafka knows it, or because it could not be read, by name."""
    is_in_transaction: bool = False
    """Whether a metadata transaction goes on behind it: the next batch belongs to it, and has been handed on as well."""


class Committed(NamedTuple):
    """Batches that have become known as committed; a transaction is in one of these as a whole."""

    batches: list[CommittedBatch]
    high_watermark: int
    """The offset behind the last committed record of the cluster."""


class SnapshotOpened(NamedTuple):
    """A snapshot is read from here on, because the log does not hold what follows our offset any more.

    Its records follow in parts. If it cannot be finished, another one starts.
    """

    snapshot: EpochEnd
    at: int
    """When the last record that it includes was appended, in ms since 1970."""


class SnapshotChunk(NamedTuple):
    """Records of the snapshot, in its order. The offsets inside a snapshot mean nothing."""

    records: list[Record]
    unknown: Mapping[str, int]


class SnapshotComplete(NamedTuple):
    """The snapshot is complete: the log goes on at its end."""

    snapshot: EpochEnd


class AnotherHistory(NamedTuple):
    """The leader's log does not hold what was handed on as committed: it is another one, and begins anew.

    Kafka never takes back a committed record, so the cluster was formatted again, restored, or lost its majority's disks.
    """

    end: EpochEnd
    """Where what was handed on ends."""
    theirs: EpochEnd
    """The place in the leader's log that contradicts it; offset -1: its epoch alone does, which is an older one."""


Released = Committed | SnapshotOpened | SnapshotChunk | SnapshotComplete | AnotherHistory
