"""Defines what the watcher asks ZooKeeper for, and what ZooKeeper answers.

Values only. `jute` knows their bytes and `connection` sends them; the decisions of
`watcher` need neither. Every path here is without the chroot.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Op(enum.IntEnum):
    """Reads, with ZooKeeper's operation codes; a multiRead can hold all except EXISTS."""

    EXISTS = 3
    GET_DATA = 4
    GET_CHILDREN = 8


class EventType(enum.IntEnum):
    """What happened to a znode (Watcher.Event.EventType)."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class Err(enum.IntEnum):
    """The error codes that the watcher distinguishes (KeeperException.Code)."""

    OK = 0
    CONNECTION_LOSS = -4
    MARSHALLING = -5
    UNIMPLEMENTED = -6
    NO_NODE = -101
    NO_AUTH = -102


class ZnodeData(NamedTuple):
    """A znode's payload and the fields of its Stat that the log carries."""

    data: bytes
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    ephemeral_owner: int
    num_children: int


class Children(NamedTuple):
    """The names of a znode's children, in no particular order."""

    names: tuple[str, ...]


class Refused(NamedTuple):
    """A read that returned no value: NoNode, NoAuth or another error code."""

    code: int


Result = ZnodeData | Children | Refused
Read = tuple[Op, str]
"""One read: the operation and the path."""


@dataclass(frozen=True, slots=True)
class AddWatch:
    """Ask for a persistent recursive watch (ZooKeeper 3.6 and later)."""

    path: str


@dataclass(frozen=True, slots=True)
class Sync:
    """Ask a server to catch up with its leader; the reply's header has the zxid that it reached."""

    path: str


@dataclass(frozen=True, slots=True)
class MultiRead:
    """Read many znodes in one request (ZooKeeper 3.6 and later); results come in its order."""

    reads: Sequence[Read]


@dataclass(frozen=True, slots=True)
class SingleRead:
    """Read one znode, as every ZooKeeper can, and set a watch: the znode's next change brings one event.

    GET_DATA watches the znode itself, GET_CHILDREN the names of its children. EXISTS also watches a
    znode that does not exist yet; the other reads leave no watch when they find no znode.
    """

    op: Op
    path: str

    @property
    def reads(self) -> tuple[Read, ...]:
        """The reads, in the form of a multiRead's."""
        return ((self.op, self.path),)


ReadRequest = MultiRead | SingleRead
Request = AddWatch | Sync | ReadRequest
