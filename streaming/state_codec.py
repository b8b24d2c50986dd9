"""The model's state in Spark's state store.

The rule: a batch reads each topic that it touches once and writes it once, however many changes it
has for it, because each call is a round trip to the JVM of about 100 microseconds. Nothing is
written before the whole batch is folded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql.streaming.stateful_processor import MapState, ValueState

from controller_model.records.event_records import EventId
from controller_model.state.control_plane import ControlPlane
from controller_model.state.packing import pack_control, pack_topic, unpack_control, unpack_topic
from controller_model.state.topic_state import TopicState


@dataclass
class StoredCluster:
    """What the state store holds of a cluster besides its topics."""

    control: ControlPlane
    folds: int = 0
    """Batches folded so far: names this very state, so that a cache can check whether it fits."""
    last_event: EventId | None = None


def read_control(state: ValueState, lineage: str) -> StoredCluster | None:
    """Return what is held of the cluster at hand; None when there is nothing yet.

    Raises UnreadableStateError when it was written by another version of the model.
    """
    row = state.get()
    if row is None:
        return None
    packed, folds, generation, seq, index = row
    last = EventId(lineage, generation, seq, index) if generation or index else None
    return StoredCluster(unpack_control(bytes(packed)), folds, last)


def write_control(state: ValueState, held: StoredCluster) -> None:
    """Store what is held of the cluster at hand."""
    last = held.last_event
    place = (last.generation, last.seq, last.index) if last else (0, 0, 0)
    state.update((pack_control(held.control), held.folds, *place))


class StateTopics:
    """A cluster's topics in a MapState: read at first use, written by `flush` (a TopicStore)."""

    def __init__(self, state: MapState) -> None:
        self._state = state
        self._known: dict[str, TopicState | None] = {}
        self._changed: set[str] = set()

    def get(self, name: str) -> TopicState | None:
        """Return a topic; None when there is none of that name."""
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def peek(self, name: str) -> TopicState | None:
        """Return a topic without keeping it: a walk over all topics holds one at a time."""
        return self._known[name] if name in self._known else self._read(name)

    def _read(self, name: str) -> TopicState | None:
        row = self._state.getValue((name,))
        return None if row is None else unpack_topic(bytes(row[0]))

    def put(self, topic: TopicState) -> None:
        """Keep a topic that is new or has changed."""
        self._known[topic.name] = topic
        self._changed.add(topic.name)

    def remove(self, name: str) -> None:
        """Forget a topic."""
        self._known[name] = None
        self._changed.add(name)

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        stored = {row[0] for row in self._state.keys()}  # noqa: SIM118  # Spark's MapState is no mapping
        gone = {name for name, topic in self._known.items() if topic is None}
        return sorted((stored | set(self._known)) - gone)

    def flush(self) -> int:
        """Write what has changed; return how many topics that was."""
        for name in self._changed:
            topic = self._known[name]
            if topic is None:
                self._state.removeKey((name,))
            else:
                self._state.updateValue((name,), (pack_topic(topic),))
        count = len(self._changed)
        self._changed.clear()
        return count
