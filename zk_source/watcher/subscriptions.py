"""Defines how the watcher learns of changes: what to ask for, what an event means, what to read.

A way of subscribing knows no socket and no clock. It decides which requests arm it on a
new connection, which reads follow from an event, and which from an answer. There are two ways. With
both, every change that lasts leads to a read that was sent after it:

- **Recursive.** Servers from 3.6 on keep one persistent recursive watch for each subtree. Each
  created, deleted or changed znode brings its own event, so nothing has to be armed again.
- **One-shot.** On every server a read can set a watch, and the next change fires and removes it. So
  each read sets one, and after each event the path is read again with its watch: what changed in
  between is in the answer, what changes later fires again. A new znode shows in its parent's names.
  Each path is noted once (`_known`), so a list of 10,000 names costs reads of the new ones only.

Why one-shot watches miss nothing: a known znode has its watch, or its read is in flight, or an
event requests that read. When a read finds no znode, its path is forgotten. Then the parent's
names, which are watched, bring it back, and EXISTS watches the roots of the subtrees that do not
exist yet. A partition's directory has one child, so `state` is read at once, and the directory is
watched only while it has no `state`.
"""

import enum
import re
from collections.abc import Iterable, Sequence

from controller_model.sources.zookeeper.znode_kinds import (
    WATCHED_SUBTREES,
    ZnodeKind,
    classify,
    is_published,
)
from zk_source.wire.operations import (
    Children,
    Err,
    EventType,
    MultiRead,
    Op,
    Read,
    ReadRequest,
    Refused,
    Result,
    SingleRead,
    ZnodeData,
)

MAX_READS = 500
"""Reads in one multiRead: a larger request is no faster."""

MAX_REQUEST_BYTES = 64 * 1024
"""Bytes of one multiRead: jute.maxbuffer (1 MiB, or what an operator set) limits requests."""

_READ_OVERHEAD_BYTES = 14
"""Bytes that one read adds to a multiRead in addition to its path: header, length and the watch flag."""


class Watches(enum.StrEnum):
    """Which way of watching to use."""

    AUTO = "auto"
    RECURSIVE = "recursive"
    ONE_SHOT = "one-shot"


class RecursiveWatches:
    """One persistent recursive watch on each subtree, and multiReads (ZooKeeper 3.6 and later)."""

    most_reads = MAX_READS
    """Reads in one request."""
    live_window = 4
    """Requests in flight for changed paths: enough to keep one connection busy."""
    walk_window = 2
    """Requests in flight for a walk: the read of a changed path waits behind these, 10 to 20 ms."""

    def arm(self) -> Sequence[str]:
        """Return the subtrees. A watch can be set on a path that does not exist yet."""
        return WATCHED_SUBTREES

    def to_read(self, type_: int, path: str) -> Sequence[Read]:
        """Return a read of the event's path, unless it is a container or its children changed.

        >>> RecursiveWatches().to_read(EventType.CREATED, "/brokers/ids/0")
        ((<Op.GET_DATA: 4>, '/brokers/ids/0'),)
        >>> RecursiveWatches().to_read(EventType.DELETED, "/brokers/topics/t/partitions")
        ()
        """
        if type_ == EventType.CHILDREN_CHANGED or not is_published(path):
            return ()
        return ((Op.GET_DATA, path),)

    def request(self, reads: Sequence[Read]) -> ReadRequest:
        """Return a multiRead."""
        return MultiRead(reads)

    def start_walk(self, *, resync: bool) -> Sequence[Read]:  # noqa: ARG002 - every walk is alike
        """Return the reads of the subtrees' roots."""
        return [_first_read(root) for root in WATCHED_SUBTREES]

    def reads_after_walk(self, read: Read, result: Result, *, resync: bool) -> Sequence[Read]:  # noqa: ARG002 - every walk is alike
        """Return reads of a container's children; of a published znode's children only if it has any."""
        path = read[1]
        if isinstance(result, ZnodeData):
            return ((Op.GET_CHILDREN, path),) if result.num_children else ()
        if isinstance(result, Children):
            return [_first_read(f"{path}/{name}") for name in sorted(result.names)]
        return ()

    def reads_after_change(self, read: Read, result: Result) -> Sequence[Read]:  # noqa: ARG002 - see below
        """Return nothing: each znode below has its own event."""
        return ()


