"""Defines the values of reading a topic: a place, a record, what there is to read, what one call returned."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.kafka_errors import ReadTrouble

Place = tuple[str, int]
"""A topic and a partition of it."""


class Record(NamedTuple):
    """A record as received from Kafka."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    """When it was produced, in milliseconds since 1970; 0 when Kafka does not say."""


class Extent(NamedTuple):
    """The range of offsets to read of a place: from `low` up to, not including, `high`."""

    place: Place
    low: int
    high: int

    def tail(self, offsets: int) -> Extent:
        """Return the last so many offsets of it.

        >>> Extent(("kcm.views", 0), 5, 100).tail(20)
        Extent(place=('kcm.views', 0), low=80, high=100)
        """
        return self._replace(low=max(self.low, self.high - offsets))


class Notice(NamedTuple):
    """A problem that a reader met; `place` is None where it concerns a broker."""

    trouble: ReadTrouble
    place: Place | None
    reason: str


class ReadBatch(NamedTuple):
    """What one call returned."""

    records: list[Record]
    at_end: list[Place]
    """Places that had nothing more to read after these records."""
    notices: list[Notice]
