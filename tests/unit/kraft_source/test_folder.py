"""A copied metadata folder: what is read of it, what is proven of it, and what is said of damage."""

from __future__ import annotations

import itertools
import shutil
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, TypeGuard

import google_crc32c
import pytest

from controller_model.kafka.metadata_records import LeaderChange, MetadataRecord, Topic
from controller_model.records.metadata_log import (
    AnyMetadataRecord,
    MetadataSlice,
    SnapshotPart,
    SnapshotStarted,
)
from kraft_source.folder import NAME, Damage, MetadataFolder
from kraft_source.proof import CommitProof
from kraft_source.slices import MAX_SLICE_RECORDS, Made
from pipeline.runtime import UsageError
from tests.support.metadata_folders import ABANDONED, BROKER, VOTER, Truth, unpack
from tests.support.metadata_log import Written, control_batch, record_batch, uuid_of


class Found(NamedTuple):
    """What a folder gave."""

    proof: CommitProof
    records: list[AnyMetadataRecord]
    damage: list[str]

    def by_offset(self) -> dict[int, tuple[int, MetadataRecord]]:
        """Return the epoch and the value of each kept record, by its offset."""
        return {
            batch.offset_of(number): (each.epoch, record)
            for each in self.records
            if isinstance(each, MetadataSlice)
            for batch in each.batches
            for number, record in enumerate(batch.records)
        }

    def covered(self) -> list[tuple[int, int]]:
        """Return the offsets that slices cover."""
        slices = [each for each in self.records if isinstance(each, MetadataSlice)]
        return [(each.first, each.last) for each in slices]

    def topics(self) -> list[str]:
        """Return the names of the topics in snapshots and slices, in order."""
        parts = [each.records for each in self.records if isinstance(each, SnapshotPart)]
        records = [*itertools.chain(*parts), *(record for _, record in self.by_offset().values())]
        return [each.name for each in records if isinstance(each, Topic)]


def read(path: Path) -> Found:
    """Read a folder to its end."""
    folder = MetadataFolder(path)
    proof = folder.prove()
    found = list(folder.records("c", proof))
    damage = [each.text for each in found if isinstance(each, Damage)]
    assert all("\n" not in line for line in damage)
    return Found(proof, [each.record for each in found if isinstance(each, Made)], damage)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """The recorded folders, and the truth of their cluster."""
    folder = tmp_path_factory.mktemp("recorded")
    return folder, unpack(folder)


def topic(name: str) -> Written:
    """Return a record of a topic."""
    return Written("TopicRecord", {"name": name, "topic_id": uuid_of(len(name))})


def leader_change(offset: int, epoch: int, *voters: int, leader: int = 1) -> bytes:
    """Return the batch of an election."""
    ids = [{"voter_id": each, "voter_directory_id": uuid_of(each)} for each in voters]
    values = {"leader_id": leader, "voters": ids, "granting_voters": ids}
    return control_batch(offset, epoch, Written("LeaderChangeMessage", values))


def topics_batch(offset: int, epoch: int, *names: str) -> bytes:
    """Return a batch that creates topics."""
    return record_batch(offset, epoch, [topic(each) for each in names])


def with_body(batch: bytes, body: bytes) -> bytes:
    """Return a batch with other records under the same header, and the right checksum."""
    checked = batch[21:61] + body
    head = batch[:8] + struct.pack(">i", 49 + len(body)) + batch[12:17]
    return head + struct.pack(">I", google_crc32c.value(checked)) + checked


