"""The order in which Kafka's hash maps iterate over their keys, which is the order in its payloads.

This order serves only to write the same bytes as Kafka; nothing else may rely on it. Sources:
java.lang.String.hashCode, scala.collection.mutable.HashMap (2.13: improveHash, put0, growTable),
scala.collection.immutable.HashMap (2.13) and java.util.concurrent.ConcurrentHashMap (below java.util.Properties since Java 9).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from controller_model.kafka.ids import TopicPartition

_SMALLEST_TABLE = 16
"""Buckets of a new table, both in Scala's mutable.HashMap and in Properties."""

_UINT32 = 0xFFFFFFFF
_HASH_BITS = 32

_SMALL_SET = 4
"""The largest set that Scala keeps as Set1 to Set4, which iterate in the order of insertion."""

_Key = TypeVar("_Key", int, str)


def java_hash(text: str) -> int:
    """Return java.lang.String.hashCode as an unsigned 32-bit number.

    >>> java_hash("isr"), java_hash("")
    (104584, 0)
    """
    result = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        result = (31 * result + (high << 8) + low) & _UINT32
    return result


def scala_order(keys: Iterable[str]) -> list[str]:
    """Return keys as a scala.collection.mutable.HashMap iterates over them.

    >>> scala_order(str(key) for key in range(12))[:3]
    ['11', '0', '1']
    """
    hashes = {key: _spread(java_hash(key)) for key in keys}
    last = _table_size(len(hashes)) - 1
    # Within a bucket Scala sorts by the hash as a signed number; equal hashes stay as inserted.
    return sorted(hashes, key=lambda key: (hashes[key] & last, _signed(hashes[key])))


def partition_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return partitions as a scala.collection.mutable.HashMap iterates over them.

    Their hash is org.apache.kafka.common.TopicPartition.hashCode.

    >>> partition_order([TopicPartition("b", 0), TopicPartition("b", 1)])[0].partition
    1
    """
    hashes = {
        tp: _spread((31 * (31 + tp.partition) + java_hash(tp.topic)) & _UINT32) for tp in partitions
    }
    last = _table_size(len(hashes)) - 1
    return sorted(hashes, key=lambda tp: (hashes[tp] & last, _signed(hashes[tp])))


def broker_order(brokers: Iterable[int]) -> list[int]:
    """Return broker ids in the order of the immutable.HashMap that Seq.groupBy makes.

    The map is a trie with five bits of the hash per level. In each node, the ids that are alone
    come first, then the subnodes.

    >>> broker_order([5, 0, 2, 3, 7])
    [0, 5, 2, 7, 3]
    """
    hashes = {broker: _improve(broker & _UINT32) for broker in brokers}
    return _trie_order(list(hashes), hashes)


def topic_order(topics: Iterable[str]) -> list[str]:
    """Return topics in the order of an immutable.Set that was made from a mutable.Set.

    Up to four topics keep the order of the mutable set; more are kept in a trie.

    >>> topic_order(["u", "t"]), topic_order("abcde")
    (['t', 'u'], ['e', 'a', 'b', 'c', 'd'])
    """
    ordered = scala_order(topics)
    if len(ordered) <= _SMALL_SET:
        return ordered
    return _trie_order(ordered, {topic: _improve(java_hash(topic)) for topic in ordered})


def properties_order(keys: Iterable[str]) -> list[str]:
    """Return keys in the order of java.util.Properties; keys of one bucket stay in the given order.

    >>> properties_order(["retention.ms", "cleanup.policy"])
    ['cleanup.policy', 'retention.ms']
    """
    hashes = {key: _spread(java_hash(key)) for key in keys}
    last = _table_size(len(hashes)) - 1
    return sorted(hashes, key=lambda key: hashes[key] & last)


def _trie_order(keys: Sequence[_Key], hashes: Mapping[_Key, int], shift: int = 0) -> list[_Key]:
    if shift >= _HASH_BITS:
        return list(keys)
    places: dict[int, list[_Key]] = {}
    for key in keys:
        places.setdefault((hashes[key] >> shift) & 31, []).append(key)
    nodes = [places[place] for place in sorted(places)]
    alone = [node[0] for node in nodes if len(node) == 1]
    below = (_trie_order(node, hashes, shift + 5) for node in nodes if len(node) > 1)
    return alone + [key for node in below for key in node]


def _improve(code: int) -> int:
    # scala.collection.Hashing.improve, on unsigned numbers
    code = (code + ~(code << 9)) & _UINT32
    code ^= code >> 14
    code = (code + (code << 4)) & _UINT32
    return code ^ (code >> 10)


def _spread(code: int) -> int:
    return code ^ (code >> 16)


def _signed(code: int) -> int:
    return code - (1 << 32) if code >> 31 else code


def _table_size(keys: int) -> int:
    # Both kinds of table grow before three quarters of the buckets are in use.
    size = _SMALLEST_TABLE
    while 4 * keys >= 3 * size:
        size *= 2
    return size
