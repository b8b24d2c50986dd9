"""Slices cover every offset once; what is said of a batch stays with each part of it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_model.kafka.metadata_records import (
    MIN_ISR,
    UNCLEAN,
    BrokerRegistrationChange,
    Config,
    FeatureLevel,
    MetadataRecord,
    Partition,
    PartitionChange,
    Topic,
)
from controller_model.records.events import TopicCreated, TopicExpanded
from controller_model.records.metadata_log import (
    NO_EPOCH,
    MetadataSlice,
    SnapshotFinished,
    SnapshotPart,
    SnapshotStarted,
)
from kraft_source import slices
from kraft_source.observer.observer import NOTHING
from kraft_source.observer.released import (
    Committed,
    CommittedBatch,
    SnapshotChunk,
    SnapshotComplete,
    SnapshotOpened,
)
from kraft_source.slices import MAX_SLICE_RECORDS, Made, RecordMaker
from kraft_source.wire.messages import EpochEnd, EpochLeader
from tests.support.kraft_cluster import KraftFold
from tests.support.metadata_log import uuid_of

CHANGE = PartitionChange(0, uuid_of(1), leader=-1)
FENCED = BrokerRegistrationChange(1, 7, fenced=True)


def maker(start: EpochEnd = NOTHING) -> RecordMaker:
    """Return a maker of generation 1."""
    return RecordMaker("prod", "w1", None, 1, start)


def batch(
    first: int,
    last: int,
    *kept: tuple[int, MetadataRecord],
    epoch: int = 1,
    at: int | None = None,
    is_in_transaction: bool = False,
    unknown: dict[str, int] | None = None,
) -> CommittedBatch:
    """Return a batch; `at` is a second for each offset."""
    return CommittedBatch(
        first, last, epoch, last * 1_000 if at is None else at, list(kept), unknown or {},
        is_in_transaction,
    )  # fmt: skip


def made_of(made: list[Made]) -> list[MetadataSlice]:
    """Return slices, all of which are encoded as they are."""
    return [each.record for each in made if isinstance(each.record, MetadataSlice)]


def test_no_ops_wait_for_the_next_kept_record_and_are_covered_by_its_slice() -> None:
    """Its times tell when the first of them was appended, and the longest pause."""
    made = maker()
    assert made.handle_released(Committed([batch(0, 0), batch(1, 1)], 2), None) == []
    assert (made.end, made.released) == (0, 2)
    (record,) = made_of(
        made.handle_released(Committed([batch(2, 3, (3, CHANGE), at=7_000)], 4), None)
    )
    assert (record.first, record.last, record.after_epoch, record.epoch) == (0, 3, NO_EPOCH, 1)
    assert (record.first_at, record.observed_at, record.longest_pause_ms) == (0, 7_000, 6_000)
    assert record.high_watermark == 4
    assert [(each.offset, each.at, each.offsets) for each in record.batches] == [(3, 7_000, ())]
    assert made.end == made.released == 4


def test_no_ops_alone_become_a_slice_when_they_are_flushed() -> None:
    """One record alone has no pause; a second flush has nothing to say."""
    made = maker(EpochEnd(5, 3))
    made.handle_released(Committed([batch(5, 5, epoch=3)], 6), None)
    (record,) = made_of(made.flush())
    assert (record.first, record.last, record.after_epoch, record.batches) == (5, 5, 3, ())
    assert record.longest_pause_ms is None
    assert made.flush() == []


def test_a_new_epoch_begins_a_new_slice_after_what_waited_of_the_old_one() -> None:
    """The old epoch's last sign of life stands in a slice of its own."""
    made = maker()
    batches = [batch(0, 0, epoch=1), batch(1, 1, (1, CHANGE), epoch=4)]
    old, new = made_of(made.handle_released(Committed(batches, 2), None))
    assert (old.first, old.last, old.epoch, old.observed_at) == (0, 0, 1, 0)
    assert (new.first, new.last, new.after_epoch, new.epoch) == (1, 1, 1, 4)