class Copy:
    """A folder in the making."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.path.mkdir()

    def segment(self, base: int, *batches: bytes) -> Path:
        """Write a segment."""
        path = self.path / f"{base:020d}.log"
        path.write_bytes(b"".join(batches))
        return path

    def snapshot(self, end: int, epoch: int, *names: str) -> Path:
        """Write a snapshot with these topics."""
        path = self.path / f"{end:020d}-{epoch:010d}.checkpoint"
        header = Written("SnapshotHeaderRecord", {"last_contained_log_timestamp": 900})
        batches = [
            control_batch(0, epoch, header),
            topics_batch(1, epoch, *names),
            control_batch(1 + len(names), epoch, Written("SnapshotFooterRecord")),
        ]
        path.write_bytes(b"".join(batches))
        return path

    def replica(self, node: int, leader: int, epoch: int, *, voters: Iterable[int] = ()) -> None:
        """Write whose folder it is, and in what state that replica was."""
        (self.path.parent / "meta.properties").write_text(f"#\nversion=1\nnode.id={node}\n")
        named = ",".join(f'{{"voterId":{each}}}' for each in voters)
        (self.path / "quorum-state").write_text(
            f'{{"leaderId":{leader},"leaderEpoch":{epoch},"votedId":-1,"currentVoters":[{named}],"data_version":0}}'
        )


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """An empty folder."""
    return Copy(tmp_path)


def test_what_is_proven_of_a_leader_without_its_quorum_is_what_the_next_leader_has(
    recorded: tuple[Path, Truth],
) -> None:
    """Its own last records, which no majority had, are behind the proven end; up to it both logs are equal."""
    folder, truth = recorded
    abandoned, voter = read(folder / ABANDONED), read(folder / VOTER)
    proven = {o: its for o, its in abandoned.by_offset().items() if o < abandoned.proof.end}
    kept = {o: its for o, its in voter.by_offset().items() if o < abandoned.proof.end}
    assert proven == kept
    assert abandoned.by_offset().items() - voter.by_offset().items()
    lost = {
        each.topic_id
        for _, each in abandoned.by_offset().values()
        if _is_of(each, truth.uncommitted)
    }
    assert lost
    assert lost.isdisjoint(
        truth.topic_ids.values()
    )  # brokers sent the request again, to the next leader
    assert not abandoned.damage + voter.damage
    assert any(first == abandoned.proof.end for first, _ in abandoned.covered())


def _is_of(record: MetadataRecord, name: str) -> TypeGuard[Topic]:
    return isinstance(record, Topic) and record.name == name


@pytest.mark.parametrize("name", [VOTER, BROKER])
def test_the_log_of_voters_and_brokers_names_the_leaders_that_were_seen(
    recorded: tuple[Path, Truth], name: str
) -> None:
    """Ids and epochs of all elections, whichever node the folder is of; a cluster's id where it was copied, too."""
    folder, truth = recorded
    found = read(folder / name)
    changes = [each for _, each in found.by_offset().values() if isinstance(each, LeaderChange)]
    assert tuple((each.leader_id, each.epoch) for each in changes) == truth.leaders
    assert MetadataFolder(folder / name / NAME).cluster_id == truth.cluster_id
    assert {*truth.topics} <= {*found.topics()}


def test_a_folder_that_is_cut_anywhere_gives_the_beginning_of_what_it_held(
    recorded: tuple[Path, Truth], tmp_path: Path
) -> None:
    """However many bytes of a log are there, what is read of it is the beginning of the whole, and the rest is told."""
    whole = read(recorded[0] / VOTER)
    copied = tmp_path / VOTER
    shutil.copytree(recorded[0] / VOTER, copied)
    for snapshot in (copied / NAME).glob("*.checkpoint"):
        snapshot.unlink()
    (segment,) = (copied / NAME).glob("*.log")
    data = segment.read_bytes()
    for size in range(0, len(data), 211):
        segment.write_bytes(data[:size])
        found = read(copied)
        assert found.by_offset().items() <= whole.by_offset().items()
        end = found.proof.log_end
        assert found.covered() == [] or found.covered()[-1][1] == end - 1
        assert set(found.by_offset()) == {each for each in whole.by_offset() if each < end}
        assert len(found.damage) <= 1


def test_a_damaged_byte_is_told_and_never_read_past(
    recorded: tuple[Path, Truth], tmp_path: Path
) -> None:
    """Each changed byte ends the reading of its file before its batch; a later snapshot says what is true again."""
    whole = read(recorded[0] / VOTER)
    copied = tmp_path / VOTER
    shutil.copytree(recorded[0] / VOTER, copied)
    (segment,) = (copied / NAME).glob("*.log")
    data = segment.read_bytes()
    for place in range(0, len(data), 307):
        changed = bytearray(data)
        changed[place] ^= 0x41
        segment.write_bytes(changed)
        found = read(copied)
        assert found.damage or found.by_offset() == whole.by_offset()
        assert found.by_offset().items() <= whole.by_offset().items()


