"""The walk of the whole tree: which reads, in which order, how fast.

The rule: a walk only says what to read next and learns from the answers; publishing is the
watcher's. A published znode is read first and its children are listed only if its Stat says that
it has any; a container is only listed. Watches are armed before a walk begins, so what appears
behind its back brings an event. Bounded by the widest level it has listed and not yet read.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller_model.znodes import is_published
from zk_source.protocol import READ_OVERHEAD_BYTES, Children, Op, Read, Result, ZnodeData

MOST_READS = 500
"""Reads in one multiRead: past this a larger request is no faster."""

MOST_REQUEST_BYTES = 64 * 1024
"""Bytes of one multiRead: jute.maxbuffer (1 MiB, or what an operator made of it) binds requests."""

_PARTITIONS_DEPTH = 4
"""Slashes in /brokers/topics/<topic>/partitions."""


class TreeWalk:
    """One walk over subtrees, depth first: what is listed is read before more is listed."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._frontier: list[Read] = []
        self._unanswered = 0
        self.reads = 0
        for root in reversed(roots):
            self._visit(root)

    @property
    def finished(self) -> bool:
        """Everything was read and answered."""
        return not self._frontier and not self._unanswered

    @property
    def waiting(self) -> bool:
        """There is more to ask for."""
        return bool(self._frontier)

    def take(self, most: int) -> tuple[Read, ...]:
        """Return the next reads of one request, at most `most`; empty when all were asked."""
        reads = take_reads(self._frontier, min(most, MOST_READS))
        self._unanswered += len(reads)
        self.reads += len(reads)
        return reads

    def learn(self, read: Read, result: Result) -> None:
        """Note one read's answer, and that its children are to be visited."""
        self._unanswered -= 1
        path = read[1]
        if isinstance(result, ZnodeData):
            if result.num_children:
                self._frontier.append((Op.GET_CHILDREN, path))
        elif isinstance(result, Children):
            for name in sorted(result.names, reverse=True):
                self._visit(f"{path}/{name}")

    def _visit(self, path: str) -> None:
        if _is_partition_directory(path):
            # Its only child is `state`: asking for that directly halves a walk's reads.
            self._frontier.append((Op.GET_DATA, f"{path}/state"))
        elif is_published(path):
            self._frontier.append((Op.GET_DATA, path))
        else:
            self._frontier.append((Op.GET_CHILDREN, path))


class Pace:
    """A cap on reads per second; unused allowance of at most a moment is kept.

    >>> pace = Pace(reads_per_s=1000, burst=100)
    >>> pace.allowed(0), pace.spend(100), pace.allowed(0), pace.allowed(50)
    (100, None, 0, 50)
    """

    def __init__(self, *, reads_per_s: float, burst: int = MOST_READS) -> None:
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


def take_reads(frontier: list[Read], most: int) -> tuple[Read, ...]:
    """Remove from the frontier's end what fits into one request, and return it."""
    size = 0
    taken: list[Read] = []
    while frontier and len(taken) < most:
        size += len(frontier[-1][1].encode()) + READ_OVERHEAD_BYTES
        if taken and size > MOST_REQUEST_BYTES:
            break
        taken.append(frontier.pop())
    return tuple(taken)


def _is_partition_directory(path: str) -> bool:
    parent, _, name = path.rpartition("/")
    return (
        name.isdecimal()
        and parent.endswith("/partitions")
        and parent.startswith("/brokers/topics/")
        and parent.count("/") == _PARTITIONS_DEPTH
        and is_published(f"{path}/state")
    )