class OneShotWatches:
    """Data and child watches set by single reads, for every ZooKeeper."""

    most_reads = 1
    live_window = 256
    walk_window = 128

    def __init__(self) -> None:
        self._known: dict[Op, set[str]] = {Op.GET_DATA: set(), Op.GET_CHILDREN: set()}
        """The paths that are watched, or will be when their read is answered: about 100 bytes each."""

    def arm(self) -> Sequence[str]:
        """Return nothing: reads set the watches."""
        return ()

    def to_read(self, type_: int, path: str) -> Sequence[Read]:
        """Return reads that set again the watches of the path which an event has removed.

        >>> OneShotWatches().to_read(EventType.CHILDREN_CHANGED, "/brokers/topics/t")
        ((<Op.GET_CHILDREN: 8>, '/brokers/topics/t'),)
        >>> len(OneShotWatches().to_read(EventType.DELETED, "/brokers/topics/t"))
        2
        """
        if type_ == EventType.CHILDREN_CHANGED:
            return ((Op.GET_CHILDREN, path),) if is_container(path) else ()
        if type_ == EventType.DATA_CHANGED:
            return ((Op.GET_DATA, path),) if is_published(path) else ()
        return _reads_of(path)

    def request(self, reads: Sequence[Read]) -> ReadRequest:
        """Return one read that sets its watch."""
        ((op, path),) = reads
        return SingleRead(op, path)

    def start_walk(self, *, resync: bool) -> Sequence[Read]:
        """Return the reads of the subtrees' roots."""
        reads = [read for root in WATCHED_SUBTREES for read in _first_reads(root)]
        if resync:
            for known in self._known.values():
                known.clear()
            self._note(reads)
        return reads

    def reads_after_walk(self, read: Read, result: Result, *, resync: bool) -> Sequence[Read]:
        """Return the reads that follow, known or not.

        A reconciliation notes nothing as known. What it meets first must still be found by events;
        otherwise missed events would stay unnoticed.
        """
        more = self._next(read, result)
        if resync:
            self._forget_absent(read, result)
            self._note(more)
        return more

    def reads_after_change(self, read: Read, result: Result) -> Sequence[Read]:
        """Return the reads that follow and are not known yet, and note them as known."""
        self._forget_absent(read, result)
        more = [
            each for each in self._next(read, result) if each[1] not in self._known.get(each[0], ())
        ]
        self._note(more)
        return more

    def _next(self, read: Read, result: Result) -> Sequence[Read]:
        op, path = read
        match result:
            case Children(names=names):
                return [r for name in sorted(names) for r in _first_reads(f"{path}/{name}")]
            case ZnodeData() if op is Op.EXISTS:
                return _first_reads(path)
            case Refused(code=Err.NO_NODE) if op is not Op.EXISTS:
                if path in WATCHED_SUBTREES:
                    return ((Op.EXISTS, path),)
                directory = path.rpartition("/")[0]
                if op is Op.GET_DATA and is_partition_directory(directory):
                    return ((Op.GET_CHILDREN, directory),)
        return ()

    def _note(self, reads: Iterable[Read]) -> None:
        for op, path in reads:
            if op in self._known:
                self._known[op].add(path)

    def _forget_absent(self, read: Read, result: Result) -> None:
        op, path = read
        if op in self._known and result == Refused(Err.NO_NODE):
            self._known[op].discard(path)


Subscription = RecursiveWatches | OneShotWatches
"""A way to learn of changes under the watched subtrees, and to read them."""


def is_partition_directory(path: str) -> bool:
    """Return whether this is a partition's directory, whose only child is `state`."""
    below_topics = path.startswith("/brokers/topics/")
    return below_topics and classify(f"{path}/state").kind is ZnodeKind.PARTITION_STATE


def is_container(path: str) -> bool:
    """Return whether a published znode may be below this path.

    >>> is_container("/brokers/topics/t"), is_container("/brokers/ids/0")
    (True, False)
    """
    return _CONTAINER.fullmatch(path) is not None


_ABOVE_PUBLISHED = {
    kind.value[: slash.start()] for kind in ZnodeKind for slash in re.finditer("/", kind.value)
}
_CONTAINER = re.compile(
    "|".join(re.sub("<.*?>", "[^/]+", path) for path in sorted(_ABOVE_PUBLISHED - {""}))
)


def read_of(path: str) -> Read:
    """Return the read that shows whether a path is there and may be read."""
    return (Op.GET_DATA if is_published(path) else Op.GET_CHILDREN, path)


def _first_read(path: str) -> Read:
    """Return the one read with which a walk reads a path that it has found."""
    if is_partition_directory(path):
        # Its only child is `state`: reading that directly halves a walk's reads.
        return (Op.GET_DATA, f"{path}/state")
    return read_of(path)


def _first_reads(path: str) -> Sequence[Read]:
    """Return the reads that set the watches which a new path needs."""
    if is_partition_directory(path):
        return ((Op.GET_DATA, f"{path}/state"),)
    return _reads_of(path)


def _reads_of(path: str) -> Sequence[Read]:
    reads: tuple[Read, ...] = ((Op.GET_DATA, path),) if is_published(path) else ()
    return (*reads, (Op.GET_CHILDREN, path)) if is_container(path) else reads


def pop_reads(frontier: list[Read], most: int) -> tuple[Read, ...]:
    """Remove from the frontier's end what fits into one request, and return it."""
    size = 0
    reads: list[Read] = []
    while frontier and len(reads) < most:
        size += len(frontier[-1][1].encode()) + _READ_OVERHEAD_BYTES
        if reads and size > MAX_REQUEST_BYTES:
            break
        reads.append(frontier.pop())
    return tuple(reads)
