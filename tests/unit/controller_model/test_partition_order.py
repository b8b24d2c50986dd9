"""The order in which Kafka's mutable hash maps hand out partitions."""

from __future__ import annotations

from controller_model.kafka.hash_order import java_hash, partition_order
from controller_model.kafka.ids import TopicPartition


def numbers(topic: str, *partitions: int) -> list[int]:
    """Return partitions of a topic in the order of a hash map."""
    return [tp.partition for tp in partition_order(TopicPartition(topic, p) for p in partitions)]


def test_partitions_stand_by_bucket() -> None:
    """Hashes of a-0, a-1 and a-2 are 1058, 1089 and 1120: buckets 2, 1 and 0 of 16."""
    assert numbers("a", 0, 1, 2) == [2, 1, 0]
    assert numbers("b", 0, 1) == [1, 0]
    assert numbers("b") == []


def test_a_bucket_is_sorted_by_the_signed_hash() -> None:
    """a-0 (1058) and a-16 (1554) share bucket 2, whichever came first; negative ones go first."""
    assert numbers("a", 16, 0) == [0, 16]
    assert java_hash("zzzzzz") >> 31 == 1  # negative, as Java has it
    mixed = [TopicPartition("a", 4), TopicPartition("zzzzzz", 0)]  # both in bucket 14
    assert partition_order(mixed) == [TopicPartition("zzzzzz", 0), TopicPartition("a", 4)]


def test_the_table_grows_at_three_quarters() -> None:
    """Of 16 buckets a-15 has 3 and a-19 has 15; with twelve partitions there are 32: 19 and 15."""
    eleven = [15, 19, *range(3, 12)]
    assert numbers("a", *eleven).index(15) < numbers("a", *eleven).index(19)
    twelve = [*eleven, 12]
    assert numbers("a", *twelve).index(19) < numbers("a", *twelve).index(15)
