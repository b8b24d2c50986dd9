"""Paths that changed since they were read: znodes, and the names of their children.

The rule: one read in flight for each. An event that comes while a path is being read makes it be
read once more, however many events come, so a burst costs two reads and the last value is never
missed. Bounded by `MOST_WAITING`; the watcher answers a full table with a resync.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from zk_source.watcher.tree_walk import take_reads
from zk_source.wire.operations import Op, Read

MOST_WAITING = 200_000
"""Distinct paths that may wait to be read: about 20 MB."""


class DirtyPaths:
    """Reads to be done, first come first served."""

    def __init__(self) -> None:
        self._waiting: dict[Read, None] = {}
        self._reading: set[Read] = set()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._reading)

    def __contains__(self, read: Read) -> bool:
        return read in self._waiting or read in self._reading

    @property
    def full(self) -> bool:
        """No more may wait."""
        return len(self._waiting) >= MOST_WAITING

    def leads_to(self, path: str) -> bool:
        """Return whether a coming read shows this path's value, or first its existence."""
        if (Op.GET_DATA, path) in self:
            return True
        above = path
        while above:
            if (Op.GET_CHILDREN, above) in self or (Op.EXISTS, above) in self:
                return True
            above = above.rpartition("/")[0]
        return False

    def mark(self, read: Read) -> None:
        """Note that this is to be read after now."""
        self._waiting[read] = None

    def take(self, most: int) -> tuple[Read, ...]:
        """Return at most so many reads for one request, none of them in flight; or none."""
        free = (read for read in self._waiting if read not in self._reading)
        reads = take_reads(list(islice(free, most))[::-1], most)
        for read in reads:
            del self._waiting[read]
            self._reading.add(read)
        return reads

    def answered(self, reads: Iterable[Read]) -> None:
        """Note that these reads are no longer in flight."""
        self._reading.difference_update(reads)

    def clear(self) -> None:
        """Forget all: a walk of the tree follows."""
        self._waiting.clear()
        self._reading.clear()
