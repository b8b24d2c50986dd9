"""The state of a cluster in Spark's state store."""

from __future__ import annotations

from bench.map_state import TopicsInMemory
from controller_model.facts.origin import Origin
from controller_model.state.topic_state import PartitionRecord, TopicState
from streaming.topic_journal import JournalLimits


def topic(name: str) -> TopicState:
    """Return a topic whose znode exists."""
    return TopicState(name, exists=True, origin=Origin(1, 1, 0, 0))


def test_peek_keeps_no_topic_in_memory() -> None:
    """It sees what was put or removed before; other topics are read each time and not kept."""
    store = TopicsInMemory()
    topics = store.batch()
    topics.put(topic("a"))
    topics.put(topic("b"))
    topics.flush()
    again = store.batch()
    assert [again.peek(name) for name in again.names()] == [topic("a"), topic("b")]
    assert again.peek("a") is not again.peek("a")
    again.remove("a")
    assert again.peek("a") is None
    assert again.get("b") is again.peek("b")


def test_a_flush_writes_only_the_changed_pieces_of_a_wide_topic() -> None:
    """And the value under its name; pieces that it no longer has are removed."""
    store = TopicsInMemory(JournalLimits(piece_partitions=2, least_bytes=1 << 20))
    topics = store.batch()
    topics.put(wide(8))
    topics.flush()
    changed = TopicState("wide", {**wide(8).partitions, 5: PartitionRecord((2, 1))})
    for new, keys in (
        (changed, {"wide/2"}),
        (wide(3), {"wide", "wide/2", "wide/3", "wide/1"}),
        (wide(2), {"wide", "wide/0", "wide/1"}),
    ):
        before = dict(store.packed._lists()[0].topics)
        topics = store.batch()
        topics.put(new)
        topics.flush()
        after = store.packed._lists()[0].topics
        assert {key for key in after if after[key] != before.get(key, b"")} == keys
        store.new_worker()
        assert store.batch().get("wide") == new
        assert list(store.batch().names()) == ["wide"]
    topics = store.batch()
    topics.remove("wide")
    topics.flush()
    assert store.packed.names() == set()


def test_names_of_topic_ids_are_stored_beside_topics() -> None:
    """They are no topics, are read one by one, and end when they are removed."""
    store = TopicsInMemory()
    topics = store.batch()
    topics.put(topic("a"))
    topics.put_name("id-of-a", "a")
    topics.put_name("id-of-b", "b")
    topics.flush()
    store.new_worker()
    again = store.batch()
    assert (again.name_of("id-of-a"), again.name_of("id-of-c")) == ("a", None)
    assert list(again.names()) == ["a"]
    again.put_name("id-of-b", None)
    assert again.name_of("id-of-b") is None
    again.flush()
    store.new_worker()
    last = store.batch()
    assert (last.name_of("id-of-a"), last.name_of("id-of-b")) == ("a", None)


def wide(partitions: int) -> TopicState:
    """Return a topic with so many partitions."""
    return TopicState("wide", {each: PartitionRecord((1, 2)) for each in range(partitions)})