def test_a_controller_that_writes_proves_its_own_election(copy: Copy) -> None:
    """A record of an epoch, and not its election alone, proves what was before it."""
    before = (leader_change(0, 1, 1, 2, 3), topics_batch(1, 1, "a"), leader_change(2, 3, 1, 2, 3))
    copy.segment(0, *before)
    assert read(copy.path).proof[:1] == (1,)
    copy.segment(0, *before, topics_batch(3, 3, "b"))
    proof = read(copy.path).proof
    assert (proof.end, proof.log_end, proof.unproven_since) == (3, 4, 1_000)
    assert "epoch 3" in proof.why


@pytest.mark.parametrize(
    ("node", "leader", "epoch", "voters", "proven"),
    [
        (2, 1, 1, (1, 2, 3), 3),  # the leader's record is here as well: two of three
        (1, 1, 1, (1,), 3),  # alone it is the majority
        (1, 1, 1, (1, 2, 3), 1),  # the leader does not know who else has it
        (2, 1, 1, (1, 2, 3, 4, 5), 1),  # two of five
        (4, 1, 1, (1, 2, 3), 1),  # a broker
        (2, 3, 2, (1, 2, 3), 1),  # it went on to another epoch, whose leader may not have them
        (2, -1, 1, (1, 2, 3), 1),  # it knows no leader
    ],
)
def test_a_majority_of_the_epochs_voters_proves_all_records(
    copy: Copy,
    *,
    node: int,
    leader: int,
    epoch: int,
    voters: tuple[int, ...],
    proven: int,
) -> None:
    """Only the leader's and the replica's own copy are known of, and only in the epoch of the records."""
    copy.segment(0, leader_change(0, 1, *voters), topics_batch(1, 1, "a"), topics_batch(2, 1, "b"))
    copy.replica(node, leader, epoch, voters=voters)
    assert read(copy.path).proof.end == proven


def test_without_the_nodes_id_no_majority_is_known(copy: Copy) -> None:
    """`meta.properties` stands beside the folder, and may not have been copied."""
    copy.segment(0, leader_change(0, 1, 1, 2, 3), topics_batch(1, 1, "a"))
    copy.replica(2, 1, 1)
    assert read(copy.path).proof.end == 2
    (copy.path.parent / "meta.properties").unlink()
    assert read(copy.path).proof.end == 1


def test_a_cleaned_log_begins_with_a_snapshot(copy: Copy) -> None:
    """The earliest snapshot at or behind its beginning is used, and what it includes is not read twice."""
    copy.segment(10, topics_batch(10, 2, "in"), topics_batch(11, 2, "new"))
    copy.snapshot(9, 2, "old")
    copy.snapshot(11, 2, "old", "in")
    copy.snapshot(12, 2, "old", "in", "new")
    found = read(copy.path)
    assert found.topics() == ["old", "in", "new"]
    assert found.covered() == [(11, 11)]
    (started,) = (each for each in found.records if isinstance(each, SnapshotStarted))
    assert (started.end, started.epoch, started.observed_at) == (11, 2, 900)
    (follows,) = (each for each in found.records if isinstance(each, MetadataSlice))
    assert follows.after_epoch == 2
    assert found.damage == []


def test_a_log_without_its_beginning_is_read_and_said_to_lack_it(copy: Copy) -> None:
    """What was before its first record is not known."""
    copy.segment(10, topics_batch(10, 2, "a"))
    found = read(copy.path)
    assert found.topics() == ["a"]
    assert "the log begins at offset 10, and no snapshot says what was before" in found.damage[0]


def test_a_snapshot_stands_in_for_records_that_are_missing(copy: Copy) -> None:
    """Without one, nothing behind a hole is shown."""
    copy.segment(0, leader_change(0, 1), topics_batch(1, 1, "a"))
    copy.segment(5, topics_batch(5, 1, "c"), topics_batch(6, 1, "d"))
    found = read(copy.path)
    assert (found.topics(), found.covered()) == (["a"], [(0, 0), (1, 1)])
    assert found.damage == [f"{copy.path}: offsets 2 to 4 are missing"]
    copy.snapshot(6, 1, "a", "b", "c")
    found = read(copy.path)
    assert found.covered() == [(0, 1), (6, 6)]
    assert found.damage == [f"{copy.path}: offsets 2 to 4 are missing"]
    assert (found.proof.end, found.proof.log_end) == (6, 7)


