"""The paths whose znodes changed since they were read last.

The rule: one read in flight for each path. An event that comes while a path is being read makes it
be read once more, however many events come, so a burst costs two reads and the last value is never
missed. Bounded by `MOST_WAITING`; the watcher answers a full table with a resync.
"""

from __future__ import annotations

from collections.abc import Iterable

from zk_source.protocol import Op, Read
from zk_source.resync import MOST_READS, take_reads

MOST_WAITING = 200_000
"""Distinct paths that may wait to be read: about 20 MB."""


class DirtyPaths:
    """A set of paths to read, first come first served."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._waiting: dict[str, None] = {}
        self._reading: set[str] = set()
        self._most_waiting = most_waiting

    def __len__(self) -> int:
        return len(self._waiting) + len(self._reading)

    def __contains__(self, path: str) -> bool:
        return path in self._waiting or path in self._reading

    @property
    def full(self) -> bool:
        """No more paths may wait."""
        return len(self._waiting) >= self._most_waiting

    def mark(self, path: str) -> None:
        """Note that a path is to be read after now."""
        self._waiting[path] = None

    def take(self) -> tuple[Read, ...]:
        """Return reads for one request, of paths not being read; empty when there are none."""
        candidates: list[Read] = []
        for path in self._waiting:
            if path not in self._reading:
                candidates.append((Op.GET_DATA, path))
                if len(candidates) == MOST_READS:
                    break
        candidates.reverse()
        reads = take_reads(candidates, MOST_READS)
        for _, path in reads:
            del self._waiting[path]
            self._reading.add(path)
        return reads

    def answered(self, reads: Iterable[Read]) -> None:
        """Note that these reads are no longer in flight."""
        self._reading.difference_update(path for _, path in reads)

    def clear(self) -> None:
        """Forget all: a walk of the tree follows."""
        self._waiting.clear()
        self._reading.clear()
