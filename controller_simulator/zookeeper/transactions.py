"""Defines ZooKeeper's transactions: what a client asks to write, and what the server commits or refuses.

A write and a commit are data; `tree` turns one into the other. Kafka's controller sends
each of its writes in one transaction with a check of /controller_epoch's version, so that a
controller that was replaced can change nothing (KafkaZkClient.retryRequestsUntilConnected with
expectedControllerEpochZkVersion, since 2.1): `fenced` makes exactly that transaction. A commit has
the fields of the real server's transaction log, so that the two can be compared and either can be
replayed. Sources: org.apache.zookeeper.txn and KeeperException.Code (3.8).
"""

import enum

import msgspec

from controller_model.kafka.errors import ModelError

ANY_VERSION = -1
"""The expected version that matches any version (kafka.controller.ZkVersion.MatchAnyVersion)."""

CONTROLLER_EPOCH_PATH = "/controller_epoch"
"""The znode whose version fences the writes of a controller (kafka.zk.ControllerEpochZNode)."""

NO_SESSION = 0
"""The owner of a persistent znode."""


class ControllerMovedError(Exception):
    """A fenced write was refused: another controller has raised the epoch.

    kafka.common.errors.ControllerMovedException; a controller that meets it writes nothing more and
    resigns.
    """


class CreateZnode(msgspec.Struct, frozen=True, tag="create"):
    """A znode to create; `ephemeral_owner` is its session, 0 for a persistent one."""

    path: str
    data: str = ""
    ephemeral_owner: int = 0


class SetZnode(msgspec.Struct, frozen=True, tag="set"):
    """New data for a znode that must exist, and must have the expected version."""

    path: str
    data: str = ""
    expected_version: int = ANY_VERSION


class DeleteZnode(msgspec.Struct, frozen=True, tag="delete"):
    """A znode to delete."""

    path: str
    expected_version: int = ANY_VERSION


class CheckZnode(msgspec.Struct, frozen=True, tag="check"):
    """A condition inside a transaction: the znode has this version."""

    path: str
    expected_version: int = ANY_VERSION


SingleWrite = CreateZnode | SetZnode | DeleteZnode


class Multi(msgspec.Struct, frozen=True, tag="multi"):
    """Writes of one transaction: all of them under one zxid, or none."""

    writes: tuple[SingleWrite | CheckZnode, ...]


ZnodeWrite = SingleWrite | Multi
"""A request to ZooKeeper that changes something."""


def fenced(write: SingleWrite, *, epoch_zk_version: int) -> Multi:
    """Return the write as a controller sends it.

    >>> fenced(DeleteZnode("/admin/delete_topics/t"), epoch_zk_version=3).writes[0]
    CheckZnode(path='/controller_epoch', expected_version=3)
    """
    return Multi((CheckZnode(CONTROLLER_EPOCH_PATH, epoch_zk_version), write))


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
        super().__init__(f"{code} for {path}")
        self.code = code


class Created(msgspec.Struct, frozen=True, omit_defaults=True, tag="create", tag_field="did"):
    """A znode was created; `owner` is the session with which an ephemeral one is deleted."""

    path: str
    data: str = ""
    owner: int = NO_SESSION


class Changed(msgspec.Struct, frozen=True, omit_defaults=True, tag="set", tag_field="did"):
    """A znode's data was set; it now has this version."""

    path: str
    data: str = ""
    version: int = 0


class Removed(msgspec.Struct, frozen=True, omit_defaults=True, tag="delete", tag_field="did"):
    """A znode was deleted."""

    path: str


Committed = Created | Changed | Removed


class Commit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A transaction as in the server's log: what happened, by which session, under which zxid."""

    zxid: int
    session: int
    time_ms: int
    writes: tuple[Committed, ...] = ()
    opens: bool = False
    """The transaction opened the session."""
    closes: bool = False
    """The transaction closed the session; `writes` are the deletions of the session's znodes."""
