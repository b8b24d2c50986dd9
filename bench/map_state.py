"""Spark's state in memory, as far as the fold's topic store needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

from streaming.state_codec import StateTopics
from streaming.state_map import StateMap, StatePart
from streaming.topic_journal import JournalLimits, PackedTopics


class DictMapState(MapState):
    """A MapState over a dict, without a JVM."""

    def __init__(self, rows: dict[Any, Any] | None = None) -> None:
        # The real one's constructor needs its client, which does not exist here.
        self.rows: dict[Any, Any] = {} if rows is None else rows
        self.written_bytes = 0
        """The bytes of all values that were ever written."""

    def getValue(self, key: Any) -> Any:  # noqa: N802  # Spark's name
        """Return the value of a key, or None."""
        return self.rows.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802  # Spark's name
        """Store a value."""
        self.rows[key] = value
        self.written_bytes += len(value[0])

    def removeKey(self, key: Any) -> None:  # noqa: N802  # Spark's name
        """Remove a key; a missing one is ignored."""
        self.rows.pop(key, None)

    def iterator(self) -> Iterator[Any]:
        """Return all keys with their values."""
        return iter(list(self.rows.items()))

    def clear(self) -> None:
        """Remove all keys."""
        self.rows.clear()

    def part(self, part: StatePart) -> dict[int, bytes]:
        """Return the content of a part of a cluster's state."""
        return {key: value[0] for (place, key), value in self.rows.items() if place == part}


class MemoryHandle(StatefulProcessorHandle):
    """The state of one cluster, as a processor requests it."""

    def __init__(self) -> None:  # the real one asks for its client, and there is none
        self.state = DictMapState()

    def getMapState(self, stateName: str, *_: Any) -> Any:  # noqa: N802, N803  # Spark's names
        """Return the only state that there is."""
        del stateName
        return self.state


class TopicsInMemory:
    """Base and journal of a cluster's topics, and a worker's cached copy of them."""

    def __init__(self, limits: JournalLimits = JournalLimits()) -> None:  # noqa: B008  # immutable
        self.state = DictMapState()
        self.packed = PackedTopics(StateMap(self.state), limits=limits)

    def batch(self) -> StateTopics:
        """Return the topics as a batch of the same worker finds them."""
        return StateTopics(self.packed)

    def new_worker(self) -> None:
        """Drop the worker's cache."""
        state = StateMap(self.state)
        self.packed = PackedTopics(state, self.packed.place, limits=self.packed.limits)

    @property
    def base(self) -> dict[int, bytes]:
        """The chunks."""
        return self.state.part(StatePart.BASE)

    @property
    def journal(self) -> tuple[list[bytes], list[bytes]]:
        """The entries of both lists, as far as the lists go."""
        first, second = map(self.state.part, (StatePart.JOURNAL_0, StatePart.JOURNAL_1))
        lengths = self.packed.place.lengths
        return [first[n] for n in range(lengths[0])], [second[n] for n in range(lengths[1])]

    def state_bytes(self) -> int:
        """Return the size of base and journal in bytes."""
        return sum(map(len, [*self.base.values(), *self.journal[0], *self.journal[1]]))
