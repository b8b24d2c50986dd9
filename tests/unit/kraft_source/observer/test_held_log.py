"""Tests of what is held back: the gate, transactions, and what a new leader's log cuts off."""

from __future__ import annotations

import pytest

from controller_model.kafka.metadata_records import LeaderChange, Topic
from kraft_source.observer.held_log import HeldLog
from kraft_source.observer.observer import NOTHING
from kraft_source.wire.batches import CorruptBatchError
from kraft_source.wire.messages import EpochEnd
from tests.support.metadata_log import Written, control_batch, raw_value, record_batch, uuid_of

BEGIN, END, ABORT = (Written(f"{each}TransactionRecord") for each in ("Begin", "End", "Abort"))


def topic(name: str) -> Written:
    """Return the record of a new topic."""
    return Written("TopicRecord", {"name": name, "topic_id": uuid_of(1)})


def held(*batches: bytes, start: EpochEnd = NOTHING, epoch: int = 9) -> HeldLog:
    """Return a log that was sent these batches."""
    log = HeldLog(start)
    log.append(b"".join(batches), epoch)
    return log


def released(log: HeldLog, high_watermark: int) -> list[tuple[int, int, list[str], bool]]:
    """Return what is released: offsets, names of topics, and whether a transaction goes on."""
    return [
        (
            batch.offset,
            batch.last_offset,
            [record.name for _, record in batch.records if isinstance(record, Topic)],
            batch.is_in_transaction,
        )
        for batch in log.release(high_watermark)
    ]


def test_only_what_is_below_the_high_watermark_is_released() -> None:
    """A batch is committed as a whole: once the high watermark is behind its last record."""
    log = held(record_batch(0, 1, [topic("a"), topic("b")]), record_batch(2, 1, [topic("c")]))
    assert [released(log, watermark) for watermark in (-1, 0, 1)] == [[], [], []]
    assert released(log, 2) == [(0, 1, ["a", "b"], False)]
    assert (log.released, log.end, log.is_waiting) == (EpochEnd(2, 1), EpochEnd(3, 1), True)
    assert released(log, 99) == [(2, 2, ["c"], False)]
    assert (log.released, log.is_waiting) == (EpochEnd(3, 1), False)


def test_a_batch_says_when_and_by_whom_it_was_appended() -> None:
    """Offsets, epoch, time, records and what was not known come with it."""
    change = Written("LeaderChangeMessage", {"leader_id": 3001})
    log = held(
        control_batch(0, 4, change, at=1_234),
        record_batch(1, 4, [Written("NoOpRecord"), raw_value(99, 0, b"")], at=1_235),
    )
    first, second = log.release(3)
    assert first == (0, 0, 4, 1_234, [(0, LeaderChange(3001, 4))], {}, False)
    assert second == (1, 2, 4, 1_235, [], {"metadata record 99 version 0": 1}, False)


def test_a_transaction_is_released_as_a_whole() -> None:
    """Its first batches wait for its end, although they are committed; then they come together."""
    log = held(
        record_batch(0, 1, [topic("before"), BEGIN, topic("a")]),
        record_batch(3, 1, [topic("b")]),
        record_batch(4, 1, [topic("c"), END, topic("behind")]),
    )
    assert released(log, 4) == []
    assert (log.released, log.end) == (NOTHING, EpochEnd(7, 1))
    assert released(log, 7) == [
        (0, 2, ["before", "a"], True),
        (3, 3, ["b"], True),
        (4, 6, ["c", "behind"], False),
    ]
    assert log.released == EpochEnd(7, 1)


def test_an_aborted_transaction_leaves_its_offsets_only() -> None:
    """What it held is dropped; what stands before and behind it in the same batches is not."""
    log = held(
        record_batch(0, 1, [topic("before"), BEGIN, topic("a")]),
        record_batch(3, 1, [topic("b"), ABORT, topic("behind"), BEGIN, topic("c"), END]),
    )
    assert released(log, 9) == [(0, 2, ["before"], True), (3, 8, ["behind", "c"], False)]


def test_a_transaction_that_began_before_the_start_is_dropped_from_the_start_on() -> None:
    """No reader cuts one, but nothing of it may be applied where one does."""
    log = held(record_batch(5, 1, [topic("a"), ABORT, topic("b")]), start=EpochEnd(5, 1))
    assert released(log, 9) == [(5, 7, ["b"], False)]


def test_where_a_transaction_is_open_the_end_is_still_where_to_fetch_from() -> None:
    """Committed batches of an open transaction are held, and not asked for again."""
    log = held(record_batch(0, 1, [BEGIN, topic("a")]))
    assert released(log, 2) == []
    assert (log.end, log.is_waiting) == (EpochEnd(2, 1), False)
    log.append(record_batch(2, 1, [END]), 9)
    assert released(log, 3) == [(0, 1, ["a"], True), (2, 2, [], False)]


