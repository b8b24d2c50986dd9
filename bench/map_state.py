"""A map of Spark's state in memory: what the fold's own topic store needs of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming.stateful_processor import MapState


class DictMapState(MapState):
    """A MapState over a dict, without a JVM behind it."""

    def __init__(self) -> None:  # the real one asks for its client, and there is none
        self.rows: dict[Any, Any] = {}

    def getValue(self, key: Any) -> Any:  # noqa: N802  # Spark's name
        """Return the value of a key, or None."""
        return self.rows.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802  # Spark's name
        """Keep a value."""
        self.rows[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802  # Spark's name
        """Forget a key; nothing happens if there is none."""
        self.rows.pop(key, None)

    def keys(self) -> Iterator[Any]:
        """Return all keys."""
        return iter(list(self.rows))

    def packed_bytes(self) -> int:
        """Return how many bytes the values take."""
        return sum(len(packed) for (packed,) in self.rows.values())
