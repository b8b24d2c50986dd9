"""Reads a copied folder `__cluster_metadata-0` of any broker or controller: what a cluster did that nobody watched.

The folder has the metadata log in segments (`<offset>.log`), and snapshots (`<end>-<epoch>.checkpoint`). The log is
read from its beginning; where records are missing, as before the beginning of a cleaned log, the next
snapshot says what is true from its end on. Nothing is read behind records that are missing and that no snapshot covers.
What can not be read is one line each, with its file and what to do.
"""

import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from controller_model.kafka.metadata_records import SnapshotHeader
from controller_model.records.decoding import DECODING_ERRORS
from controller_model.records.metadata_log import NO_EPOCH
from kraft_source.observer.held_log import HeldLog
from kraft_source.observer.released import SnapshotChunk, SnapshotComplete, SnapshotOpened
from kraft_source.proof import CommitProof, Prover, Replica
from kraft_source.slices import MAX_SLICE_RECORDS, Made, RecordMaker
from kraft_source.wire.batches import CorruptBatchError, RecordBatch, split_batches
from kraft_source.wire.messages import EpochEnd, EpochLeader
from kraft_source.wire.records import decode
from pipeline.runtime import UsageError

NAME = "__cluster_metadata-0"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The topic id of `__cluster_metadata` (org.apache.kafka.common.Uuid.METADATA_TOPIC_ID)."""
GENERATION = 1

_READ_BYTES = 4 << 20
_SEGMENT = re.compile(r"([0-9]{20})\.log")
_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_PACKED = re.compile(r".*\.(?:log|checkpoint)\.(?:gz|xz|zst|bz2|lz4|zip)")
_COPY_AGAIN = "copy the folder again, or another node's"


class Damage(NamedTuple):
    """Something that can not be read."""

    text: str
    """One line: what, where, and what to do."""


class SnapshotFile(NamedTuple):
    """A snapshot file, as its name says."""

    end: int
    epoch: int
    path: Path


Piece = RecordBatch | SnapshotFile | Damage
Read = Made | Damage


class MetadataFolder:
    """One copied folder."""

    def __init__(self, path: Path) -> None:
        """Find its files; raises UsageError, in one line, for what is no such folder."""
        self.path = path / NAME if (path / NAME).is_dir() else path
        names = _names_in(self.path)
        segments = {
            int(found[1]): found[0] for each in names if (found := _SEGMENT.fullmatch(each))
        }
        self._segments = [(base, self.path / name) for base, name in sorted(segments.items())]
        ends = (match for each in names if (match := _SNAPSHOT.fullmatch(each)))
        snapshots = (SnapshotFile(int(each[1]), int(each[2]), self.path / each[0]) for each in ends)
        # The snapshot at offset 0 is there from the beginning; its voters are written to the log as well
        # (LeaderState.appendStartOfEpochControlRecords).
        self.snapshots = sorted(each for each in snapshots if each.end > 0)
        self.properties = _properties(self.path.parent / "meta.properties")
        packed = sorted(each for each in names if _PACKED.fullmatch(each))
        self._packed = [self.path / each for each in packed]
        _check(self.path, names, self._segments, self.snapshots, packed)
        self._check_first_batch()
        self._bad: dict[Path, str] = {}
        """Snapshots that can not be used, and why."""
        self._leaders: dict[int, int] = {}
        """Who led in an epoch, which no snapshot says."""

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id; None where `meta.properties` was not copied with the folder."""
        return self.properties.get("cluster.id")

    def prove(self) -> CommitProof:
        """Read the whole log once, and return up to where it is proven committed."""
        quorum = _quorum_state(self.path / "quorum-state")
        node = self.properties.get("node.id", "")
        replica = Replica(int(node) if node.isdigit() else None, *quorum)
        if replica.leader is not None and replica.epoch is not None and replica.leader >= 0:
            self._leaders[replica.epoch] = replica.leader
        prover = Prover(replica, {each.end: each.epoch for each in self.snapshots})
        with suppress(CorruptBatchError):  # `records` tells it
            for piece in self._pieces():
                if isinstance(piece, RecordBatch):
                    prover.add(piece)
        self._leaders |= prover.leaders
        for snapshot in self.snapshots:
            if snapshot.end in prover.foreign:
                self._bad[snapshot.path] = (
                    f"{snapshot.path} is of another epoch than the log at its end: its files were copied from "
                    f"different clusters; {_COPY_AGAIN}"
                )
            if self._why_unusable(snapshot) is None:
                prover.add_snapshot(snapshot.end, snapshot.epoch, snapshot.path.name)
        return prover.proof()

    def records(self, cluster: str, proof: CommitProof) -> Iterator[Read]:
        """Yield what the folder holds as records of kcm's log, and the damage at its place.

        No slice has both offsets that are proven committed and others.
        """
        start = EpochEnd(0, NO_EPOCH)
        maker = RecordMaker(cluster, str(self.path), self.cluster_id, GENERATION, start)
        held = HeldLog(start)
        for path in self._packed:
            yield Damage(f"{path} is compressed: unpack it, and read the folder again")
        try:
            for piece in self._pieces():
                if not isinstance(piece, RecordBatch):
                    yield from maker.flush()
                if isinstance(piece, Damage):
                    yield piece
                elif isinstance(piece, SnapshotFile):
                    yield from self._snapshot_records(piece, maker)
                    held = HeldLog(EpochEnd(piece.end, piece.epoch))
                else:
                    if piece.offset != held.end.end_offset:  # a log without its beginning
                        held = HeldLog(EpochEnd(piece.offset, piece.epoch))
                    yield from _slices(piece, held, maker, cut_at=proof.end)
            yield from maker.flush()
        except CorruptBatchError as error:
            yield from maker.flush()
            yield Damage(f"{self.path}: {error}; {_COPY_AGAIN}")
        if held.end != held.released:
            yield Damage(
                f"{self.path}: the transaction that begins at offset {held.released.end_offset} does not end: nothing "
                "from there on has taken effect, or is shown"
            )

    def _check_first_batch(self) -> None:
        """Raise UsageError where the records are those of another topic."""
        first = next((each for each in self._batches() if isinstance(each, RecordBatch)), None)
        with suppress(CorruptBatchError):
            unknown = decode(first).unknown if first is not None else ()
            if not any(each.startswith("frame version") for each in unknown):
                return
            raise UsageError(
                f"{self.path} holds records that are none of a metadata log: name a copy of a node's {NAME}"
            )

    def _pieces(self) -> Iterator[Piece]:
        """Yield batches that follow each other, and a snapshot wherever they do not; each damage where it is met."""
        end, epoch, covered, begun = 0, NO_EPOCH, 0, False
        for piece in self._batches():
            if isinstance(piece, Damage):
                yield piece
                continue
            if piece.last_offset < covered:
                continue
            if piece.offset != end or (begun and not _may_follow(piece, epoch)):
                place = yield from self._bridge(end, epoch, piece, begun=begun)
                if place is None:
                    break
                end, epoch = place
                begun, covered = True, end
                if piece.last_offset < end:
                    continue
                if piece.offset != end:
                    yield Damage(self._what_is_missing(end, epoch, piece))
                    break
            begun = True
            yield piece
            end, epoch = piece.last_offset + 1, piece.epoch
        if (snapshot := (yield from self._first_usable(end + 1, newest=True))) is not None:
            yield snapshot

    def _bridge(
        self, end: int, epoch: int, batch: RecordBatch, *, begun: bool
    ) -> Generator[Piece, None, tuple[int, int] | None]:
        """Yield what stands in for the records before a batch; return where the log goes on, None if nowhere."""
        if begun:
            yield Damage(self._what_is_missing(end, epoch, batch))
        snapshot = yield from self._first_usable(max(end, batch.offset))
        if snapshot is not None:
            yield snapshot
            return snapshot.end, snapshot.epoch
        if begun:
            return None
        yield Damage(
            f"{self.path}: the log begins at offset {batch.offset}, and no snapshot says what was before: {_COPY_AGAIN}"
        )
        return batch.offset, batch.epoch

    def _first_usable(
        self, begin: int, *, newest: bool = False
    ) -> Generator[Damage, None, SnapshotFile | None]:
        """Return the earliest snapshot, or the newest, that ends at an offset or behind it; yield why others are not used."""
        for snapshot in reversed(self.snapshots) if newest else self.snapshots:
            if snapshot.end < begin:
                continue
            if (why := self._why_unusable(snapshot)) is None:
                return snapshot
            yield Damage(why)
        return None

    def _what_is_missing(self, end: int, epoch: int, batch: RecordBatch) -> str:
        if batch.offset > end:
            return f"{self.path}: offsets {end} to {batch.offset - 1} are missing"
        return (
            f"{self.path}: at offset {batch.offset} of epoch {batch.epoch} the log does not follow offset {end - 1} of "
            f"epoch {epoch}: its files were copied at different times, or from different nodes"
        )

    def _batches(self) -> Iterator[RecordBatch | Damage]:
        """Yield all batches of the segments that can be read.

        Their checksums do not cover their epochs (DefaultRecordBatch.computeChecksum), which never fall: where one
        does, it or the one before it is damaged, or of another node.
        """
        held: RecordBatch | None = None
        for each in self._stored():
            if held is not None:
                if isinstance(each, RecordBatch) and each.epoch < held.epoch:
                    yield Damage(
                        f"{self.path}: epoch {held.epoch} at offset {held.offset} is followed by epoch {each.epoch}: one "
                        f"of both is damaged, or their files are of different times or nodes; {_COPY_AGAIN}"
                    )
                else:
                    yield held
            held = each if isinstance(each, RecordBatch) else None
            if isinstance(each, Damage):
                yield each
        if held is not None:
            yield held

    def _stored(self) -> Iterator[RecordBatch | Damage]:
        """Yield what is in the segments, whether it follows or not."""
        for base, path in self._segments:
            first = True
            for batch in _batches_of(path):
                if first and isinstance(batch, RecordBatch) and batch.offset != base:
                    yield Damage(
                        f"{path} begins with offset {batch.offset}: it has another file's name"
                    )
                    break
                first = False
                yield batch

    def _why_unusable(self, snapshot: SnapshotFile) -> str | None:
        """Return why a snapshot can not be used, in one line; None if it is whole."""
        if snapshot.path not in self._bad:
            self._bad[snapshot.path] = ""
            batches = list(_batches_of(snapshot.path))
            damage = next((each.text for each in batches if isinstance(each, Damage)), None)
            whole = [each for each in batches if isinstance(each, RecordBatch)]
            if damage is None and not (
                len(whole) > 1 and whole[0].is_control and whole[-1].is_control
            ):
                damage = f"{snapshot.path} does not end as a snapshot does: it was cut off; {_COPY_AGAIN}"
            self._bad[snapshot.path] = damage or ""
        return self._bad[snapshot.path] or None

    def _snapshot_records(self, snapshot: SnapshotFile, maker: RecordMaker) -> Iterator[Made]:
        """Yield the snapshot as records of kcm's log."""
        batches = (each for each in _batches_of(snapshot.path) if isinstance(each, RecordBatch))
        found = [decode(each) for each in batches]
        records = [record for each in found for _, record in each.records]
        unknown: Counter[str] = Counter()
        for each in found:
            unknown.update(each.unknown)
        header = next((each for each in records if isinstance(each, SnapshotHeader)), None)
        at = 0 if header is None else header.last_contained_log_timestamp
        end = EpochEnd(snapshot.end, snapshot.epoch)
        leader = self._leaders.get(snapshot.epoch)
        known = None if leader is None else EpochLeader(leader, snapshot.epoch)
        for released in (
            SnapshotOpened(end, at),
            SnapshotChunk(records, unknown),
            SnapshotComplete(end),
        ):
            yield from maker.handle_released(released, known)


