"""Marks of planned work: what is written is what is read, and nothing else is read."""

from __future__ import annotations

import msgspec
import pytest

from controller_model.kafka.errors import UnreadableRecordError
from pipeline.maintenance import (
    LONGEST_MS,
    VERSION,
    Mark,
    PlannedWork,
    decode_mark,
    encode_work,
    mark_key,
)

WORK = PlannedWork(
    v=VERSION, cluster="prod", broker=3, started_at=1, until=2, reason="3.9.1", epoch=2**60 + 1
)
KEY = mark_key("prod", 3)


def test_a_mark_is_read_as_it_was_written() -> None:
    """All fields come back, numbers of 64 bits included."""
    assert decode_mark(KEY, encode_work(WORK), 1) == Mark("prod", 3, WORK)


def test_an_empty_record_is_the_end_of_a_mark() -> None:
    """A tombstone names the broker by its key."""
    assert decode_mark(KEY, None, 1) == Mark("prod", 3, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, encode_work(WORK)),
        (b"prod", encode_work(WORK)),
        (b"prod/x", None),
        (b"\xff/3", None),
        (mark_key("prod", 4), encode_work(WORK)),
        (mark_key("b", 3), encode_work(WORK)),
        (KEY, b"{}"),
        (KEY, b"\xff"),
        (KEY, encode_work(msgspec.structs.replace(WORK, v=VERSION + 1))),
        (KEY, encode_work(WORK).replace(b'"until":2', b'"until":"2"')),
    ],
)
def test_what_is_no_mark_is_refused(key: bytes | None, value: bytes | None) -> None:
    """Damaged records, other versions and marks under a key that is not theirs mute nothing."""
    with pytest.raises(UnreadableRecordError):
        decode_mark(key, value, 1)


@pytest.mark.parametrize("until", [LONGEST_MS + 8, 10**15])
def test_a_mark_ends_a_day_after_it_was_written(until: int) -> None:
    """An end in another unit, or by a clock that is wrong, mutes for a day at most."""
    wrong = msgspec.structs.replace(WORK, until=until)
    assert decode_mark(KEY, encode_work(wrong), 7).work == msgspec.structs.replace(
        wrong, until=LONGEST_MS + 7
    )
