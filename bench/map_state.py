"""Spark's state in memory: what the fold's own topic store needs of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming.stateful_processor import (
    ListState,
    MapState,
    StatefulProcessorHandle,
    ValueState,
)

from streaming.state_codec import StateTopics
from streaming.topic_journal import JournalLimits, PackedTopics, TopicHandles


class DictMapState(MapState):
    """A MapState over a dict, without a JVM behind it."""

    def __init__(self) -> None:  # the real one asks for its client, and there is none
        self.rows: dict[Any, Any] = {}
        self.written_bytes = 0
        """Of all values that were ever written."""

    def getValue(self, key: Any) -> Any:  # noqa: N802  # Spark's name
        """Return the value of a key, or None."""
        return self.rows.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802  # Spark's name
        """Keep a value."""
        self.rows[key] = value
        self.written_bytes += len(value[0])

    def removeKey(self, key: Any) -> None:  # noqa: N802  # Spark's name
        """Forget a key; nothing happens if there is none."""
        self.rows.pop(key, None)

    def iterator(self) -> Iterator[Any]:
        """Return all keys with their values."""
        return iter(list(self.rows.items()))

    def values(self) -> Iterator[Any]:
        """Return all values."""
        return iter(list(self.rows.values()))


class ListedState(ListState):
    """A ListState over a list, without a JVM behind it."""

    def __init__(self) -> None:  # the real one asks for its client, and there is none
        self.rows: list[Any] = []
        self.written_bytes = 0
        """Of all values that were ever written."""

    def get(self) -> Iterator[Any]:
        """Return the values."""
        return iter(list(self.rows))

    def appendValue(self, newState: Any) -> None:  # noqa: N802, N803  # Spark's names
        """Add a value."""
        self.rows.append(newState)
        self.written_bytes += len(newState[0])

    def clear(self) -> None:
        """Forget all values."""
        self.rows.clear()


class MemoryValueState(ValueState):
    """A ValueState without a JVM behind it."""

    def __init__(self) -> None:  # the real one asks for its client, and there is none
        self._row: Any = None
        self.written_bytes = 0
        """Of all values that were ever written."""

    def get(self) -> Any:
        """Return the value, or None."""
        return self._row

    def update(self, newValue: Any) -> None:  # noqa: N803  # Spark's name
        """Keep a value."""
        self._row = newValue
        self.written_bytes += len(newValue[0])


class MemoryHandle(StatefulProcessorHandle):
    """The state of one cluster, as a processor asks for it."""

    def __init__(self) -> None:  # the real one asks for its client, and there is none
        self.states: dict[str, DictMapState | ListedState | MemoryValueState] = {}

    def getValueState(self, stateName: str, *_: Any) -> Any:  # noqa: N802, N803  # Spark's names
        """Return the value of a name."""
        return self.states.setdefault(stateName, MemoryValueState())

    def getMapState(self, stateName: str, *_: Any) -> Any:  # noqa: N802, N803  # Spark's names
        """Return the map of a name."""
        return self.states.setdefault(stateName, DictMapState())

    def getListState(self, stateName: str, *_: Any) -> Any:  # noqa: N802, N803  # Spark's names
        """Return the list of a name."""
        return self.states.setdefault(stateName, ListedState())

    @property
    def written_bytes(self) -> int:
        """How many bytes were ever written."""
        return sum(state.written_bytes for state in self.states.values())


class TopicsInMemory:
    """Base and journal of a cluster's topics, and what a worker remembers of them."""

    def __init__(self, limits: JournalLimits = JournalLimits()) -> None:  # noqa: B008  # immutable
        self.base = DictMapState()
        self.journal = (ListedState(), ListedState())
        self.packed = PackedTopics(TopicHandles(self.base, self.journal), limits=limits)

    def batch(self) -> StateTopics:
        """Return the topics as a batch of the same worker finds them."""
        return StateTopics(self.packed)

    def new_worker(self) -> None:
        """Forget what the worker remembers."""
        handles = TopicHandles(self.base, self.journal)
        self.packed = PackedTopics(handles, self.packed.place, limits=self.packed.limits)

    def state_bytes(self) -> int:
        """Return how many bytes the state takes."""
        rows = [*self.base.rows.values(), *(row for each in self.journal for row in each.rows)]
        return sum(len(packed) for (packed,) in rows)
