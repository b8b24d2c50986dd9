"""Topics as bytes: what a checkpoint holds of them, without the checkpoint.

The rule: each read gives a fresh copy, so that nobody shares a topic with the store.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller_model.state.packing import pack_topic, unpack_topic
from controller_model.state.topic_state import TopicState


class PackedTopicStore:
    """A TopicStore for clusters whose topics would not fit into memory as objects."""

    def __init__(self) -> None:
        self._topics: dict[str, bytes] = {}

    def get(self, name: str) -> TopicState | None:
        """Return a fresh copy of the topic, or None."""
        data = self._topics.get(name)
        return None if data is None else unpack_topic(data)

    def put(self, topic: TopicState) -> None:
        """Keep the topic as bytes."""
        self._topics[topic.name] = pack_topic(topic)

    def remove(self, name: str) -> None:
        """Forget the topic; nothing happens if there is none."""
        self._topics.pop(name, None)

    def names(self) -> Iterable[str]:
        """Return the names of all topics, sorted."""
        return sorted(self._topics)

    def packed_bytes(self) -> int:
        """Return how many bytes the topics take, without their names."""
        return sum(map(len, self._topics.values()))