def test_a_snapshot_alone_says_what_was_true_at_its_end(copy: Copy) -> None:
    """Segments may be gone; the newest snapshot that is whole counts."""
    copy.snapshot(6, 1, "a")
    newest = copy.snapshot(8, 1, "a", "b")
    newest.write_bytes(newest.read_bytes()[:-10])
    found = read(copy.path)
    assert found.topics() == ["a"]
    assert (found.proof.end, found.proof.log_end) == (6, 6)
    assert "ends within a record batch" in found.damage[0]


def test_a_snapshot_that_lacks_its_last_batch_is_not_used(copy: Copy) -> None:
    """A snapshot ends with a footer; a file that was cut off between two batches has none."""
    path = copy.snapshot(8, 1, "a")
    footer = control_batch(2, 1, Written("SnapshotFooterRecord"))
    path.write_bytes(path.read_bytes().removesuffix(footer))
    assert "does not end as a snapshot does" in read(copy.path).damage[0]


def test_a_snapshot_of_another_cluster_proves_nothing(copy: Copy) -> None:
    """Its epoch is not the log's at its end."""
    copy.segment(0, leader_change(0, 2), topics_batch(1, 2, "a"), topics_batch(2, 2, "b"))
    copy.snapshot(2, 1, "x")
    assert read(copy.path).proof.end == 1
    copy.snapshot(2, 2, "a")
    assert read(copy.path).proof.end == 2


def test_a_log_that_does_not_continue_is_not_taken_for_one(copy: Copy) -> None:
    """Files of different times or nodes: an epoch that falls, and offsets that come a second time."""
    copy.segment(0, leader_change(0, 3), topics_batch(1, 3, "a"))
    copy.segment(2, topics_batch(2, 2, "b"))
    assert "epoch 3 at offset 1 is followed by epoch 2" in read(copy.path).damage[0]
    copy.segment(2, topics_batch(2, 4, "b"))
    assert (
        "at offset 2 of epoch 4 the log does not follow offset 1 of epoch 3"
        in read(copy.path).damage[0]
    )
    copy.segment(2, topics_batch(1, 3, "b"))
    found = read(copy.path)
    assert found.topics() == ["a"]
    assert "begins with offset 1: it has another file's name" in found.damage[0]


def test_a_long_log_is_read_in_slices(copy: Copy) -> None:
    """Each has a bounded number of records, also where one batch has more."""
    names = [str(number) for number in range(MAX_SLICE_RECORDS)]
    sizes = [200, 200, 200, *[MAX_SLICE_RECORDS] * 4]
    places = [sum(sizes[:number]) for number in range(len(sizes))]
    copy.segment(
        0,
        *(topics_batch(at, 1, *names[:size]) for at, size in zip(places, sizes, strict=True)),
        topics_batch(sum(sizes), 1, *names, "one more"),
    )
    found = read(copy.path)
    assert found.covered() == [
        (0, 399),
        (400, 599),
        *((at, at + MAX_SLICE_RECORDS - 1) for at in (*places[3:], sum(sizes))),
        (sum(sizes) + MAX_SLICE_RECORDS,) * 2,
    ]
    assert len(found.topics()) == sum(sizes) + len(names) + 1


def test_a_long_log_without_kept_records_is_read_in_slices(copy: Copy) -> None:
    """Its offsets do not wait for its end: memory holds the batches of one slice."""
    idle = [Written("NoOpRecord")]
    copy.segment(0, *(record_batch(n, 1, idle, at=1_000 + n) for n in range(1_200)))
    assert read(copy.path).covered() == [(0, 499), (500, 999), (1_000, 1_199)]


def test_a_slice_covers_a_few_seconds(copy: Copy) -> None:
    """What is judged by time is judged at the end of a slice; an idle controller writes each half second."""
    idle = [Written("NoOpRecord")]
    copy.segment(0, *(record_batch(n, 1, idle, at=1_000 + n * 500) for n in range(50)))
    assert read(copy.path).covered() == [(0, 20), (21, 41), (42, 49)]


