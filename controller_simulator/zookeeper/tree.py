"""Simulates ZooKeeper in memory: the tree, its zxids and versions, its sessions and their znodes.

The rule: every request is one transaction that commits as a whole, under the next zxid, or fails
with ZooKeeper's own error and changes nothing. Source:
org.apache.zookeeper.server.PrepRequestProcessor and DataTree (3.8).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller_simulator.zookeeper.transactions import (
    ANY_VERSION,
    NO_SESSION,
    Changed,
    CheckZnode,
    Commit,
    Committed,
    Created,
    CreateZnode,
    DeleteZnode,
    Multi,
    Removed,
    SetZnode,
    SingleWrite,
    ZnodeWrite,
    ZooKeeperCode,
    ZooKeeperError,
)


@dataclass(slots=True)
class TreeNode:
    """A znode: its data and its Stat (org.apache.zookeeper.data.Stat)."""

    data: str
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    owner: int = NO_SESSION
    version: int = 0
    creations: int = 0
    """The number of children ever created: the server's own cversion, which numbers sequential znodes."""
    children: dict[str, None] = field(default_factory=dict)
    """The names below it, in order of creation."""


@dataclass(slots=True)
class _Expected:
    """What later parts of a transaction need to know of a znode."""

    version: int
    owner: int
    children: int


class _Outlook:
    """The tree as the parts of a transaction so far would leave it."""

    def __init__(self, znodes: dict[str, TreeNode]) -> None:
        self._znodes = znodes
        self._expected: dict[str, _Expected | None] = {}

    def find(self, path: str) -> _Expected | None:
        if path not in self._expected:
            znode = self._znodes.get(path)
            self._expected[path] = (
                None
                if znode is None
                else _Expected(znode.version, znode.owner, len(znode.children))
            )
        return self._expected[path]

    def at(self, path: str) -> _Expected:
        found = self.find(path)
        if found is None:
            raise ZooKeeperError(ZooKeeperCode.NO_NODE, path)
        return found

    def create(self, part: CreateZnode) -> None:
        parent = self.at(parent_of(part.path))
        if self.find(part.path) is not None:
            raise ZooKeeperError(ZooKeeperCode.NODE_EXISTS, part.path)
        if parent.owner != NO_SESSION:
            raise ZooKeeperError(ZooKeeperCode.NO_CHILDREN_FOR_EPHEMERALS, part.path)
        parent.children += 1
        self._expected[part.path] = _Expected(0, part.ephemeral_owner, 0)

    def delete(self, path: str) -> None:
        if self.at(path).children:
            raise ZooKeeperError(ZooKeeperCode.NOT_EMPTY, path)
        self.at(parent_of(path)).children -= 1
        self._expected[path] = None


