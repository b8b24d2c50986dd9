"""Reading the tree: changed paths at once, the whole of it in walks; values become changes.

The rule: everything is read on one connection and taken in in the order of the replies, so the
newest reply about a path is right, whoever asked for it. A changed path goes before a walk. Bounds:
`MOST_LIVE_REQUESTS` and `MOST_WALK_REQUESTS` in flight, 500 reads each; an audit remembers the
paths it has met.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from controller_model.changes import ZnodeChange
from zk_source.dirty import DirtyPaths
from zk_source.outbox import Outbox, Sent
from zk_source.protocol import AddWatch, Err, MultiRead, Op, Read, Refused, Result, ZnodeData
from zk_source.recorder import Recorder
from zk_source.resync import MOST_READS, Pace, TreeWalk

MOST_LIVE_REQUESTS = 4
"""Requests in flight for changed paths: enough to keep one connection busy."""

MOST_WALK_REQUESTS = 2
"""Requests in flight for a walk: a changed path's read waits behind these, about 5 ms each."""

_BURST_PER_S = 20
"""A walk's allowance is spent in portions of a twentieth of a second."""


class Purpose(enum.Enum):
    """Why the tree is walked."""

    RESYNC = "resync"
    AUDIT = "audit"


class Walk:
    """A walk under way, and for an audit what it has met."""

    def __init__(self, purpose: Purpose, roots: Sequence[str], reads_per_s: float) -> None:
        self.purpose = purpose
        self.tree = TreeWalk(roots)
        self.pace = Pace(
            reads_per_s=reads_per_s, burst=max(MOST_READS, int(reads_per_s / _BURST_PER_S))
        )
        self.met: set[str] = set()
        self.unmet: set[str] | None = None
        """Paths that readers know and an audit did not meet, while they are read once more; None
        until its walk is over."""


@dataclass(slots=True)
class ReadFigures:
    """What is counted here, since the watcher started."""

    reads: int = 0
    audit_differences: int = 0


class Reading:
    """What is being read, and for what."""

    def __init__(self, recorder: Recorder, outbox: Outbox) -> None:
        self._recorder = recorder
        self._outbox = outbox
        self.dirty = DirtyPaths()
        self.walk: Walk | None = None
        self.figures = ReadFigures()
        self.room = True
        """Whether the publisher has room for a walk's changes."""

    def doing(self, purpose: Purpose) -> bool:
        """Tell whether a walk for this purpose is under way."""
        return self.walk is not None and self.walk.purpose is purpose

    def forget(self) -> None:
        """Give up all reads: values or events were missed, and a resync follows."""
        self._outbox.forget(lambda sent: not isinstance(sent.request, AddWatch))
        self.walk = None
        self.dirty.clear()

    def ask_for_changed(self) -> None:
        """Send reads of changed paths while few are in flight."""
        in_flight = self._outbox.count(_is_live)
        while in_flight < MOST_LIVE_REQUESTS and (reads := self.dirty.take()):
            self._outbox.send(MultiRead(reads))
            in_flight += 1

    def walk_on(self, now_ms: int) -> Purpose | None:
        """Send the next reads of the walk; return its purpose when it has just ended."""
        walk = self.walk
        if walk is None:
            return None
        in_flight = self._outbox.count(lambda sent: sent.walk is walk)
        while in_flight < MOST_WALK_REQUESTS and self.room and walk.tree.waiting:
            reads = walk.tree.take(walk.pace.allowed(now_ms))
            if not reads:
                break
            walk.pace.spend(len(reads))
            self._outbox.send(MultiRead(reads), walk=walk)
            in_flight += 1
        if not walk.tree.finished:
            return None
        if walk.purpose is Purpose.AUDIT and walk.unmet is None:
            missing = self._recorder.published.missing_from(walk.met)
            walk.unmet = {path for path in missing if path not in self.dirty}
            walk.met.clear()
            for path in walk.unmet:
                self.dirty.mark(path)
        if walk.unmet:
            return None
        self.walk = None
        return walk.purpose

    def on_values(
        self, sent: Sent, reads: Sequence[Read], results: Sequence[Result], zxid: int, now_ms: int
    ) -> str | None:
        """Take in a reply; return what went wrong, None when nothing did."""
        self.figures.reads += len(reads)
        live = _is_live(sent)
        if live:
            self.dirty.answered(reads)
        trouble = None
        for read, result in zip(reads, results, strict=True):
            trouble = self._on_value(read, result, zxid, now_ms, live=live) or trouble
            if live:
                if self.walk is not None and self.walk.unmet:
                    self.walk.unmet.discard(read[1])
            elif isinstance(sent.walk, Walk):
                sent.walk.tree.learn(read, result)
                if sent.walk.purpose is Purpose.AUDIT:
                    sent.walk.met.add(read[1])
        return trouble

    def _on_value(
        self, read: Read, result: Result, zxid: int, now_ms: int, *, live: bool
    ) -> str | None:
        op, path = read
        change: ZnodeChange | None = None
        match result:
            case ZnodeData():
                change = self._recorder.value(path, result, zxid, now_ms)
            case Refused(code=Err.NO_NODE) if op is Op.GET_DATA:
                in_resync = live and self.doing(Purpose.RESYNC)
                change = self._recorder.absence(path, zxid, now_ms, even_unknown=in_resync)
            case Refused(code=Err.NO_AUTH):
                if self._recorder.deny(path):
                    self._outbox.tell(
                        "no READ permission on a znode: what depends on it is unknown", path=path
                    )
            case Refused(code=code) if code != Err.NO_NODE:
                return f"reading {path} failed with error {code}"
        if change is not None:
            self._outbox.add(change)
            if self._was_missed(path, live=live):
                self.figures.audit_differences += 1
        return None

    def _was_missed(self, path: str, *, live: bool) -> bool:
        """Tell whether only the audit found this: an event would have come before the value."""
        walk = self.walk
        if walk is None or walk.purpose is not Purpose.AUDIT:
            return False
        if live:
            return walk.unmet is not None and path in walk.unmet
        return path not in self.dirty


def _is_live(sent: Sent) -> bool:
    return isinstance(sent.request, MultiRead) and sent.walk is None
