"""The records of `kcm.changes` of a KRaft cluster: slices of its metadata log, snapshots of it, heartbeats, reconciliations.

The rule: a committed offset of the metadata log never changes, so any number of watchers may write the same records;
a reader takes what continues the offsets that it holds, and drops the rest. A slice is complete where `first` is the
offset after the last one held, and it is of the same history where `after_epoch` is the epoch of that one: two logs
that agree on one (offset, epoch) agree on everything below it (Raft's log matching). Only what is committed, and only
whole transactions, may be written here; secrets can not be (`metadata_records`). Times are those of the cluster: its
controllers' clocks, in milliseconds since 1970.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from controller_model.kafka.ids import Position, new_tuple
from controller_model.kafka.metadata_records import Int32, Int64, MetadataRecord
from controller_model.records.decoding import Name

METADATA_LOG_VERSION = 1
"""The version that is written; a reader skips records of any other, and counts them."""

NO_EPOCH = -1
"""The epoch before a log's first record."""

CAUGHT_UP_MS = 2_000
"""Kafka's default of controller.quorum.fetch.timeout.ms: a voter that did not hold all of the leader's log for longer does
not follow it. One that follows fetches at least each 500 ms (KafkaRaftClient.MAX_FETCH_WAIT_MS)."""


class MetadataBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The kept records of one batch of the metadata log, or of a part of it: they were appended together.

    No-ops and what the whitelist leaves out are not in it, and a batch of which nothing is kept is left out.
    """

    offset: Int64
    """The offset of the first record."""
    at: Int64
    """When the batch was appended, by the clock of the controller that was active."""
    records: tuple[MetadataRecord, ...]
    offsets: tuple[Int64, ...] = ()
    """The offset of each record; empty if they follow each other without a gap."""
    ahead: tuple[MetadataRecord, ...] = ()
    """Records about brokers that the same batch holds behind these, in a later slice: Kafka writes the fencing of a
    broker after what it did to partitions. They are the cause of what is here, and are applied only where they stand."""

    def offset_of(self, index: int) -> int:
        """Return the offset of one of its records."""
        return self.offsets[index] if self.offsets else self.offset + index


class MetadataLogRecord(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="record"
):
    """The fields that all records of a KRaft cluster have."""

    v: int
    cluster: str
    generation: Int64
    """Which history of the metadata log: a new one after another cluster id, or after a log that does not agree with
    what was published. Within one, an offset and its epoch name one record for ever."""
    watcher: Name
    observed_at: Int64
    """The cluster's time: when the last record was appended that this one covers, and in a heartbeat what has passed
    since then besides, by the watcher's monotonic clock."""
    cluster_id: Name | None = None
    """As Fetch confirmed it. A snapshot's start and a slice at offset 0 must hold it: a new generation without it is taken
    for another history, of which everything is news. Others may leave it out."""


class MetadataSlice(MetadataLogRecord, frozen=True, tag="metadata_slice"):
    """Every committed record of the offsets `first` to `last`, of one epoch, as far as it may be published.

    `observed_at` is when the record at `last` was appended. A new epoch begins a new slice.
    """

    first: Int64
    last: Int64
    after_epoch: Int32
    """The epoch of the record before `first`; NO_EPOCH if there is none."""
    epoch: Int32
    """The epoch of all its records."""
    batches: tuple[MetadataBatch, ...] = ()
    high_watermark: Int64 | None = None
    """Up to where the log was committed when this was read: above `last + 1` while the watcher catches up."""
    first_at: Int64 | None = None
    """When the record at `first` was appended, be it a no-op."""
    longest_pause_ms: Int64 | None = None
    """The longest time between two records that it covers, no-ops included; None: it covers only one."""
    unknown: Mapping[str, Int64] = {}
    """Records that the watcher could not read, because a newer Kafka wrote them: how many of each kind, by api key and
    version. What they changed is not known."""

    @property
    def seq(self) -> int:
        """The offset that follows."""
        return self.last + 1

    @property
    def position(self) -> Position:
        """Where a log ends that includes it."""
        return new_tuple(Position, (self.generation, self.last + 1))


class EndRecord(MetadataLogRecord, frozen=True):
    """A record about the metadata log up to an offset."""

    end: Int64
    """The offset that follows what it is about."""

    @property
    def position(self) -> Position:
        """Where a log ends that has all that it is about."""
        return new_tuple(Position, (self.generation, self.end))


class SnapshotRecord(EndRecord, frozen=True):
    """A record of the reading of a snapshot: the whole state of the metadata log up to `end`.

    Kafka names a snapshot by the offset that follows it, and the epoch of the record before that. One reading of it is
    these records of one watcher, in order; a newer start ends an older reading.
    """

    epoch: Int32


class SnapshotStarted(SnapshotRecord, frozen=True, tag="snapshot_started"):
    """The reading of a snapshot starts; `observed_at` is when its last record was appended (SnapshotHeader)."""

    reason: str | None = None
    """Why it was necessary, in an operator's words."""
    answers: Int64 | None = None
    """The number of the fold's request that it answers."""


class SnapshotPart(SnapshotRecord, frozen=True, tag="snapshot_part"):
    """Records of the snapshot, in their order."""

    number: Int64
    """Counts from 1."""
    records: tuple[MetadataRecord, ...]


