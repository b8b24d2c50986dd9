"""Tests of reading a snapshot: parts of any size give the same records, and only a whole one finishes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_model.kafka.metadata_records import Topic
from kraft_source.observer.released import (
    Released,
    SnapshotChunk,
    SnapshotComplete,
    SnapshotOpened,
)
from kraft_source.observer.snapshot_download import SnapshotDownload
from kraft_source.wire.batches import CorruptBatchError
from kraft_source.wire.messages import EpochEnd, FetchSnapshot, SnapshotAnswer
from tests.support.metadata_log import Written, control_batch, raw_value, record_batch, uuid_of
from tests.support.quorum_in_memory import snapshot_bytes

END = EpochEnd(20, 3)
DATA = snapshot_bytes(END)
TOPICS = [f"s{number}" for number in range(20)]


def read(data: bytes, cuts: list[int]) -> list[Released]:
    """Return what a snapshot gives that arrives in parts."""
    download, start = SnapshotDownload(END), 0
    released: list[Released] = []
    for cut in [*cuts, len(data)]:
        assert download.next_request(7) == FetchSnapshot(END, start, 7)
        assert not download.is_finished
        released += download.read(SnapshotAnswer(0, None, len(data), start, data[start:cut]))
        start = cut
    assert download.is_finished
    return released


@given(st.sets(st.integers(1, len(DATA) - 1), max_size=12).map(sorted))
def test_parts_of_any_size_give_the_same_records(cuts: list[int]) -> None:
    """Batches may be cut anywhere: the start comes with the header, records in order, the end last."""
    released = read(DATA, cuts)
    assert released[0] == SnapshotOpened(END, 20)
    assert released[-1] == SnapshotComplete(END)
    parts = [each for each in released[1:-1] if isinstance(each, SnapshotChunk)]
    assert len(parts) == len(released) - 2
    names = [record.name for each in parts for record in each.records if isinstance(record, Topic)]
    assert names == TOPICS


def test_what_is_not_known_is_told_with_its_part() -> None:
    """A record of a newer Kafka is counted where it stands."""
    header = Written("SnapshotHeaderRecord", {"last_contained_log_timestamp": 1})
    topic = Written("TopicRecord", {"name": "t", "topic_id": uuid_of(1)})
    data = control_batch(0, 3, header) + record_batch(1, 3, [topic, raw_value(99, 0, b"")])
    assert read(data, [])[1:] == [
        SnapshotChunk([Topic("t", uuid_of(1))], {"metadata record 99 version 0": 1}),
        SnapshotComplete(END),
    ]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (SnapshotAnswer(0, None, len(DATA), 5, DATA[5:]), "from 5 are sent"),
        (SnapshotAnswer(0, None, len(DATA), 0, b""), "0 bytes from 0 are sent"),
        (SnapshotAnswer(0, None, len(DATA) - 1, 0, DATA), "does not end with it"),
        (SnapshotAnswer(0, None, len(DATA) - 1, 0, DATA[:-1]), "does not end with it"),
        (SnapshotAnswer(0, None, 9999, 0, DATA[:80] + b"\1" + DATA[81:]), "its checksum"),
        (
            SnapshotAnswer(0, None, 999, 0, record_batch(0, 3, [Written("NoOpRecord")])),
            "begins without its header",
        ),
        (
            SnapshotAnswer(0, None, 999, 0, record_batch(1, 3, [Written("NoOpRecord")])),
            "record 0 is missing",
        ),
    ],
)
def test_what_is_not_the_next_part_is_refused(answer: SnapshotAnswer, says: str) -> None:
    """Another position, nothing at all, a size that does not fit, a damaged or a missing batch: the reading ends."""
    with pytest.raises(CorruptBatchError, match=says):
        list(SnapshotDownload(END).read(answer))
