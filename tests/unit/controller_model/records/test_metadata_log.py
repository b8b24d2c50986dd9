"""Records of a KRaft cluster in the log: how they are read, and what a release that does not know them makes of them."""

from typing import Any

import msgspec
import pytest

from controller_model.kafka.ids import Position
from controller_model.kafka.metadata_records import LeaderChange, PartitionChange, RemoveTopic
from controller_model.records.changes import (
    Batch,
    ZnodeChange,
    decode_message,
    encode_change,
    join_changes,
)
from controller_model.records.decoding import DECODING_ERRORS
from controller_model.records.metadata_log import (
    METADATA_LOG_VERSION,
    NO_EPOCH,
    AnyMetadataRecord,
    MetadataBatch,
    MetadataHeartbeat,
    MetadataSlice,
    QuorumReplica,
    QuorumSample,
    SnapshotFinished,
    SnapshotPart,
    SnapshotStarted,
    encode_metadata,
)

TOPIC = "T" * 22
WHO: dict[str, Any] = {"v": METADATA_LOG_VERSION, "cluster": "c", "generation": 1, "watcher": "w"}


def record(kind: type[AnyMetadataRecord], **fields: Any) -> AnyMetadataRecord:
    """Return a record of the cluster, with the fields that all have."""
    return kind(**WHO, observed_at=1_000, **fields)


BATCH = MetadataBatch(7, 900, (PartitionChange(0, TOPIC, (1,)), RemoveTopic(TOPIC)), (7, 9))
SAMPLE = QuorumSample(1_000, 3000, 4, 10, (QuorumReplica(3000, 10, 999, 1_000, TOPIC),))
EVERY = (
    record(MetadataSlice, first=5, last=9, after_epoch=4, epoch=4, batches=(BATCH,)),
    record(MetadataSlice, first=0, last=0, after_epoch=NO_EPOCH, epoch=1, unknown={"99 v0": 1}),
    record(SnapshotStarted, end=50, epoch=4, reason="the log begins later", answers=2),
    record(SnapshotPart, end=50, epoch=4, number=1, records=(LeaderChange(3000, 4),)),
    record(SnapshotFinished, end=50, epoch=4, parts=1),
    record(MetadataHeartbeat, end=10, sent_at=1_001, leader=-1, leader_epoch=5, quorum=SAMPLE),
)


def test_every_record_reads_back_equal() -> None:
    """A message holds several records, in their order."""
    message = join_changes(map(encode_metadata, EVERY))
    assert decode_message(message) == Batch((), metadata=EVERY)


def test_a_position_is_the_end_of_the_log_that_includes_the_record() -> None:
    """The offset that follows is the seq, so that the first record of a history is after NOWHERE."""
    assert [each.position for each in EVERY] == [
        Position(1, end) for end in (10, 1, 50, 50, 50, 10)
    ]


def test_offsets_are_counted_or_given() -> None:
    """Records that follow each other need no offsets of their own."""
    assert [BATCH.offset_of(each) for each in range(2)] == [7, 9]
    assert MetadataBatch(7, 900, BATCH.records).offset_of(1) == 8


@pytest.mark.parametrize("each", EVERY)
def test_a_release_that_knows_no_kraft_counts_the_record_as_unreadable(
    each: AnyMetadataRecord,
) -> None:
    """0.1.0 decodes changes and, where that fails, one by one: a record that is no change is counted, not raised."""
    with pytest.raises(DECODING_ERRORS):
        msgspec.json.decode(encode_metadata(each), type=ZnodeChange)


def test_damage_costs_one_record() -> None:
    """Records of another version and damaged ones are counted; changes of znodes beside them are read."""
    later = msgspec.structs.replace(EVERY[0], v=METADATA_LOG_VERSION + 1)
    change = ZnodeChange(
        v=1, cluster="c", generation=1, watcher="w", seq=1, kind="set", observed_at=1,  # type: ignore[arg-type]  # as JSON
        path="/controller", data="{}",
    )  # fmt: skip
    damaged = encode_metadata(EVERY[0]).replace(b'"first":5', b'"first":"x"')
    message = join_changes(
        [encode_metadata(EVERY[1]), encode_metadata(later), damaged, encode_change(change)]
    )
    batch = decode_message(message)
    assert (batch.metadata, batch.unreadable) == (EVERY[1:2], 2)
    assert [each.path for each in batch.changes] == ["/controller"]
    assert decode_message(join_changes([encode_metadata(later)])) == Batch((), 1)
