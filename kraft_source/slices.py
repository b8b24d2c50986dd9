"""Makes the records of `kcm.changes` from what is committed: slices of the metadata log, and snapshots of it.

The rule: slices cover every offset once, without a gap, and each is of one epoch. A slice ends where a reader may go on
from: not inside a metadata transaction, of which an observer that began there would not know the beginning. Of a
batch that is cut, each part names what the rest of it says of brokers, which is the cause of the other changes in
it. A topic's partitions that are written together stay together, so a reader sees each topic created or expanded
once. What an observer releases without a kept record waits for the next one: no slice is made for no-ops alone until
`flush`.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from controller_model.kafka.metadata_records import (
    BrokerRegistrationChange,
    Config,
    FenceBroker,
    MetadataRecord,
    Partition,
    RegisterBroker,
    SnapshotHeader,
    Topic,
    UnfenceBroker,
    UnregisterBroker,
)
from controller_model.records.changes import MAX_CHANGE_BYTES
from controller_model.records.metadata_log import (
    METADATA_LOG_VERSION,
    NO_EPOCH,
    AnyMetadataRecord,
    MetadataBatch,
    MetadataSlice,
    SnapshotFinished,
    SnapshotPart,
    SnapshotStarted,
    encode_metadata,
)
from kraft_source.observer.released import (
    AnotherHistory,
    Committed,
    CommittedBatch,
    Released,
    SnapshotChunk,
    SnapshotComplete,
    SnapshotOpened,
)
from kraft_source.wire.messages import EpochEnd, EpochLeader
from kraft_source.wire.records import Record

MAX_SLICE_RECORDS = 500
"""Records in one slice, outside of transactions: about as many bytes as a message of the log has."""

MAX_TOPIC_RECORDS = 10_000
"""Records of one topic that are not parted: Kafka creates no topic with more at once
(QuorumController.MAX_RECORDS_PER_USER_OP)."""

MAX_SPAN_MS = 10_000
"""The longest time that one covers there: what is judged by time is judged at its end."""

ABOUT_BROKERS = (
    RegisterBroker,
    UnregisterBroker,
    FenceBroker,
    UnfenceBroker,
    BrokerRegistrationChange,
)
"""Records that are the cause of others in their batch (ReplicationControlManager.handleBrokerFenced)."""


class Made(NamedTuple):
    """A record, and how it is written."""

    record: AnyMetadataRecord
    data: bytes


class _Piece(NamedTuple):
    """Some of the offsets of a batch, and its kept records there."""

    batch: CommittedBatch
    first: int
    last: int
    records: list[tuple[int, Record]]
    ahead: tuple[MetadataRecord, ...]
    unknown: Mapping[str, int]


class RecordMaker:
    """Makes the records of one watcher in one generation, from a place in the metadata log on."""

    def __init__(
        self, cluster: str, watcher: str, cluster_id: str | None, generation: int, start: EpochEnd
    ) -> None:
        """`start`: the first offset to come, and the epoch of the record before it."""
        self._fields: dict[str, Any] = {
            "v": METADATA_LOG_VERSION,
            "cluster": cluster,
            "generation": generation,
            "watcher": watcher,
            "cluster_id": cluster_id,
        }
        self.end = start.end_offset
        """The offset behind what has been made into slices."""
        self._epoch = start.epoch if start.end_offset else NO_EPOCH
        """The epoch of the record before `end`."""
        self._covered: list[CommittedBatch] = []
        """The batches that the next slice covers: of one epoch, one after the other."""
        self.appended_at: int | None = None
        """When the newest record that was released was appended, by the controller's clock."""
        self.high_watermark: int | None = None
        self.snapshot_reason: str | None = None
        """Why the next snapshot is read, in an operator's words."""
        self.answers: int | None = None
        """The number of the fold's request that the next snapshot answers."""
        self.snapshot: tuple[int, int] | None = None
        """The end of the newest snapshot, and when its last record was appended."""
        self._place = start
        """The snapshot that is being read."""
        self.is_in_snapshot = False
        """Whether a snapshot has begun that is not complete."""
        self._snapshot_at = 0
        self._rest: list[Record] = []
        """The snapshot's last records: the next chunk may hold more of their topic."""
        self._parts = 0
        self._unknown = Counter[str]()

    def name_cluster(self, cluster_id: str) -> None:
        """Put the cluster's id, which has become known, into the records to come."""
        self._fields["cluster_id"] = cluster_id

    @property
    def released(self) -> int:
        """The offset behind what was released, in slices or not."""
        return self._covered[-1].last_offset + 1 if self._covered else self.end

    @property
    def place(self) -> EpochEnd:
        """The end of what has been made into slices, as a place in the metadata log."""
        return EpochEnd(self.end, self._epoch)

    def handle_released(self, released: Released, leader: EpochLeader | None) -> list[Made]:
        """Return the records that something released makes, but for AnotherHistory, which needs another generation.

        `leader`: who leads, and in which epoch, where that is known.
        """
        match released:
            case Committed():
                return list(self._cover(released))
            case SnapshotOpened(snapshot, at):
                return list(self._start_snapshot(snapshot, at))
            case SnapshotChunk():
                return list(self._snapshot_parts(released))
            case SnapshotComplete(snapshot):
                return list(self._finish_snapshot(snapshot, leader))
            case AnotherHistory():
                return []

    def flush(self) -> list[Made]:
        """Return slices of the offsets that wait, although no record of them is kept."""
        covered, self._covered = self._covered, []
        return list(self._slices(covered))

    def add(self, batch: CommittedBatch) -> list[Made]:
        """Take the next committed batch; return the slices of what was before it, if it is of another epoch."""
        is_first = self._covered and batch.epoch != self._covered[-1].epoch
        made = self.flush() if is_first else []
        self._covered.append(batch)
        self.appended_at = batch.at
        return made

    def _cover(self, committed: Committed) -> Iterator[Made]:
        self.high_watermark = committed.high_watermark
        is_news = False
        for batch in committed.batches:
            made = self.add(batch)
            yield from made
            is_news = (is_news and not made) or bool(batch.records or batch.unknown)
        if is_news:
            yield from self.flush()

    def _slices(self, covered: list[CommittedBatch]) -> Iterator[Made]:
        """Cut batches of one epoch into slices."""
        pieces: list[_Piece] = []
        count = 0
        was_open = False
        for batch in covered:
            is_cut = not (was_open or batch.is_in_transaction)
            for piece in _pieces(batch, MAX_SLICE_RECORDS if is_cut else len(batch.records)):
                is_full = count and count + len(piece.records) > MAX_SLICE_RECORDS
                is_late = pieces and batch.at - pieces[0].batch.at > MAX_SPAN_MS
                if (is_full or is_late) and not was_open:
                    yield from self._fitting_slices(pieces)
                    pieces, count = [], 0
                pieces.append(piece)
                count += len(piece.records)
            was_open = batch.is_in_transaction
        if pieces:
            yield from self._fitting_slices(pieces)

    def _fitting_slices(self, pieces: list[_Piece]) -> Iterator[Made]:
        """Make one slice of pieces, or several where it would be larger than Kafka takes."""
        made = self._slice(pieces)
        count = sum(len(piece.records) for piece in pieces)
        if len(made.data) <= MAX_CHANGE_BYTES or count <= 1:
            self.end, self._epoch = pieces[-1].last + 1, pieces[0].batch.epoch
            yield made
            return
        halves = pieces
        if len(pieces) == 1:
            piece = pieces[0]
            halves = list(_cut(piece, [0, len(piece.records) // 2, len(piece.records)]))
        yield from self._fitting_slices(halves[: len(halves) // 2])
        yield from self._fitting_slices(halves[len(halves) // 2 :])

    def _slice(self, pieces: list[_Piece]) -> Made:
        first, last = pieces[0], pieces[-1]
        pauses = [after.batch.at - before.batch.at for before, after in itertools.pairwise(pieces)]
        unknown = Counter[str]()
        for piece in pieces:
            unknown.update(piece.unknown)
        return self._made(
            MetadataSlice,
            observed_at=last.batch.at,
            first=first.first,
            last=last.last,
            after_epoch=self._epoch,
            epoch=first.batch.epoch,
            batches=tuple([_published(piece) for piece in pieces if piece.records]),
            high_watermark=self.high_watermark,
            first_at=first.batch.at,
            longest_pause_ms=None if first.first == last.last else max(pauses, default=0),
            unknown=unknown,
        )

    def _start_snapshot(self, snapshot: EpochEnd, at: int) -> Iterator[Made]:
        self._covered, self._rest = [], []
        self._parts, self._snapshot_at = 0, at
        self.is_in_snapshot = True
        self._unknown = Counter()
        self.snapshot = (snapshot.end_offset, at)
        yield self._made(
            SnapshotStarted,
            observed_at=at,
            end=snapshot.end_offset,
            epoch=snapshot.epoch,
            reason=self.snapshot_reason,
            answers=self.answers,
        )
        self._place = snapshot

    def _snapshot_parts(self, chunk: SnapshotChunk) -> Iterator[Made]:
        self._unknown.update(chunk.unknown)
        records = [*self._rest, *chunk.records]
        last = max(0, len(records) - 1)
        while last and not _may_part(records, last) and len(records) - last < MAX_TOPIC_RECORDS:
            last -= 1
        self._rest = records[last:]
        yield from self._parts_of(records[:last])

    def _parts_of(self, records: list[Record]) -> Iterator[Made]:
        for begin, end in itertools.pairwise(_cuts(records, MAX_SLICE_RECORDS)):
            yield from self._fitting_parts(records[begin:end])

    def _fitting_parts(self, records: list[Record]) -> Iterator[Made]:
        """Make one part of a snapshot's records, or several where it would be larger than Kafka takes."""
        made = self._made(
            SnapshotPart,
            observed_at=self._snapshot_at,
            end=self._place.end_offset,
            epoch=self._place.epoch,
            number=self._parts + 1,
            records=tuple([each for each in records if not isinstance(each, SnapshotHeader)]),
        )
        if len(made.data) <= MAX_CHANGE_BYTES or len(records) <= 1:
            self._parts += 1
            yield made
            return
        half = len(records) // 2
        yield from self._fitting_parts(records[:half])
        yield from self._fitting_parts(records[half:])

    def _finish_snapshot(self, snapshot: EpochEnd, leader: EpochLeader | None) -> Iterator[Made]:
        rest, self._rest = self._rest, []
        yield from self._parts_of(rest)
        self.end, self._epoch = snapshot.end_offset, snapshot.epoch
        self.appended_at = self._snapshot_at
        self.is_in_snapshot = False
        self.snapshot_reason = self.answers = None
        yield self._made(
            SnapshotFinished,
            observed_at=self._snapshot_at,
            end=snapshot.end_offset,
            epoch=snapshot.epoch,
            parts=self._parts,
            leader=None if leader is None else leader.id,
            leader_epoch=None if leader is None else leader.epoch,
            unknown=self._unknown,
        )

    def _made(self, kind: Any, **fields: Any) -> Made:
        record = kind(**self._fields, **fields)
        return Made(record, encode_metadata(record))


def _pieces(batch: CommittedBatch, size: int) -> Iterator[_Piece]:
    """Return a batch as pieces of at most `size` kept records."""
    whole = _Piece(batch, batch.offset, batch.last_offset, batch.records, (), batch.unknown)
    records = batch.records
    if len(records) <= size:
        return iter([whole])
    return _cut(whole, _cuts([record for _, record in records], size))


def _cuts(records: Sequence[Record], size: int) -> list[int]:
    """Return where to cut into parts of at most `size` records, and both ends; more where a topic is larger."""
    cuts = [0]
    while len(records) - cuts[-1] > size:
        most = cuts[-1] + size
        longest = min(cuts[-1] + max(size, MAX_TOPIC_RECORDS), len(records))
        places = itertools.chain(range(most, cuts[-1], -1), range(most + 1, longest))
        cuts.append(next((each for each in places if _may_part(records, each)), longest))
    return cuts if cuts[-1] == len(records) else [*cuts, len(records)]


def _may_part(records: Sequence[Record], index: int) -> bool:
    """Return whether a record may stand in another part than the one before it.

    The partitions of a new topic follow it and its configuration (ReplicationControlManager.createTopic), and those that
    are added to a topic follow each other.
    """
    record, before = records[index], records[index - 1]
    if not isinstance(record, Partition | Config):
        return True
    if isinstance(record, Partition) and isinstance(before, Partition):
        return before.topic_id != record.topic_id
    earlier = index - 1
    while earlier and isinstance(records[earlier], Config):
        earlier -= 1
    return not isinstance(records[earlier], Topic)


def _cut(piece: _Piece, cuts: list[int]) -> Iterator[_Piece]:
    """Cut a piece before some of its records; each part names what follows it of brokers."""
    records, first = piece.records, piece.first
    for begin, end in itertools.pairwise(cuts):
        is_last = end == len(records)
        last = piece.last if is_last else records[end][0] - 1
        ahead = [each for _, each in records[end:] if isinstance(each, ABOUT_BROKERS)]
        unknown = {} if begin else piece.unknown
        yield _Piece(piece.batch, first, last, records[begin:end], (*ahead, *piece.ahead), unknown)
        first = last + 1


def _published(piece: _Piece) -> MetadataBatch:
    records = tuple([each for _, each in piece.records if not isinstance(each, SnapshotHeader)])
    offsets = tuple([offset for offset, _ in piece.records])
    is_dense = offsets[-1] - offsets[0] == len(offsets) - 1
    return MetadataBatch(
        offsets[0], piece.batch.at, records, () if is_dense else offsets, piece.ahead
    )