def _slices(
    batch: RecordBatch, held: HeldLog, maker: RecordMaker, *, cut_at: int
) -> Iterator[Made]:
    """Take the next batch; yield the slices before it if it is at offset `cut_at`, and those that are full.

    A log is read in slices although none of its records is kept, and a transaction is in one of them as a whole.
    """
    held.append(batch.data, batch.epoch)
    for each in held.release(batch.last_offset + 1):
        if each.offset == cut_at:
            yield from maker.flush()
        yield from maker.add(each)
    if maker.released - maker.end >= MAX_SLICE_RECORDS:
        yield from maker.flush()


def _may_follow(batch: RecordBatch, epoch: int) -> bool:
    """Return whether a batch may stand behind a record of an epoch: each epoch begins with a control record, LeaderChange."""
    return batch.epoch == epoch or (batch.epoch > epoch and batch.is_control)


def _batches_of(path: Path) -> Iterator[RecordBatch | Damage]:
    """Yield the batches of a file, and the damage at which it can be read no further.

    It is read, and not mapped into memory: Kafka may cut off the end of a file that is in use.
    """
    done, data = 0, b""
    try:
        with path.open("rb") as file:
            while more := file.read(_READ_BYTES):
                data, read = data + more, 0
                for batch in split_batches(data):
                    read += len(batch.data)
                    yield batch
                done, data = done + read, data[read:]
    except OSError as error:
        yield Damage(f"cannot read {path}: {error.strerror or error}")
        return
    except CorruptBatchError as error:
        yield Damage(f"{path}, byte {done + read}: {error}; {_COPY_AGAIN}")
        return
    if data:
        yield Damage(
            f"{path} ends within a record batch, at byte {done} of {done + len(data)}: it was cut off, or copied while "
            "Kafka wrote to it"
        )


