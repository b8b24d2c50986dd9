"""What ZooKeeper committed: the records of a transaction log, and why a request was refused.

The rule: a commit says what happened and under which zxid, as the real server's log does, so that
the two can be compared and one be fed with the other. Source: org.apache.zookeeper.txn and
KeeperException.Code (3.8).
"""

from __future__ import annotations

import enum

import msgspec

from controller_model.kafka.errors import ModelError
from controller_simulator.zookeeper.writes import CreateZnode, DeleteZnode, SetZnode

NO_SESSION = 0
"""The owner of a znode that stays."""


class ZooKeeperCode(enum.StrEnum):
    """Why a transaction failed (org.apache.zookeeper.KeeperException.Code)."""

    NODE_EXISTS = "NODEEXISTS"
    NO_NODE = "NONODE"
    NOT_EMPTY = "NOTEMPTY"
    BAD_VERSION = "BADVERSION"
    NO_CHILDREN_FOR_EPHEMERALS = "NOCHILDRENFOREPHEMERALS"
    SESSION_EXPIRED = "SESSIONEXPIRED"


class ZooKeeperError(ModelError):
    """A transaction that ZooKeeper refuses; nothing of it happened."""

    def __init__(self, code: ZooKeeperCode, path: str) -> None:
        """Name the reason and the znode."""
        super().__init__(f"{code} for {path}")
        self.code = code
        self.path = path


class Created(msgspec.Struct, frozen=True, omit_defaults=True, tag="create", tag_field="did"):
    """A znode was made; `owner` is the session that an ephemeral one goes with."""

    path: str
    data: str = ""
    owner: int = NO_SESSION


class Changed(msgspec.Struct, frozen=True, omit_defaults=True, tag="set", tag_field="did"):
    """A znode's data was set, and it has this version now."""

    path: str
    data: str = ""
    version: int = 0


class Removed(msgspec.Struct, frozen=True, omit_defaults=True, tag="delete", tag_field="did"):
    """A znode is gone."""

    path: str


Committed = Created | Changed | Removed


class Commit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A transaction as the server's log holds it: what happened, by whom, under which zxid."""

    zxid: int
    session: int
    time_ms: int
    writes: tuple[Committed, ...] = ()
    opens: bool = False
    """It opened the session."""
    closes: bool = False
    """It closed the session; `writes` are the deletions of what the session held."""


def request_of(done: Committed) -> CreateZnode | SetZnode | DeleteZnode:
    """Return the request that leads to what was committed."""
    if isinstance(done, Created):
        return CreateZnode(done.path, done.data, done.owner)
    if isinstance(done, Changed):
        return SetZnode(done.path, done.data)
    return DeleteZnode(done.path)