class ZnodeTree:
    """One ensemble's znodes and sessions; `commits` is its transaction log since this tree was made."""

    def __init__(self, *, zxid: int = 0, time_ms: int = 0) -> None:
        self.zxid = zxid
        self.time_ms = time_ms
        self.commits: list[Commit] = []
        self._znodes = {"/": TreeNode("", 0, 0, 0, 0)}
        self._held: dict[int, dict[str, None]] = {}

    # --- reads ----------------------------------------------------------------------------

    def find(self, path: str) -> TreeNode | None:
        """Return the znode at this path, or None."""
        return self._znodes.get(path)

    def at(self, path: str) -> TreeNode:
        """Return the znode at this path; raise NONODE when there is none."""
        znode = self._znodes.get(path)
        if znode is None:
            raise ZooKeeperError(ZooKeeperCode.NO_NODE, path)
        return znode

    def data(self, path: str) -> str:
        """Return the data at this path; raise NONODE when there is no znode."""
        return self.at(path).data

    def children(self, path: str) -> tuple[str, ...]:
        """Return the names below a path, in order of creation; none if the path does not exist."""
        znode = self._znodes.get(path)
        return () if znode is None else tuple(znode.children)

    def next_in_sequence(self, prefix: str) -> str:
        """Return the path that a sequential znode with this prefix would get now.

        >>> ZnodeTree().next_in_sequence("/change_")
        '/change_0000000000'
        """
        return f"{prefix}{self.at(parent_of(prefix)).creations:010d}"

    # --- what was there before ------------------------------------------------------------

    def place(self, path: str, data: str = "", *, owner: int = NO_SESSION) -> None:
        """Add a znode that is older than the log, and the missing ones above it.

        It takes no zxid and makes no commit: an observer knows such a cluster's znodes, but not how
        they were written. The session of an ephemeral one is open from then on.
        """
        above = parent_of(path)
        if above not in self._znodes:
            self.place(above)
        if owner != NO_SESSION:
            self._held.setdefault(owner, {})
        self._link(path, data, owner, self.zxid)

    # --- writes ---------------------------------------------------------------------------

    def open_session(self, session: int) -> None:
        """Open a session, in which ephemeral znodes can be created."""
        self._held[session] = {}
        self._commit(session, (), opens=True)

    def close_session(self, session: int) -> Commit:
        """End a session; its znodes are deleted in the same transaction, in order of creation."""
        held = self._held.pop(session, None)
        if held is None:
            raise ZooKeeperError(ZooKeeperCode.SESSION_EXPIRED, f"session {session:#x}")
        for path in held:
            self._unlink(path)
        return self._commit(session, tuple(map(Removed, held)), closes=True)

    def write(self, write: ZnodeWrite, *, session: int = NO_SESSION) -> Commit:
        """Commit a request of a session, or raise ZooKeeperError and change nothing."""
        parts = write.writes if isinstance(write, Multi) else (write,)
        self._check(parts)
        return self._commit(session, tuple(done for part in parts for done in self._apply(part)))

    def attempt(self, write: ZnodeWrite, *, session: int = NO_SESSION) -> Commit | ZooKeeperCode:
        """Commit a request, or return why not; a refused one takes a zxid, as in the real log."""
        try:
            return self.write(write, session=session)
        except ZooKeeperError as error:
            self.zxid += 1
            return error.code

    def _commit(
        self,
        session: int,
        writes: tuple[Committed, ...],
        *,
        opens: bool = False,
        closes: bool = False,
    ) -> Commit:
        self.zxid += 1
        commit = Commit(self.zxid, session, self.time_ms, writes, opens, closes)
        self.commits.append(commit)
        return commit

    def _check(self, parts: Iterable[SingleWrite | CheckZnode]) -> None:
        """Raise if a part of a transaction must fail, given the parts before it."""
        outlook = _Outlook(self._znodes)
        for part in parts:
            if isinstance(part, CreateZnode):
                outlook.create(part)
                if part.ephemeral_owner != NO_SESSION and part.ephemeral_owner not in self._held:
                    raise ZooKeeperError(ZooKeeperCode.SESSION_EXPIRED, part.path)
                continue
            expected = outlook.at(part.path)
            if part.expected_version not in {ANY_VERSION, expected.version}:
                raise ZooKeeperError(ZooKeeperCode.BAD_VERSION, part.path)
            if isinstance(part, SetZnode):
                expected.version += 1
            elif isinstance(part, DeleteZnode):
                outlook.delete(part.path)

    def _apply(self, part: SingleWrite | CheckZnode) -> tuple[Committed, ...]:
        """Apply one part of a transaction that has been checked."""
        if isinstance(part, CheckZnode):
            return ()
        if isinstance(part, CreateZnode):
            self._link(part.path, part.data, part.ephemeral_owner, self.zxid + 1)
            return (Created(part.path, part.data, part.ephemeral_owner),)
        if isinstance(part, DeleteZnode):
            self._unlink(part.path)
            return (Removed(part.path),)
        znode = self._znodes[part.path]
        znode.data, znode.mzxid, znode.mtime_ms = part.data, self.zxid + 1, self.time_ms
        znode.version += 1
        return (Changed(part.path, part.data, znode.version),)

    def _link(self, path: str, data: str, owner: int, zxid: int) -> None:
        self._znodes[path] = TreeNode(data, zxid, zxid, self.time_ms, self.time_ms, owner)
        parent = self._znodes[parent_of(path)]
        parent.children[path.rpartition("/")[2]] = None
        parent.creations += 1
        if owner != NO_SESSION:
            self._held[owner][path] = None

    def _unlink(self, path: str) -> None:
        znode = self._znodes.pop(path)
        parent = self._znodes[parent_of(path)]
        parent.children.pop(path.rpartition("/")[2])
        if znode.owner in self._held:
            self._held[znode.owner].pop(path)


def parent_of(path: str) -> str:
    """Return the path above; that of a child of the root is the root's.

    >>> parent_of("/brokers/ids"), parent_of("/brokers")
    ('/brokers', '/')
    """
    return path.rpartition("/")[0] or "/"