class SnapshotFinished(SnapshotRecord, frozen=True, tag="snapshot_finished"):
    """The snapshot was read to its end: what it does not name is not there."""

    parts: Int64
    """How many parts there are."""
    leader: Int32 | None = None
    leader_epoch: Int32 | None = None
    """Who led when the snapshot was read, and its epoch: in `epoch` it is the controller that the snapshot leaves off with."""
    unknown: Mapping[str, Int64] = {}
    """As in a slice."""


class QuorumReplica(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How far one replica of the metadata log is, as the leader knows it (DescribeQuorum)."""

    replica_id: Int32
    log_end_offset: Int64
    """-1: not known."""
    last_fetch_at: Int64 | None = None
    last_caught_up_at: Int64 | None = None
    """By the leader's clock; None: not known, as before DescribeQuorum's version 1."""
    directory_id: Name | None = None


class QuorumSample(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One answer to DescribeQuorum."""

    at: Int64
    """The leader's time: when it says that it was caught up itself."""
    leader: Int32
    epoch: Int32
    high_watermark: Int64
    voters: tuple[QuorumReplica, ...] = ()
    observers: tuple[QuorumReplica, ...] = ()
    """Brokers, and controllers that do not vote."""

    @property
    def caught_up(self) -> frozenset[int]:
        """The voters that held all of the leader's log within CAUGHT_UP_MS, the leader among them."""
        return self._since(lambda each: each.last_caught_up_at)

    @property
    def fetching(self) -> frozenset[int]:
        """The voters that fetched within CAUGHT_UP_MS: they run, and catch up if they have not."""
        return self._since(lambda each: each.last_fetch_at)

    def _since(self, time_of: Callable[[QuorumReplica], int | None]) -> frozenset[int]:
        times = ((each.replica_id, time_of(each)) for each in self.voters)
        recent = self.at - CAUGHT_UP_MS
        return frozenset(each for each, at in times if at is not None and at >= recent)

    def lag_of(self, replica: QuorumReplica) -> int | None:
        """Return how many records a replica's log lacks; None: not known."""
        ends = (each.log_end_offset for each in self.voters if each.replica_id == self.leader)
        end = next(ends, -1)
        # -1 is how Kafka says that it does not know an offset.
        is_unknown = min(replica.log_end_offset, end) < 0
        return None if is_unknown else max(0, end - replica.log_end_offset)


class MetadataHeartbeat(EndRecord, frozen=True, tag="metadata_heartbeat"):
    """A sign of life of a watcher, about every 10 s, and what it knows that is in no record of the metadata log.

    Its `end` is that of what the watcher has published or read back.
    """

    sent_at: Int64
    """When it was sent, by the watcher's clock."""
    high_watermark: Int64 | None = None
    leader: Int32 | None = None
    """The leader that the controllers name; -1: they name none. None: nobody was asked, or nobody answered."""
    leader_epoch: Int32 | None = None
    """The epoch in which that is so; it rises with each candidacy."""
    unreachable_since: Int64 | None = None
    """Since when no controller has answered, by the watcher's clock; None: one answers."""
    leader_silent_since: Int64 | None = None
    """Since when `leader` has not answered although another controller names it, by the watcher's clock; None: it is not so."""
    quorum: QuorumSample | None = None
    snapshot_end: Int64 | None = None
    snapshot_at: Int64 | None = None
    """The newest snapshot that a controller offers: its end, and when its last record was appended."""


class MetadataReconciled(EndRecord, frozen=True, tag="metadata_reconciled"):
    """What the controllers hold at `end`, as a watcher has read it anew from a snapshot and the log behind it.

    It follows the slice that ends there: a reader that holds the same up to `end` compares (`metadata_digest`).
    """

    epoch: Int32
    """The epoch of the record before `end`."""
    topics: Int64
    partitions: Int64
    brokers: Int64
    digest: str
    """As `changes.digest_text`."""


AnyMetadataRecord = (
    MetadataSlice
    | SnapshotStarted
    | SnapshotPart
    | SnapshotFinished
    | MetadataHeartbeat
    | MetadataReconciled
)

encode_metadata: Callable[[AnyMetadataRecord], bytes] = msgspec.json.Encoder().encode
"""Returns one record as JSON; `changes.join_changes` makes a message of several."""


def batch_by_batch(record: AnyMetadataRecord) -> Iterator[AnyMetadataRecord]:
    """Yield a slice as slices of one batch each, and of the rest that has none; any other record as it is.

    Each is dated by its batch: the whole of a slice may cover days.
    """
    if not isinstance(record, MetadataSlice):
        yield record
        return
    first, after_epoch = record.first, record.after_epoch
    for batch in record.batches:
        last = batch.offset_of(len(batch.records) - 1)
        yield msgspec.structs.replace(
            record,
            first=first,
            last=last,
            after_epoch=after_epoch,
            observed_at=batch.at,
            batches=(batch,),
            longest_pause_ms=None,
            unknown={},
        )
        first, after_epoch = last + 1, record.epoch
    if first <= record.last:
        yield msgspec.structs.replace(record, first=first, after_epoch=after_epoch, batches=())
