"""Defines what operators do to a cluster, and what happens to it, as records: scripts that can be repeated.

An operation says what is asked for, never what results from it. So one script can run on
the simulator and on real servers, and the results can be compared.
"""

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
    """A broker dies at once (kill -9); its session ends later, when it expires."""

    broker: int


class DeleteTopic(msgspec.Struct, frozen=True, tag=True):
    """A topic is to be deleted."""

    topic: str


class Reassign(msgspec.Struct, frozen=True, tag=True):
    """Partitions get other replicas, by the admin API; None cancels a reassignment in progress."""

    targets: tuple[tuple[TopicPartition, Replicas | None], ...]


class ElectPreferred(msgspec.Struct, frozen=True, tag=True):
    """Preferred replicas are elected, by the admin API; empty for all partitions."""

    partitions: tuple[TopicPartition, ...] = ()


class ElectUnclean(msgspec.Struct, frozen=True, tag=True):
    """Partitions without a leader get any live replica, by the admin API."""

    partitions: tuple[TopicPartition, ...] = ()


class DeleteController(msgspec.Struct, frozen=True, tag=True):
    """An operator deletes /controller."""


Operation = (
    StartBroker
    | StopBroker
    | KillBroker
    | DeleteTopic
    | Reassign
    | ElectPreferred
    | ElectUnclean
    | DeleteController
)
