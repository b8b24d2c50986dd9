"""Defines what Spark's state holds of a cluster: one map, in parts.

Everything is in one state variable. Spark makes encoders for each variable of a processor
in each batch, which costs some 5 milliseconds a variable; a call to the state takes a tenth of
that.
"""

import enum

from pyspark.sql.streaming.stateful_processor import MapState


class StatePart(enum.IntEnum):
    """The parts of the map. The users of a part define its keys."""

    CONTROL = 0
    MEMBERS = 1
    BASE = 2
    JOURNAL_0 = 3
    JOURNAL_1 = 4


class StateMap:
    """The current cluster's map: values by part and number (schemas.STATE_KEY, schemas.STATE_VALUE)."""

    def __init__(self, rows: MapState) -> None:
        self._rows = rows
        self._read: dict[int, dict[int, bytes]] | None = None
        """The whole map, after it was read."""

    def get(self, part: StatePart, key: int) -> bytes | None:
        """Return a value; None when there is none."""
        if self._read is not None:
            return self._read.get(part, {}).get(key)
        row = self._rows.getValue((int(part), key))
        return None if row is None else bytes(row[0])

    def put(self, part: StatePart, key: int, value: bytes) -> None:
        """Store a value."""
        self._rows.updateValue((int(part), key), (value,))
        if self._read is not None:
            self._read.setdefault(part, {})[key] = value

    def remove(self, part: StatePart, key: int) -> None:
        """Remove a value."""
        self._rows.removeKey((int(part), key))
        if self._read is not None:
            self._read.get(part, {}).pop(key, None)

    def items(self, part: StatePart) -> dict[int, bytes]:
        """Return all values of a part by their keys.

        This reads the whole map, once for all parts: a caller that needs all of one part needs all
        of the others.
        """
        if self._read is None:
            self._read = {}
            for (place, key), (value,) in self._rows.iterator():
                self._read.setdefault(place, {})[key] = bytes(value)
        return dict(self._read.get(part, {}))

    def clear(self) -> None:
        """Remove everything."""
        self._rows.clear()
        self._read = {}