def test_a_slice_covers_some_seconds_at_most() -> None:
    """Of a log that is read late, what depends on time is judged as when it happened."""
    batches = [batch(each, each, at=each * 4_000) for each in range(7)]
    parts = made_of(
        maker().handle_released(Committed([*batches, batch(7, 7, (7, CHANGE), at=28_000)], 8), None)
    )
    assert [(each.first, each.last) for each in parts][:2] == [(0, 2), (3, 5)]


def test_each_part_of_a_large_batch_names_what_the_rest_says_of_brokers() -> None:
    """The fencing, which Kafka writes last, is the cause of all parts; what is unknown is counted once."""
    count = 2 * MAX_SLICE_RECORDS
    kept = [(offset, CHANGE) for offset in range(count)]
    whole = batch(0, count, *kept, (count, FENCED), unknown={"99v0": 2})
    parts = made_of(maker().handle_released(Committed([whole], count + 1), None))
    assert [(each.first, each.last) for each in parts] == [(0, 499), (500, 999), (1000, 1000)]
    assert [each.batches[0].ahead for each in parts] == [(FENCED,), (FENCED,), ()]
    assert [dict(each.unknown) for each in parts] == [{"99v0": 2}, {}, {}]


def topic_records(topic: int, partitions: int) -> list[MetadataRecord]:
    """Return a new topic as Kafka writes it."""
    name = f"t{topic}"
    return [
        Topic(name, uuid_of(topic)),
        Config(2, name, MIN_ISR, "2"),
        Config(2, name, UNCLEAN, "true"),
        *(Partition(number, uuid_of(topic), (1,), (1,), 1, 0, 0) for number in range(partitions)),
    ]


LARGE = 2 * MAX_SLICE_RECORDS + 7


def reports(made: list[Made]) -> list[tuple[str, str, int]]:
    """Return what a fold reports of topics."""
    return [
        (type(each).__name__, each.topic, each.partitions)
        for each in KraftFold().feed([each.record for each in made]).events
        if isinstance(each, TopicCreated | TopicExpanded)
    ]


def test_a_topic_is_reported_once_as_it_is_created_and_expanded() -> None:
    """With all its partitions, however many those are."""
    records = [*topic_records(1, 300), *topic_records(2, LARGE)]
    end = len(records)
    more = [Partition(LARGE + n, uuid_of(2), (1,), (1,), 1, 0, 0) for n in range(LARGE)]
    released = [
        batch(0, end - 1, *enumerate(records)),
        batch(end, end + LARGE - 1, *enumerate(more, start=end)),
    ]
    assert reports(maker().handle_released(Committed(released, end + LARGE), None)) == [
        ("TopicCreated", "t1", 300),
        ("TopicCreated", "t2", LARGE),
        ("TopicExpanded", "t2", 2 * LARGE),
    ]


@given(st.integers(1, 1_200))
def test_a_topic_is_reported_once_as_a_snapshot_shows_it(size: int) -> None:
    """Wherever the chunks of the snapshot end."""
    made = maker()
    parts: list[Made] = []
    fenced: list[MetadataRecord] = [FENCED]
    for number, records in enumerate((fenced, [*topic_records(1, 300), *topic_records(2, LARGE)])):
        end = EpochEnd(5_000 + number, 1)
        parts += made.handle_released(SnapshotOpened(end, 0), None)
        for begin in range(0, len(records), size):
            chunk = SnapshotChunk([*records[begin : begin + size]], {})
            parts += made.handle_released(chunk, None)
        parts += made.handle_released(SnapshotComplete(end), None)
    assert reports(parts) == [("TopicCreated", "t1", 300), ("TopicCreated", "t2", LARGE)]


def test_a_large_batch_is_cut_before_a_topic() -> None:
    """Only between topics, and no record is lost: one that is larger than a slice has a slice of its own."""
    counts = (MAX_SLICE_RECORDS - 100, 300, LARGE, 5)
    records = [
        record for topic, count in enumerate(counts) for record in topic_records(topic, count)
    ]
    records += [Config(2, "t0", MIN_ISR, "3")] * LARGE
    kept = list(enumerate(records))
    cut = made_of(
        maker().handle_released(Committed([batch(0, len(kept) - 1, *kept)], len(kept)), None)
    )
    starts = [sum(3 + count for count in counts[:n]) for n in range(4)]
    assert [each.first for each in cut] == [
        *starts,
        *range(starts[3] + MAX_SLICE_RECORDS, len(kept), MAX_SLICE_RECORDS),
    ]
    assert [record for each in cut for part in each.batches for record in part.records] == records


