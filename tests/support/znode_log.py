"""The log of a changing tree: every write as the record that a watcher would publish.

The rule: a write is one record with the Stat that the znode had right after it, in order, nothing
merged. A caller leaves out what a real watcher would merge or lose. Containers and other znodes
that no watcher publishes are not in the log; of configurations, only what may be published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from controller_model.records.changes import (
    ChangeKind,
    SessionState,
    ZnodeChange,
    data_fields,
    digest_text,
    znode_digest,
)
from controller_model.sources.zookeeper.znode_kinds import is_published, published_data
from controller_simulator.zookeeper.transactions import (
    Changed,
    Commit,
    Committed,
    Created,
    CreateZnode,
    DeleteZnode,
    Multi,
    Removed,
    SetZnode,
)
from controller_simulator.zookeeper.tree import ZnodeTree


class ZnodeLog:
    """A watcher that misses nothing; `changes` is its log so far."""

    def __init__(self, cluster: str, *, watcher: str = "w1", generation: int = 1) -> None:
        """Start before the first transaction of an ensemble."""
        self.cluster = cluster
        self.watcher = watcher
        self.generation = generation
        self.tree = ZnodeTree()
        self.changes: list[ZnodeChange] = []
        self._resyncs = 0

    def follow(self, commits: Iterable[Commit]) -> list[ZnodeChange]:
        """Take over commits; return their records."""
        before = len(self.changes)
        for commit in commits:
            take_over(self.tree, commit)
            for write in commit.writes:
                if is_published(write.path):
                    self.record(write.path, gone=isinstance(write, Removed))
        return self.changes[before:]

    def record(self, path: str, *, gone: bool = False) -> ZnodeChange:
        """Append what the tree holds at a path now, or that it does not exist."""
        znode = None if gone else self.tree.find(path)
        if znode is None:
            return self._record(ChangeKind.DELETED, path=path, read_zxid=self.tree.zxid)
        return self._record(
            ChangeKind.SET,
            path=path,
            czxid=znode.czxid,
            mzxid=znode.mzxid,
            version=znode.version,
            ctime=znode.ctime_ms,
            mtime=znode.mtime_ms,
            ephemeral_owner=znode.owner,
            read_zxid=self.tree.zxid,
            **data_fields(published_data(path, znode.data.encode())),
        )

    def heartbeat(self, at_ms: int) -> ZnodeChange:
        """Append a heartbeat: the watcher is alive, and nothing happened up to this time."""
        self.tree.time_ms = at_ms
        return self._record(ChangeKind.HEARTBEAT, session=SessionState.CONNECTED)

    def resync(self) -> list[ZnodeChange]:
        """Append the whole tree between the two records of a resync; return those records."""
        before = len(self.changes)
        self._resyncs += 1
        self._record(ChangeKind.RESYNC_STARTED, resync=self._resyncs, reason="start")
        digest = 0
        count = 0
        for path in paths_of(self.tree):
            if is_published(path):
                self.record(path)
                digest ^= znode_digest(path, self.tree.at(path).mzxid)
                count += 1
        self._record(
            ChangeKind.RESYNC_FINISHED,
            resync=self._resyncs,
            znodes=count,
            digest=digest_text(digest),
        )
        return self.changes[before:]

    def _record(self, kind: ChangeKind, **fields: Any) -> ZnodeChange:
        change = ZnodeChange(
            v=1,
            cluster=self.cluster,
            generation=self.generation,
            watcher=self.watcher,
            seq=len(self.changes) + 1,
            kind=kind,
            observed_at=self.tree.time_ms,
            **fields,
        )
        self.changes.append(change)
        return change


def paths_of(tree: ZnodeTree) -> Iterator[str]:
    """Yield every path except the root's, parents first."""
    return (path for path in tree._znodes if path != "/")


def take_over(tree: ZnodeTree, commit: Commit) -> None:
    """Apply a transaction of another server's log to this tree, under the same zxid."""
    assert commit.zxid > tree.zxid, f"zxid {commit.zxid:#x} is not after {tree.zxid:#x}"
    tree.zxid, tree.time_ms = commit.zxid - 1, commit.time_ms
    if commit.opens:
        tree.open_session(commit.session)
    elif commit.closes:
        tree.close_session(commit.session)
    else:
        tree.write(Multi(tuple(map(_request_of, commit.writes))), session=commit.session)


def _request_of(done: Committed) -> CreateZnode | SetZnode | DeleteZnode:
    """Return the request that leads to this committed change."""
    match done:
        case Created():
            return CreateZnode(done.path, done.data, done.owner)
        case Changed():
            return SetZnode(done.path, done.data)
        case _:
            return DeleteZnode(done.path)
