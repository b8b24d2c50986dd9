"""Walks the whole tree: which reads, in which order, how fast.

A walk has only the list of what is to be read next. The way of watching decides what that is, and
`tree_reader` publishes. The walk is depth first, so it is bounded by the widest level that it has
listed and not yet read. Watches are armed before a walk begins, or by its own reads, so a znode
that appears in a part already read brings an event.
"""

import enum
from collections.abc import Sequence

from zk_source.watcher.subscriptions import MAX_READS, pop_reads
from zk_source.wire.operations import Read

_BURST_PER_S = 20
"""A walk's allowance of reads is spent in portions of a twentieth of a second."""


class Purpose(enum.Enum):
    """Why the tree is walked."""

    RESYNC = "resync"
    RECONCILIATION = "reconciliation"


class TreeWalk:
    """One walk over subtrees, depth first: what is listed is read before more is listed."""

    def __init__(self, purpose: Purpose, first: Sequence[Read], reads_per_s: float) -> None:
        self.purpose = purpose
        burst = max(MAX_READS, int(reads_per_s / _BURST_PER_S))
        self._pace = ReadPace(reads_per_s=reads_per_s, burst=burst)
        self.met: set[str] = set()
        """Paths that a reconciliation has met."""
        self.unmet: set[Read] | None = None
        """Reads of paths that the log holds and a reconciliation did not meet, until they are
        answered. None until its walk is over."""
        self._frontier = list(reversed(first))
        self._unanswered = 0

    @property
    def finished(self) -> bool:
        """Whether everything was read and answered."""
        return not self._frontier and not self._unanswered

    def start_reads(self, most: int, now_ms: int) -> tuple[Read, ...]:
        """Return the next reads for one request, at most `most`; empty when none may be sent now."""
        reads = pop_reads(self._frontier, min(self._pace.allowed(now_ms), most))
        self._pace.spend(len(reads))
        self._unanswered += len(reads)
        return reads

    def on_answer(self, more: Sequence[Read]) -> None:
        """Note that one read was answered, and what is to be read after it."""
        self._unanswered -= 1
        self._frontier.extend(reversed(more))


class ReadPace:
    """A cap on reads per second; at most `burst` unused reads are saved up.

    >>> pace = ReadPace(reads_per_s=1000, burst=100)
    >>> pace.allowed(0), pace.spend(100), pace.allowed(0), pace.allowed(50)
    (100, None, 0, 50)
    """

    def __init__(self, *, reads_per_s: float, burst: int) -> None:
        self._per_ms = reads_per_s / 1000
        self._burst = burst
        self._left = float(burst)
        self._at_ms: int | None = None

    def allowed(self, now_ms: int) -> int:
        """Return how many reads may be sent now."""
        if self._at_ms is not None and now_ms > self._at_ms:
            self._left = min(self._burst, self._left + (now_ms - self._at_ms) * self._per_ms)
        self._at_ms = now_ms
        return int(self._left)

    def spend(self, reads: int) -> None:
        """Note that reads were sent."""
        self._left -= reads