RUNS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["created", "expanded"]), st.integers(1, 9)),
        st.sampled_from([FENCED, Config(2, "x", MIN_ISR, "1")]),
    ),
    min_size=1,
    max_size=12,
)


@given(RUNS, st.integers(1, 6), st.integers(6, 8))
def test_cuts_tear_no_topic_and_are_as_few_as_may_be(
    runs: list[tuple[str, int] | MetadataRecord], size: int, most: int
) -> None:
    """A part is larger than asked only where it has no place to be cut, and at most as large as Kafka creates at once."""
    records: list[MetadataRecord] = []
    places = set[int]()
    for number, run in enumerate(runs):
        places.add(len(records))
        if isinstance(run, tuple):
            whole = topic_records(number, run[1])
            records += whole if run[0] == "created" else whole[-run[1] :]
        else:
            records.append(run)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(slices, "MAX_TOPIC_RECORDS", most)
        cuts = slices._cuts(records, size)
    assert (cuts[0], cuts[-1]) == (0, len(records))
    for begin, cut in itertools.pairwise(cuts):
        fitting = [at for at in places if begin < at <= begin + size]
        longer = [at for at in places if begin + size < at < begin + most]
        if len(records) - begin <= size:
            assert cut == len(records)
        elif fitting:
            assert cut == max(fitting)
        else:
            assert cut == min(longer, default=min(begin + most, len(records)))


