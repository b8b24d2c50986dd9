"""A partition of a Kafka topic: records, offsets, and what can befall them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Stored(NamedTuple):
    """A record as it stands in a topic."""

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
        """The earliest offset that may be read; compaction does not move it."""
        self.end = 0
        self.made = 0
        self.cuts: list[int] = []
        """From which offset on records were lost, each time."""
        self.compacts_below = 10**9
        """Compaction has not come to here yet."""
        self.followers: list[Callable[[Stored], None]] = []
        self.beside: Topic | None = None
        """The topic's other partition, if it has one."""

    @property
    def id(self) -> str:
        """The topic id that Kafka gives: another one after it was recreated."""
        return f"{self.name}-{self.made}"

    def append(self, timestamp: int, key: bytes, value: bytes | None) -> None:
        """Add a record and notify those who follow."""
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
        """The earliest offset that is there."""
        return self.records[0].offset if self.records else self.end

    def compact(self, below: int) -> int:
        """Keep the newest of each key among the records below an offset; return how many went."""
        below = min(below, self.compacts_below)
        newest = {record.key: record.offset for record in self.records if record.offset < below}
        kept = [r for r in self.records if r.offset >= below or newest[r.key] == r.offset]
        gone = len(self.records) - len(kept)
        self.records = kept
        return gone

    def lose(self, first: int, end: int) -> int:
        """Lose the records from one offset to before another; return how many that was."""
        kept = [r for r in self.records if not first <= r.offset < end]
        gone = len(self.records) - len(kept)
        self.records = kept
        if first <= self.low:
            self.low = min(max(self.low, end), self.end)
        return gone

    def cut(self, end: int) -> int:
        """Lose the records from an offset on, whose offsets are given again; return how many that was."""
        kept = [r for r in self.records if r.offset < end]
        gone = len(self.records) - len(kept)
        self.records = kept
        self.low, self.end = min(self.low, end), end
        self.cuts.append(end)
        return gone

    def make_anew(self) -> None:
        """Delete the topic and make it again."""
        self.records = []
        self.low = self.end = 0
        self.cuts.clear()
        self.made += 1
        if self.beside is not None:
            self.beside.make_anew()
