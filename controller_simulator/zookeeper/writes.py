"""What a controller asks ZooKeeper to write: creates, sets and deletes, each fenced by its epoch.

The rule: a write is data, decided here and made elsewhere. Kafka's controller sends each of its
writes in one transaction with a check of /controller_epoch's version, so that a controller that
was replaced can change nothing (KafkaZkClient.retryRequestsUntilConnected with
expectedControllerEpochZkVersion, since 2.1): `fenced` makes exactly that transaction.
"""

from __future__ import annotations

import msgspec

ANY_VERSION = -1
"""The expected version that every znode has (kafka.controller.ZkVersion.MatchAnyVersion)."""

CONTROLLER_EPOCH_PATH = "/controller_epoch"
"""The znode whose version fences the writes of a controller (kafka.zk.ControllerEpochZNode)."""


class ControllerMovedError(Exception):
    """A fenced write was refused: another controller has raised the epoch.

    kafka.common.errors.ControllerMovedException; whoever meets it writes nothing more and resigns.
    """


class CreateZnode(msgspec.Struct, frozen=True, tag="create"):
    """A znode that is to be made; `ephemeral_owner` is its session, 0 for one that stays."""

    path: str
    data: str = ""
    ephemeral_owner: int = 0


class SetZnode(msgspec.Struct, frozen=True, tag="set"):
    """New data for a znode that must exist, and must have the expected version."""

    path: str
    data: str = ""
    expected_version: int = ANY_VERSION


class DeleteZnode(msgspec.Struct, frozen=True, tag="delete"):
    """A znode that is to go."""

    path: str
    expected_version: int = ANY_VERSION


class CheckZnode(msgspec.Struct, frozen=True, tag="check"):
    """A condition inside a transaction: the znode has this version."""

    path: str
    expected_version: int = ANY_VERSION


class Multi(msgspec.Struct, frozen=True, tag="multi"):
    """Writes of one transaction: all of them under one zxid, or none."""

    writes: tuple[CreateZnode | SetZnode | DeleteZnode | CheckZnode, ...]


ZnodeWrite = CreateZnode | SetZnode | DeleteZnode | Multi
"""A request to ZooKeeper that changes something."""


def fenced(
    write: CreateZnode | SetZnode | DeleteZnode, *, epoch_zk_version: int | None
) -> ZnodeWrite:
    """Return the write as a controller sends it; without an epoch version it goes unfenced.

    >>> fenced(DeleteZnode("/admin/delete_topics/t"), epoch_zk_version=3).writes[0]
    CheckZnode(path='/controller_epoch', expected_version=3)
    """
    if epoch_zk_version is None or epoch_zk_version == ANY_VERSION:
        return write
    return Multi((CheckZnode(CONTROLLER_EPOCH_PATH, epoch_zk_version), write))


def unfenced(write: ZnodeWrite) -> tuple[CreateZnode | SetZnode | DeleteZnode, ...]:
    """Return what a write changes, without the transaction and its checks.

    >>> unfenced(fenced(DeleteZnode("/admin/delete_topics/t"), epoch_zk_version=3))
    (DeleteZnode(path='/admin/delete_topics/t', expected_version=-1),)
    """
    if isinstance(write, Multi):
        return tuple(part for part in write.writes if not isinstance(part, CheckZnode))
    return (write,)
