"""The orders of partitions, brokers and topics in Kafka's maps, as recorded from Scala 2.13.15's."""

from __future__ import annotations

import pytest

from controller_model.kafka.hash_order import broker_order, java_hash, partition_order, topic_order
from controller_model.kafka.ids import TopicPartition

RECORDED = [
    ([67], [67]),
    ([2, 6], [6, 2]),
    ([5, 0, 2, 3, 7], [0, 5, 2, 7, 3]),
    ([4, 5, 3, 2, 6, 1, 0, 7], [0, 5, 1, 6, 2, 7, 3, 4]),
    ([10, 75, 82, 97, 8], [10, 97, 8, 75, 82]),
    ([50, 134, 0, 112, 108, 111], [0, 134, 108, 112, 50, 111]),
    ([81, 180, 37, 120, 9, 97, 65], [120, 37, 9, 180, 81, 65, 97]),
    ([82, 97, 198, 184, 117, 111, 45, 31, 125], [117, 97, 45, 198, 31, 82, 111, 184, 125]),
    ([461714058, 1286442130, 1400560524], [1286442130, 461714058, 1400560524]),
    ([16070461, 708209306, 1986700830, 427454390], [427454390, 1986700830, 16070461, 708209306]),
    # Ids whose hashes share ten bits: two levels down.
    ([16638646, 126362111], [126362111, 16638646]),
    ([99, 38, 104, 28, 164, 56], [56, 164, 28, 38, 99, 104]),
]


@pytest.mark.parametrize(("brokers", "order"), RECORDED)
def test_brokers_come_in_scalas_order(brokers: list[int], order: list[int]) -> None:
    """In any given order, they are returned in the order of an immutable.HashMap."""
    assert broker_order(brokers) == order
    assert broker_order(sorted(brokers)) == order
    assert broker_order([*brokers, brokers[0]]) == order


def test_no_brokers_give_an_empty_order() -> None:
    """No brokers give an empty order."""
    assert broker_order([]) == []


TOPICS = [
    "u",
    "a,b",
    "hh,zlzr,y,ua",
    "jsm,hhek,x,kte",
    "gag,ru,b,xu,kjr",
    "n,ovd,rb,r,gzs",
    "qccd,xkyk,zix,kzj,fpr,en,tyrb",
    "payments,__transaction_state,t,u,__consumer_offsets,orders",
]


@pytest.mark.parametrize("recorded", TOPICS)
def test_topics_come_in_scalas_order(recorded: str) -> None:
    """Up to four in the order of a mutable.HashSet, more in that of a trie."""
    topics = recorded.split(",")
    assert topic_order(topics) == topics
    assert topic_order(sorted(topics)) == topics
    assert topic_order(reversed(topics)) == topics


def test_topics_of_one_hash_stay_as_they_came() -> None:
    """Names with the same Java hash share a node of the trie, in the order of insertion."""
    assert topic_order(["Aa", "BB", "c", "d", "e"]) == ["e", "c", "d", "Aa", "BB"]
    assert topic_order(["BB", "Aa", "c", "d", "e"]) == ["e", "c", "d", "BB", "Aa"]
    colliding = ["AaAa", "BBBB", "AaBB", "x", "y", "BBAa"]
    assert topic_order(colliding) == ["x", "y", "AaAa", "BBBB", "AaBB", "BBAa"]


def numbers(topic: str, *partitions: int) -> list[int]:
    """Return partitions of a topic in the order of a hash map."""
    return [tp.partition for tp in partition_order(TopicPartition(topic, p) for p in partitions)]


def test_partitions_are_ordered_by_hash_bucket() -> None:
    """Hashes of a-0, a-1 and a-2 are 1058, 1089 and 1120: buckets 2, 1 and 0 of 16."""
    assert numbers("a", 0, 1, 2) == [2, 1, 0]
    assert numbers("b", 0, 1) == [1, 0]
    assert numbers("b") == []


def test_a_bucket_is_sorted_by_the_signed_hash() -> None:
    """a-0 (1058) and a-16 (1554) share bucket 2, whichever is inserted first; negative ones are first."""
    assert numbers("a", 16, 0) == [0, 16]
    assert java_hash("zzzzzz") >> 31 == 1  # negative, as Java has it
    mixed = [TopicPartition("a", 4), TopicPartition("zzzzzz", 0)]  # both in bucket 14
    assert partition_order(mixed) == [TopicPartition("zzzzzz", 0), TopicPartition("a", 4)]


def test_the_table_grows_at_three_quarters() -> None:
    """In 16 buckets a-15 is in 3 and a-19 in 15; with twelve partitions there are 32 buckets: 19 and 15."""
    eleven = [15, 19, *range(3, 12)]
    assert numbers("a", *eleven).index(15) < numbers("a", *eleven).index(19)
    twelve = [*eleven, 12]
    assert numbers("a", *twelve).index(19) < numbers("a", *twelve).index(15)
