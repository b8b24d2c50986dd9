"""What operators do to a cluster and what befalls it, as records: a script to play more than once.

The rule: an operation says what is asked for, never what comes of it, so that one script can be
played on the simulator and on real servers and the outcomes be compared.
"""

from __future__ import annotations

import msgspec

from controller_model.kafka.ids import TopicPartition

Replicas = tuple[int, ...]


class StartBroker(msgspec.Struct, frozen=True, tag=True):
    """A broker starts, for the first time or again."""

    broker: int


class StopBroker(msgspec.Struct, frozen=True, tag=True):
    """A broker is asked to stop: a controlled shutdown."""

    broker: int


class KillBroker(msgspec.Struct, frozen=True, tag=True):
    """A broker dies at once (kill -9); its session ends when ZooKeeper misses it."""

    broker: int


class BounceBroker(msgspec.Struct, frozen=True, tag=True):
    """A broker dies and is back as soon as its session has ended."""

    broker: int


class StallBroker(msgspec.Struct, frozen=True, tag=True):
    """A broker freezes for longer than replica.lag.time.max.ms, not than its session; it wakes.

    `topics` are written to meanwhile: without writes a follower that stalls stays in the ISR.
    """

    broker: int
    topics: tuple[str, ...]


class ExpireSession(msgspec.Struct, frozen=True, tag=True):
    """A broker freezes for longer than its session, and wakes; None for the controller."""

    broker: int | None


class CreateTopic(msgspec.Struct, frozen=True, tag=True):
    """A topic with these replicas, partition 0 first."""

    topic: str
    assignment: tuple[Replicas, ...]
    config: dict[str, str] = {}


class CreatePartitions(msgspec.Struct, frozen=True, tag=True):
    """More partitions for a topic, with these replicas."""

    topic: str
    assignment: tuple[Replicas, ...]


class DeleteTopic(msgspec.Struct, frozen=True, tag=True):
    """A topic is to be deleted."""

    topic: str


class AlterTopicConfig(msgspec.Struct, frozen=True, tag=True):
    """Settings of a topic are set; the others stay."""

    topic: str
    config: dict[str, str]


class Reassign(msgspec.Struct, frozen=True, tag=True):
    """Partitions get other replicas, by the admin API; None cancels what is under way."""

    targets: tuple[tuple[TopicPartition, Replicas | None], ...]


class ElectPreferred(msgspec.Struct, frozen=True, tag=True):
    """Preferred replicas are to lead, by the admin API; empty for all partitions."""

    partitions: tuple[TopicPartition, ...] = ()


class ElectUnclean(msgspec.Struct, frozen=True, tag=True):
    """Partitions without a leader get any live replica, by the admin API."""

    partitions: tuple[TopicPartition, ...] = ()


class ElectPreferredByZnode(msgspec.Struct, frozen=True, tag=True):
    """The same, by the znode of the legacy tool."""

    partitions: tuple[TopicPartition, ...]


class ReassignByZnode(msgspec.Struct, frozen=True, tag=True):
    """A reassignment by the znode of the legacy tool."""

    targets: tuple[tuple[TopicPartition, Replicas], ...]


class DeleteController(msgspec.Struct, frozen=True, tag=True):
    """An operator deletes /controller."""


class FailLogDir(msgspec.Struct, frozen=True, tag=True):
    """A broker loses the log directory that holds its replicas of these partitions."""

    broker: int
    partitions: tuple[TopicPartition, ...]


Operation = (
    StartBroker
    | StopBroker
    | KillBroker
    | BounceBroker
    | StallBroker
    | ExpireSession
    | CreateTopic
    | CreatePartitions
    | DeleteTopic
    | AlterTopicConfig
    | Reassign
    | ElectPreferred
    | ElectUnclean
    | ElectPreferredByZnode
    | ReassignByZnode
    | DeleteController
    | FailLogDir
)