@pytest.mark.parametrize("max_bytes", [30_000, 10_000_000])
def test_what_is_larger_than_kafka_creates_at_once_is_parted(
    monkeypatch: pytest.MonkeyPatch, max_bytes: int
) -> None:
    """As is a part of a snapshot that a message could not hold; nothing is lost, and nothing of a snapshot that was given up."""
    records = topic_records(1, LARGE)
    end = EpochEnd(5_000, 1)
    monkeypatch.setattr(slices, "MAX_TOPIC_RECORDS", LARGE // 2)
    monkeypatch.setattr(slices, "MAX_CHANGE_BYTES", max_bytes)
    made = maker()
    made.handle_released(SnapshotOpened(end, 0), None)
    made.handle_released(SnapshotChunk([FENCED, FENCED], {}), None)
    made.handle_released(SnapshotOpened(end, 0), None)
    parts: list[Made] = []
    for begin in range(0, len(records), 200):
        parts += made.handle_released(SnapshotChunk([*records[begin : begin + 200]], {}), None)
    assert len(made._rest) <= LARGE // 2
    parts += made.handle_released(SnapshotComplete(end), None)
    assert all(len(each.data) <= max_bytes for each in parts)
    held = [each.record for each in parts if isinstance(each.record, SnapshotPart)]
    assert [each.number for each in held] == list(range(1, len(held) + 1))
    assert len(held) > 1
    assert max(len(each.records) for each in held) <= LARGE // 2
    assert [record for each in held for record in each.records] == records


def test_a_transaction_is_one_slice_however_large() -> None:
    """An observer that began inside it would not know that it had begun."""
    kept = [(offset, CHANGE) for offset in range(MAX_SLICE_RECORDS)]
    more = [(offset + MAX_SLICE_RECORDS, CHANGE) for offset in range(MAX_SLICE_RECORDS)]
    size = MAX_SLICE_RECORDS
    batches = [
        batch(0, size - 1, *kept, is_in_transaction=True),
        batch(size, 2 * size - 1, *more),
        batch(2 * size, 2 * size, (2 * size, CHANGE)),
    ]
    parts = made_of(maker().handle_released(Committed(batches, 2 * size + 1), None))
    assert [(each.first, each.last) for each in parts] == [(0, 2 * size - 1), (2 * size, 2 * size)]


def test_what_kafka_would_not_take_is_cut_until_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, and no offset is covered twice."""
    monkeypatch.setattr(slices, "MAX_CHANGE_BYTES", 700)
    kept = [(offset, CHANGE) for offset in range(10)]
    made = maker().handle_released(Committed([batch(0, 11, *kept)], 12), None)
    assert len(made) > 1
    assert all(len(each.data) <= 700 for each in made)
    parts = made_of(made)
    assert [each.first for each in parts] == [0, *(each.last + 1 for each in parts[:-1])]
    assert parts[-1].last == 11


def test_a_snapshot_is_started_counted_and_finished_and_slices_follow_it() -> None:
    """Its parts are numbered; who led is in its end; the next slice follows its epoch."""
    made = maker()
    made.snapshot_reason, made.answers = "a hole", 3
    end = EpochEnd(100, 5)
    level = FeatureLevel("metadata.version", 20)
    records = [
        *made.handle_released(SnapshotOpened(end, 9_000), None),
        *made.handle_released(SnapshotChunk([level] * (MAX_SLICE_RECORDS + 1), {"99v0": 1}), None),
        *made.handle_released(SnapshotComplete(end), EpochLeader(3001, 6)),
    ]
    started, one, two, finished = [each.record for each in records]
    assert isinstance(started, SnapshotStarted)
    assert (started.end, started.epoch, started.observed_at) == (100, 5, 9_000)
    assert (started.reason, started.answers) == ("a hole", 3)
    assert isinstance(one, SnapshotPart)
    assert isinstance(two, SnapshotPart)
    assert [(each.number, len(each.records)) for each in (one, two)] == [
        (1, MAX_SLICE_RECORDS),
        (2, 1),
    ]
    assert isinstance(finished, SnapshotFinished)
    assert (finished.parts, finished.leader, finished.leader_epoch) == (2, 3001, 6)
    assert dict(finished.unknown) == {"99v0": 1}
    (after,) = made_of(
        made.handle_released(Committed([batch(100, 100, (100, CHANGE), epoch=6)], 101), None)
    )
    assert (after.first, after.after_epoch) == (100, 5)


BATCHES = st.lists(
    st.tuples(
        st.integers(1, 700),  # offsets
        st.sets(st.integers(0, 699), max_size=20),  # kept
        st.booleans(),  # all are kept
        st.integers(0, 1),  # epochs later
        st.booleans(),  # in a transaction
    ),
    max_size=12,
)


@given(BATCHES, st.integers(1, 4))
def test_however_batches_come_slices_hold_each_kept_record_once_and_each_offset(
    drawn: list[tuple[int, set[int], bool, int, bool]], grouped: int
) -> None:
    """However they are grouped, and wherever they are cut."""
    offset, epoch = 0, 1
    batches: list[CommittedBatch] = []
    for size, some, is_full, later, is_open in drawn:
        epoch += later
        kept = range(size) if is_full else sorted(each for each in some if each < size)
        records = [(offset + each, FENCED if each % 5 == 0 else CHANGE) for each in kept]
        batches.append(
            batch(offset, offset + size - 1, *records, epoch=epoch, is_in_transaction=is_open)
        )
        offset += size
    made = maker()
    parts: list[MetadataSlice] = []
    for begin in range(0, len(batches), grouped):
        group = batches[begin : begin + grouped]
        if group:
            group[-1] = group[-1]._replace(is_in_transaction=False)
        parts += made_of(made.handle_released(Committed(group, offset), None))
    parts += made_of(made.flush())

    assert [each.first for each in parts] == [0, *(each.last + 1 for each in parts)][: len(parts)]
    assert made.end == offset
    assert [each.after_epoch for each in parts[1:]] == [each.epoch for each in parts[:-1]]
    found = [
        (each.offset_of(index), record)
        for part in parts
        for each in part.batches
        for index, record in enumerate(each.records)
    ]
    assert found == [each for whole in batches for each in whole.records]
    for part in parts:
        for each in part.batches:
            whole = next(b for b in batches if b.offset <= each.offset <= b.last_offset)
            last = each.offset_of(len(each.records) - 1)
            behind = [r for o, r in whole.records if o > last and r is FENCED]
            assert (whole.epoch, whole.at) == (part.epoch, each.at)
            assert list(each.ahead) == behind