def _names_in(path: Path) -> list[str]:
    try:
        return sorted(each.name for each in path.iterdir())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None


def _check(
    path: Path,
    names: list[str],
    segments: list[tuple[int, Path]],
    snapshots: list[SnapshotFile],
    packed: list[str],
) -> None:
    """Raise UsageError for a folder that holds no metadata log."""
    topic = _topic_id(path / "partition.metadata")
    if topic not in {None, TOPIC_ID}:
        raise UsageError(
            f"{path} is a partition of topic {topic}, and not of the metadata log: name a node's {NAME}"
        )
    if segments or snapshots:
        return
    if packed:
        raise UsageError(f"the files in {path} are compressed: unpack them, {packed[0]} first")
    what = f"has no segment (*.log) and no snapshot (*.checkpoint) among {len(names)} files"
    raise UsageError(f"{path} {what if names else 'is empty'}: name a copy of a node's {NAME}")


def _topic_id(path: Path) -> str | None:
    """Return the topic id in a partition's metadata file; None where it has none (PartitionMetadataFile)."""
    found = re.search(r"^topic_id: *(\S+)", _text(path), re.MULTILINE)
    return found[1] if found else None


def _properties(path: Path) -> Mapping[str, str]:
    """Return what a node's `meta.properties` says; empty where there is none."""
    pairs = (line.split("=", 1) for line in _text(path).splitlines() if "=" in line[1:])
    return {key.strip(): value.strip() for key, value in pairs}


def _quorum_state(path: Path) -> tuple[int | None, int | None, tuple[int, ...]]:
    """Return the leader, the epoch and the voters that a replica last wrote down (QuorumStateData); None: not known."""
    try:
        state = msgspec.json.decode(_text(path))
        voters = tuple(int(each["voterId"]) for each in state.get("currentVoters") or ())
        return int(state["leaderId"]), int(state["leaderEpoch"]), voters
    except (KeyError, TypeError, AttributeError, ValueError, *DECODING_ERRORS):
        return None, None, ()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
