"""The kept records of a metadata log: what they are as JSON, and that no two of them share a tag."""

import typing

import msgspec
import pytest

from controller_model.kafka import metadata_records as kafka

TOPIC, DIRECTORY = "T" * 22, "D" * 22

AS_JSON = [
    (kafka.PartitionChange(7, TOPIC, (1,), 1), [5, 7, TOPIC, [1], 1, *[None] * 7]),
    (kafka.PartitionChange(7, TOPIC, isr=()), [5, 7, TOPIC, [], *[None] * 8]),
    (kafka.RemoveTopic(TOPIC), [9, TOPIC]),
    (kafka.BrokerRegistrationChange(3, 40, fenced=True), [17, 3, 40, True, False, None]),
    (kafka.Config(2, "t", kafka.MIN_ISR), [4, 2, "t", "min.insync.replicas", None]),
    (
        kafka.LeaderChange(3000, 9, (kafka.Voter(3000, DIRECTORY),)),
        [-2, 3000, 9, [[3000, DIRECTORY]], []],
    ),
]


@pytest.mark.parametrize(("record", "written"), AS_JSON)
def test_records_are_arrays_that_begin_with_their_number(
    record: kafka.MetadataRecord, written: list[object]
) -> None:
    """A record is an array of its fields after Kafka's number of its kind, and reads back equal."""
    encoded = msgspec.json.encode(record)
    assert msgspec.json.decode(encoded) == written
    assert msgspec.json.decode(encoded, type=kafka.MetadataRecord) == record


def test_a_record_of_a_later_release_with_more_fields_is_read() -> None:
    """A field that is appended later is skipped, so that an older fold reads on."""
    encoded = msgspec.json.encode([9, TOPIC, "new"])
    assert msgspec.json.decode(encoded, type=kafka.MetadataRecord) == kafka.RemoveTopic(TOPIC)


def test_each_record_has_a_number_of_its_own() -> None:
    """Control records are numbered apart from the others by Kafka, and by their sign here."""
    kept = (*typing.get_args(kafka.MetadataRecord), kafka.NoOp, kafka.SnapshotHeader)
    tags = [each.__struct_config__.tag for each in kept]
    assert len(set(tags)) == len(tags)
    assert {tag for tag in tags if tag < 0} == {-2, -3, -5, -6}
