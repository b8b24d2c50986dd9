"""Topics as bytes."""

from __future__ import annotations

from controller_model.state.packed_topics import PackedTopicStore
from controller_model.state.packing import pack_topic
from controller_model.state.topic_state import PartitionRecord, TopicState


def test_a_store_gives_fresh_copies_and_forgets() -> None:
    """What is read is the caller's own; names come sorted; what was never there is no error."""
    store = PackedTopicStore()
    topic = TopicState("b", partitions={0: PartitionRecord(replicas=(1,))})
    store.put(topic)
    store.put(TopicState("a"))
    assert list(store.names()) == ["a", "b"]
    assert store.packed_bytes() == len(pack_topic(topic)) + len(pack_topic(TopicState("a")))
    first, second = store.get("b"), store.get("b")
    assert first == second == topic
    assert first is not second
    store.remove("b")
    store.remove("b")
    assert store.get("b") is None