@pytest.mark.parametrize(
    ("batch", "epoch", "says"),
    [
        (record_batch(3, 2, [topic("b")]), 9, "offset 2 was asked for, and 3 is sent"),
        (record_batch(1, 2, [topic("b")] * 3), 9, "offset 2 was asked for, and 1 is sent"),
        (record_batch(2, 1, [topic("b")]), 9, "epoch 1 at offset 2 follows epoch 2"),
        (record_batch(2, 8, [topic("b")]), 7, "under the leader of 7"),
        (record_batch(2, 2, [topic("b")])[:-1] + b"\1", 9, "does not have its checksum"),
    ],
)
def test_what_does_not_continue_the_log_is_refused_as_a_whole(
    batch: bytes, epoch: int, says: str
) -> None:
    """A hole, an overlap, a fallen epoch or a damaged batch appends nothing, also not what stands before it."""
    log = held(record_batch(0, 2, [topic("a")]), epoch=2)
    good = record_batch(1, 2, [topic("good")])
    with pytest.raises(CorruptBatchError, match=says):
        log.append(good + batch, epoch)
    assert log.end == EpochEnd(1, 2)


def test_what_is_held_already_is_not_appended_again() -> None:
    """Kafka may send a batch that ends before the offset that was asked for."""
    first = record_batch(0, 1, [topic("a")])
    log = held(first)
    log.append(first + record_batch(1, 1, [topic("b")]), 9)
    assert released(log, 9) == [(0, 0, ["a"], False), (1, 1, ["b"], False)]


def test_a_start_inside_of_a_batch_releases_the_rest_of_it() -> None:
    """A reader may have published a part of a large batch: it goes on behind that part."""
    batch = record_batch(10, 3, [topic(each) for each in "abcd"])
    log = held(batch, start=EpochEnd(12, 3))
    assert released(log, 14) == [(12, 13, ["c", "d"], False)]
    assert log.released == EpochEnd(14, 3)


# Two leaders wrote 0-1 (epoch 1) and 2-3 (epoch 2); what follows was held of a third, and of a fourth.
SHARED = (record_batch(0, 1, [topic("a")] * 2), record_batch(2, 2, [topic("b")] * 2))
TAIL = (record_batch(4, 6, [topic("c")] * 2), record_batch(6, 6, [topic("d")] * 2))


@pytest.mark.parametrize(
    ("diverging", "end"),
    [
        pytest.param(EpochEnd(4, 2), EpochEnd(4, 2), id="the epoch is not in their log"),
        pytest.param(EpochEnd(6, 6), EpochEnd(6, 6), id="their epoch ends earlier"),
        pytest.param(EpochEnd(5, 2), EpochEnd(4, 2), id="their older epoch goes on further"),
        pytest.param(EpochEnd(7, 6), EpochEnd(6, 6), id="inside of a batch"),
        pytest.param(EpochEnd(3, 2), EpochEnd(2, 1), id="inside of a batch of an older epoch"),
    ],
)
def test_a_new_leader_cuts_off_what_it_does_not_have(diverging: EpochEnd, end: EpochEnd) -> None:
    """Held records behind the end of their common epoch go, by offset and by epoch; whole batches only."""
    log = held(*SHARED, *TAIL)
    log.release(2)
    assert log.truncate(diverging)
    assert log.end == end


@pytest.mark.parametrize("diverging", [EpochEnd(3, 2), EpochEnd(4, 1), EpochEnd(0, 0)])
def test_what_was_released_cannot_be_cut_off(diverging: EpochEnd) -> None:
    """A leader without a record that was committed has another log."""
    log = held(*SHARED, *TAIL)
    log.release(4)
    assert not log.truncate(diverging)


def test_a_committed_part_of_a_transaction_cannot_be_cut_off_either() -> None:
    """It is committed, although it waits for its end."""
    log = held(record_batch(0, 1, [BEGIN, topic("a")]), record_batch(2, 1, [topic("b")]))
    log.release(2)
    assert not log.truncate(EpochEnd(1, 1))


def test_dropping_leaves_what_was_released() -> None:
    """All that was not handed on goes, with an open transaction."""
    log = held(record_batch(0, 1, [topic("a")]), record_batch(1, 1, [BEGIN]), *[
        record_batch(2, 1, [topic("b")])
    ])  # fmt: skip
    log.release(2)
    assert log.drop()
    assert (log.end, log.is_waiting) == (EpochEnd(1, 1), False)
    assert not log.drop()
    log.append(record_batch(1, 2, [topic("c")]), 9)
    assert released(log, 2) == [(1, 1, ["c"], False)]
