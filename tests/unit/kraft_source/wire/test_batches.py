"""Tests of record batches: what is damaged is noticed, what is cut off is left for the next answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_source.wire.batches import CorruptBatchError, RecordBatch, split_batches
from tests.support.metadata_log import Written, control_batch, rechecked, record_batch

FIRST = record_batch(5, 2, [Written("NoOpRecord"), Written("NoOpRecord")], at=1_234)
SECOND = control_batch(7, 3, Written("SnapshotFooterRecord"), at=1_235)
UNCHECKED_BYTES = 16
"""The base offset, the length and the epoch are in front of what the checksum covers."""


def test_batches_follow_each_other() -> None:
    """Each batch has its offsets, its epoch, its time and its bytes."""
    assert list(split_batches(FIRST + SECOND)) == [
        RecordBatch(5, 6, 2, 1_234, is_control=False, record_count=2, data=FIRST),
        RecordBatch(7, 7, 3, 1_235, is_control=True, record_count=1, data=SECOND),
    ]


@pytest.mark.parametrize("size", range(len(SECOND)))
def test_a_batch_that_is_cut_off_is_left(size: int) -> None:
    """An answer may end inside a batch: what is complete is there, the rest is no error."""
    cut = FIRST + SECOND[:size]
    assert [each.offset for each in split_batches(cut)] == [5]


@given(st.integers(UNCHECKED_BYTES * 8, len(FIRST) * 8 - 1))
def test_each_damaged_bit_is_noticed(bit: int) -> None:
    """No bit behind the epoch can change unnoticed."""
    damaged = bytearray(FIRST)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptBatchError, match="the batch at offset 5"):
        list(split_batches(bytes(damaged)))


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (16, b"\x01", "format 1, and not 2"),
        (21, b"\x00\x01", "is compressed"),
        (57, b"\x00\x00\x00\x03", "has 3 records, but its last is number 1"),
        (8, b"\x00\x00\x00\x05", "a batch of 17 bytes"),
        (8, b"\xff\xff\xff\xff", "a batch of 11 bytes"),
        (8, b"\x01\x00\x00\x00", "a batch of 16777228 bytes"),
    ],
)
def test_what_no_metadata_log_holds_is_refused(place: int, value: bytes, says: str) -> None:
    """A batch with a valid checksum is refused all the same where it is of another kind."""
    damaged = rechecked(FIRST[:place] + value + FIRST[place + len(value) :])
    with pytest.raises(CorruptBatchError, match=says):
        list(split_batches(damaged))
