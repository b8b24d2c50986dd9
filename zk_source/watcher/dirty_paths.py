"""Paths that changed since they were read: znodes, and the names of their children.

The rule: one read in flight for each. An event that comes while a path is being read makes it be
read once more, however many events come, so a burst costs two reads and the last value is never
missed. Bounded by `MOST_WAITING`; the watcher answers a full table with a resync. Each read is of a
round, that of the event which it comes from: who began a round knows when all before it has been read.
"""

from collections import Counter
from itertools import islice

from zk_source.watcher.tree_walk import take_reads
from zk_source.wire.operations import Op, Read

MOST_WAITING = 200_000
"""Distinct paths that may wait to be read: about 20 MB."""


class DirtyPaths:
    """Reads to be done, first come first served."""

    def __init__(self) -> None:
        self.round = 0
        """Of what is marked now."""
        self._waiting: dict[Read, int] = {}
        self._reading: dict[Read, int] = {}
        self._of_round: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._reading)

    def __contains__(self, read: Read) -> bool:
        return read in self._waiting or read in self._reading

    @property
    def full(self) -> bool:
        """No more may wait."""
        return len(self._waiting) >= MOST_WAITING

    @property
    def oldest_round(self) -> int:
        """The earliest round of which a read is to be done; the present one when none is."""
        return min(self._of_round, default=self.round)

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

    def mark(self, read: Read, round_: int | None = None) -> None:
        """Note that this is to be read after now; what another read has led to is of that one's round."""
        round_ = self.round if round_ is None else round_
        known = self._waiting.get(read)
        if known is not None and known <= round_:
            return
        if known is not None:
            self._drop(known)
        self._waiting[read] = round_
        self._of_round[round_] += 1

    def take(self, most: int) -> tuple[Read, ...]:
        """Return at most so many reads for one request, none of them in flight; or none."""
        free = (read for read in self._waiting if read not in self._reading)
        reads = take_reads(list(islice(free, most))[::-1], most)
        for read in reads:
            self._reading[read] = self._waiting.pop(read)
        return reads

    def answered(self, read: Read) -> int:
        """Note that a read is no longer in flight; return its round."""
        round_ = self._reading.pop(read, None)
        if round_ is None:
            return self.round
        self._drop(round_)
        return round_

    def clear(self) -> None:
        """Forget all: a walk of the tree follows."""
        self._waiting.clear()
        self._reading.clear()
        self._of_round.clear()

    def _drop(self, round_: int) -> None:
        self._of_round[round_] -= 1
        if not self._of_round[round_]:
            del self._of_round[round_]
