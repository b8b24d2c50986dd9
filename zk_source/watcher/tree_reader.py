"""Reads changed paths at once and the whole tree in walks, and turns values into changes.

Everything is read on one connection and handled in the order of the replies, so the
newest reply about a path is right, whatever asked for it. Changed paths are read before a walk
continues. Bounds: the requests in flight that the way of watching allows, and the changed paths
that may wait. A reconciliation remembers the paths that it has met.
"""

from collections.abc import Sequence

from controller_model.records.changes import ZnodeChange
from zk_source.watcher.arming import Arming
from zk_source.watcher.commands import Outbox, Sent
from zk_source.watcher.dirty_paths import DirtyPaths
from zk_source.watcher.recorder import Recorder
from zk_source.watcher.subscriptions import read_of
from zk_source.watcher.tree_walk import Purpose, TreeWalk
from zk_source.wire.operations import (
    AddWatch,
    Children,
    Err,
    Op,
    Read,
    ReadRequest,
    Refused,
    Result,
    ZnodeData,
)


class TreeReader:
    """Reads changed paths and walks the tree."""

    def __init__(self, recorder: Recorder, outbox: Outbox, arming: Arming) -> None:
        self._arming = arming
        self._recorder = recorder
        self._outbox = outbox
        self.dirty = DirtyPaths()
        self.walk: TreeWalk | None = None
        self.reads = 0
        self.reconciliation_differences = 0
        """Changes that only a reconciliation found, since the watcher started."""
        self.room = True
        """Whether the publisher has room for a walk's changes, and the fold follows."""

    def doing(self, purpose: Purpose) -> bool:
        """Return whether a walk for this purpose is under way."""
        return self.walk is not None and self.walk.purpose is purpose

    def start_walk(self, purpose: Purpose, reads_per_s: float) -> None:
        """Begin to read the whole tree."""
        first = self._arming.subscription.start_walk(resync=purpose is Purpose.RESYNC)
        self.walk = TreeWalk(purpose, first, reads_per_s)

    def abandon_reads(self) -> None:
        """Give up all reads: values or events were missed, and a resync follows."""
        self._outbox.forget(lambda sent: not isinstance(sent.request, AddWatch))
        self.walk = None
        self.dirty.clear()

    def read_changed(self) -> None:
        """Send reads of changed paths while few are in flight."""
        way = self._arming.subscription
        in_flight = self._outbox.count(
            lambda sent: sent.walk is None and isinstance(sent.request, ReadRequest)
        )
        while in_flight < way.live_window and (reads := self.dirty.start_reads(way.most_reads)):
            self._outbox.send(way.request(reads))
            in_flight += 1

    def continue_walk(self, now_ms: int) -> Purpose | None:
        """Send the next reads of the walk; return its purpose when it has just ended."""
        walk = self.walk
        if walk is None:
            return None
        way = self._arming.subscription
        in_flight = self._outbox.count(lambda sent: sent.walk is walk)
        while (
            in_flight < way.walk_window
            and self.room
            and (reads := walk.start_reads(way.most_reads, now_ms))
        ):
            self._outbox.send(way.request(reads), walk=walk)
            in_flight += 1
        if not walk.finished:
            return None
        if walk.purpose is Purpose.RECONCILIATION and walk.unmet is None:
            self._read_unmet(walk)
        if walk.unmet:
            return None
        self.walk = None
        return walk.purpose

    def _read_unmet(self, walk: TreeWalk) -> None:
        """Read once more what the walk did not meet but the log holds or names as denied."""
        published, denied = self._recorder.published.mzxids, self._recorder.denied
        missing = [(Op.GET_DATA, path) for path in published if path not in walk.met]
        # Servers send no event when a denied znode is deleted, so only this shows it.
        missing += [read_of(path) for path in denied if path not in walk.met]
        # In order, so that a run of the simulation with the same seed sends the same requests.
        unmet = [read for read in missing if read not in self.dirty]
        walk.unmet = set(unmet)
        for read in unmet:
            self.dirty.mark(read)

    def on_values(
        self, sent: Sent, reads: Sequence[Read], results: Sequence[Result], zxid: int, now_ms: int
    ) -> str | None:
        """Handle a reply; return what went wrong, None when nothing did."""
        self.reads += len(reads)
        live = sent.walk is None
        rounds = [self.dirty.answered(read) if live else None for read in reads]
        problem = None
        for read, result, round_ in zip(reads, results, rounds, strict=True):
            problem = self._on_value(read, result, zxid, now_ms, live=live) or problem
            if live:
                if self.walk is not None and self.walk.unmet:
                    self.walk.unmet.discard(read)
                for more in self._arming.subscription.reads_after_change(read, result):
                    if self.dirty.full:
                        return "more changed paths than the memory allows"
                    self.dirty.mark(more, round_)
            elif isinstance(sent.walk, TreeWalk):
                resync = sent.walk.purpose is Purpose.RESYNC
                found = self._arming.subscription.reads_after_walk(read, result, resync=resync)
                sent.walk.on_answer(found)
                if not resync:
                    sent.walk.met.add(read[1])
        return problem

    def _on_value(
        self, read: Read, result: Result, zxid: int, now_ms: int, *, live: bool
    ) -> str | None:
        op, path = read
        change: ZnodeChange | None = None
        match result:
            case ZnodeData() if op is Op.GET_DATA:
                change = self._recorder.value(path, result, zxid, now_ms)
            case Refused(code=Err.NO_NODE) if op is Op.GET_DATA:
                in_resync = live and self.doing(Purpose.RESYNC)
                change = self._recorder.absence(path, zxid, now_ms, even_unknown=in_resync)
            case Children() | ZnodeData() | Refused(code=Err.NO_NODE):
                self._recorder.allow(path)
            case Refused(code=Err.NO_AUTH):
                if self._recorder.deny(path):
                    self._outbox.warn(
                        "no READ permission on a znode: what depends on it is unknown", path=path
                    )
            case Refused(code=code):
                return f"reading {path} failed with error {code}"
        if change is not None:
            self._outbox.add(change)
            walk = self.walk
            if walk is not None and walk.purpose is Purpose.RECONCILIATION:
                # Whether only the reconciliation found it: an event arrives before its value.
                is_unmet = walk.unmet is not None and (Op.GET_DATA, path) in walk.unmet
                was_missed = is_unmet if live else not self.dirty.leads_to(path)
                self.reconciliation_differences += was_missed
        return None