def test_a_transaction_takes_effect_at_its_end_only(copy: Copy) -> None:
    """What is aborted or does not end has no effect; what ends is there as a whole, over batches and epochs."""
    begin = Written("BeginTransactionRecord", {"name": "t"})
    batches = [
        leader_change(0, 1),
        record_batch(1, 1, [begin, topic("a")]),
        record_batch(3, 1, [topic("b"), Written("EndTransactionRecord")]),
        record_batch(5, 1, [begin, topic("aborted")]),
        leader_change(7, 2),
        record_batch(8, 2, [Written("AbortTransactionRecord", {"reason": "r"}), topic("c")]),
    ]
    copy.segment(0, *batches)
    found = read(copy.path)
    assert found.topics() == ["a", "b", "c"]
    assert (
        found.proof.end == 5
    )  # epoch 2 proves its election at 7, and not that it aborts what stands before
    assert found.covered() == [(0, 4), (5, 6), (7, 9)]
    copy.segment(0, *batches, record_batch(10, 2, [begin, topic("open")]))
    found = read(copy.path)
    assert found.topics() == ["a", "b", "c"]
    assert "the transaction that begins at offset 10 does not end" in found.damage[0]


def _other_topic(copy: Copy) -> None:
    copy.segment(0, topics_batch(0, 1, "a"))
    (copy.path / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_of(9)}")


def _packed(copy: Copy) -> None:
    (copy.path / f"{0:020d}.log.gz").write_bytes(b"x")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: None, "is empty: name a copy of a node's __cluster_metadata-0"),
        (lambda copy: (copy.path / "a.txt").touch(), "has no segment .* among 1 files"),
        (_other_topic, "is a partition of topic .*, and not of the metadata log"),
        (_packed, "are compressed: unpack them"),
        (
            lambda copy: copy.segment(0, record_batch(0, 1, [b"order 7"])),
            "holds records that are none of a metadata log",
        ),
        (lambda copy: copy.path.rmdir(), "has no segment|is empty|cannot read"),
    ],
)
def test_a_folder_that_is_none_is_refused_in_one_line(
    copy: Copy, make: Callable[[Copy], object], said: str
) -> None:
    """The line says what the folder is, and what to name instead."""
    make(copy)
    with pytest.raises(UsageError, match=said) as caught:
        read(copy.path)
    assert "\n" not in str(caught.value)


def test_a_batch_that_is_whole_and_can_not_be_read_ends_the_reading(copy: Copy) -> None:
    """Its checksum is right: it was written so."""
    longer = topics_batch(1, 1, "b")
    body = longer[61:] + b"x"
    broken = with_body(longer, body)
    copy.segment(0, topics_batch(0, 1, "a"), broken, topics_batch(2, 1, "c"))
    found = read(copy.path)
    assert found.topics() == ["a"]
    assert "the batch at offset 1 is longer than its records" in found.damage[0]


def test_a_length_that_no_batch_has_ends_the_reading(copy: Copy) -> None:
    """What follows is not waited for: the length is damaged."""
    cut = topics_batch(1, 1, "b")
    huge = cut[:8] + struct.pack(">i", 2**31 - 1) + cut[12:]
    copy.segment(0, topics_batch(0, 1, "a"), huge)
    found = read(copy.path)
    assert found.topics() == ["a"]
    assert "a batch of 2147483659 bytes, and not 61 to 16777216" in found.damage[0]


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "{}", '{"leaderId":"x","leaderEpoch":[]}', "\0\xff=\n="]
)
def test_what_is_beside_the_log_may_hold_anything(copy: Copy, text: str) -> None:
    """Less is proven then, and no more."""
    copy.segment(0, leader_change(0, 1, 1, 2, 3), topics_batch(1, 1, "a"))
    for path in (
        "quorum-state",
        "partition.metadata",
        "leader-epoch-checkpoint",
        "../meta.properties",
    ):
        (copy.path / path).write_text(text)
    found = read(copy.path)
    assert (found.proof.end, found.topics(), found.damage) == (1, ["a"], [])


def test_a_file_that_may_not_be_read_is_told(copy: Copy) -> None:
    """Here it is no file."""
    copy.segment(0, topics_batch(0, 1, "a"))
    (copy.path / f"{1:020d}.log").mkdir()
    found = read(copy.path)
    assert found.topics() == ["a"]
    assert f"cannot read {copy.path / f'{1:020d}.log'}: Is a directory" in found.damage[0]


def test_a_compressed_file_among_others_is_told(copy: Copy) -> None:
    """What is beside it is read."""
    copy.segment(0, topics_batch(0, 1, "a"))
    _packed(copy)
    found = read(copy.path)
    assert "is compressed: unpack it" in found.damage[0]
