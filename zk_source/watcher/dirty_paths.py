"""Holds the reads for what changed since it was last read: znodes, and the names of their children.

The rule: each path has one read in flight. When events arrive for a path that is being read, it is
read once more, however many events there are. So a burst costs two reads, and the last value is
never missed. Bounded by `MAX_WAITING`; when the table is full, the watcher resyncs. Each read
belongs to a round, the one in which its event arrived. Whoever began a round can see when all reads
from before it are done.
"""

from collections import Counter
from itertools import islice

from zk_source.watcher.subscriptions import pop_reads
from zk_source.wire.operations import Op, Read

MAX_WAITING = 200_000
"""Paths that may wait to be read: about 20 MB."""


class DirtyPaths:
    """Reads to be done, first in, first out."""

    def __init__(self) -> None:
        self.round = 0
        """The round of what is marked now."""
        self._waiting: dict[Read, int] = {}
        self._reading: dict[Read, int] = {}
        self._of_round: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._reading)

    def __contains__(self, read: Read) -> bool:
        return read in self._waiting or read in self._reading

    @property
    def full(self) -> bool:
        """Whether no more may wait."""
        return len(self._waiting) >= MAX_WAITING

    @property
    def oldest_round(self) -> int:
        """The earliest round that still has a read to do; the current round when none has."""
        return min(self._of_round, default=self.round)

    def leads_to(self, path: str) -> bool:
        """Return whether a read to be done will show this path's value, or first that it exists."""
        if (Op.GET_DATA, path) in self:
            return True
        above = path
        while above:
            if (Op.GET_CHILDREN, above) in self or (Op.EXISTS, above) in self:
                return True
            above = above.rpartition("/")[0]
        return False

    def mark(self, read: Read, round_: int | None = None) -> None:
        """Note a read to be sent after now. A read that follows from another one belongs to that one's round."""
        round_ = self.round if round_ is None else round_
        known = self._waiting.get(read)
        if known is not None and known <= round_:
            return
        if known is not None:
            self._drop(known)
        self._waiting[read] = round_
        self._of_round[round_] += 1

    def start_reads(self, most: int) -> tuple[Read, ...]:
        """Return at most `most` reads for one request, which are in flight from now on; none was before."""
        free = (read for read in self._waiting if read not in self._reading)
        reads = pop_reads(list(islice(free, most))[::-1], most)
        for read in reads:
            self._reading[read] = self._waiting.pop(read)
        return reads

    def answered(self, read: Read) -> int:
        """Note that a read is no longer in flight; return its round."""
        round_ = self._reading.pop(read)
        self._drop(round_)
        return round_

    def clear(self) -> None:
        """Forget all reads: a walk of the tree follows."""
        self._waiting.clear()
        self._reading.clear()
        self._of_round.clear()

    def _drop(self, round_: int) -> None:
        self._of_round[round_] -= 1
        if not self._of_round[round_]:
            del self._of_round[round_]
