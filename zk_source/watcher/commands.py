"""What the watcher decides to have done: values that the service carries out.

The rule: a decision is data. Nothing here acts, so the decisions can be driven and checked without
ZooKeeper, Kafka or a clock. A `ZnodeChange` is the command to publish it.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from controller_model.records.changes import ZnodeChange
from zk_source.wire.protocol import Request


class Send(NamedTuple):
    """Send a request; its paths are without the chroot. The reply comes back with the token."""

    token: int
    request: Request


class ReplaceClient(NamedTuple):
    """Give up the ZooKeeper client and its session, and make a new one."""

    reason: str


class NoBrokers(NamedTuple):
    """There is no /brokers under the chroot; `root` is what is there, None if the chroot is not."""

    root: tuple[str, ...] | None


class Trouble(enum.Enum):
    """Why the watcher cannot go on at all."""

    OTHER_WATCHER = "other watcher"
    OLD_SERVER = "old server"


class GiveUp(NamedTuple):
    """End with one line for the user."""

    trouble: Trouble
    message: str


class Tell(NamedTuple):
    """Write a warning."""

    text: str
    about: dict[str, str | int]


Command = ZnodeChange | Send | ReplaceClient | NoBrokers | GiveUp | Tell
