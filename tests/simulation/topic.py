"""A partition of a Kafka topic: records, offsets, and the faults that it can have."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Stored(NamedTuple):
    """A record in a topic."""

    offset: int
    timestamp: int
    key: bytes
    value: bytes | None


class Topic:
    """One partition; `made` counts how often the topic was recreated."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: list[Stored] = []
        self.low = 0
        """The earliest readable offset; compaction does not move it."""
        self.end = 0
        self.made = 0
        self.cuts: list[int] = []
        """The offset from which records were lost, for each loss."""
        self.compacts_below = 10**9
        """Compaction has not reached this offset yet."""
        self.followers: list[Callable[[Stored], None]] = []
        self.beside: Topic | None = None
        """The topic's other partition, if it has one."""

    @property
    def id(self) -> str:
        """The topic id that Kafka gives: a new one after it was recreated."""
        return f"{self.name}-{self.made}"

    def append(self, timestamp: int, key: bytes, value: bytes | None) -> None:
        """Append a record and notify the followers."""
        record = Stored(self.end, timestamp, key, value)
        self.end += 1
        self.records.append(record)
        for follower in list(self.followers):
            follower(record)

    def read(self, offset: int, most: int = 10**9) -> list[Stored]:
        """Return the records from an offset on."""
        low, high = 0, len(self.records)
        while low < high:
            middle = (low + high) // 2
            if self.records[middle].offset < offset:
                low = middle + 1
            else:
                high = middle
        return self.records[low : low + most]

    @property
    def start(self) -> int:
        """The earliest offset that exists."""
        return self.records[0].offset if self.records else self.end

    def compact(self, below: int) -> int:
        """Keep the newest record of each key below an offset; return how many were removed."""
        below = min(below, self.compacts_below)
        newest = {record.key: record.offset for record in self.records if record.offset < below}
        kept = [r for r in self.records if r.offset >= below or newest[r.key] == r.offset]
        gone = len(self.records) - len(kept)
        self.records = kept
        return gone

    def lose(self, first: int, end: int) -> int:
        """Lose the records from `first` to before `end`; return how many there were."""
        kept = [r for r in self.records if not first <= r.offset < end]
        gone = len(self.records) - len(kept)
        self.records = kept
        if first <= self.low:
            self.low = min(max(self.low, end), self.end)
        return gone

    def cut(self, end: int) -> int:
        """Lose the records from an offset on, whose offsets are then reused; return how many there were."""
        kept = [r for r in self.records if r.offset < end]
        gone = len(self.records) - len(kept)
        self.records = kept
        self.low, self.end = min(self.low, end), end
        self.cuts.append(end)
        return gone

    def make_anew(self) -> None:
        """Delete the topic and recreate it."""
        self.records = []
        self.low = self.end = 0
        self.cuts.clear()
        self.made += 1
        if self.beside is not None:
            self.beside.make_anew()
