"""Operations that only scripts run, in addition to those that can be rehearsed: on the simulator and on real servers.

The rule is that of `controller_simulator.cluster.operations`: an operation says what is requested,
never what results.
"""

from __future__ import annotations

import msgspec

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.operations import Operation, Replicas


class BounceBroker(msgspec.Struct, frozen=True, tag=True):
    """A broker dies and is restarted as soon as its session has ended."""

    broker: int


class StallBroker(msgspec.Struct, frozen=True, tag=True):
    """A broker is paused for longer than replica.lag.time.max.ms but not its session; it is resumed.

    `topics` are written to meanwhile: without writes a paused follower stays in the ISR.
    """

    broker: int
    topics: tuple[str, ...]


class ExpireSession(msgspec.Struct, frozen=True, tag=True):
    """A broker is paused for longer than its session, and resumed; None for the controller."""

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


class AlterTopicConfig(msgspec.Struct, frozen=True, tag=True):
    """Settings of a topic are set; the others stay."""

    topic: str
    config: dict[str, str]


class ElectPreferredByZnode(msgspec.Struct, frozen=True, tag=True):
    """A preferred election by the znode of the legacy tool."""

    partitions: tuple[TopicPartition, ...]


class ReassignByZnode(msgspec.Struct, frozen=True, tag=True):
    """A reassignment by the znode of the legacy tool."""

    targets: tuple[tuple[TopicPartition, Replicas], ...]


class FailLogDir(msgspec.Struct, frozen=True, tag=True):
    """A broker loses the log directory that holds its replicas of these partitions."""

    broker: int
    partitions: tuple[TopicPartition, ...]


ScriptedOperation = (
    Operation
    | BounceBroker
    | StallBroker
    | ExpireSession
    | CreateTopic
    | CreatePartitions
    | AlterTopicConfig
    | ElectPreferredByZnode
    | ReassignByZnode
    | FailLogDir
)
