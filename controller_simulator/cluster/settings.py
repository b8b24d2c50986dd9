"""The settings of simulated brokers, and the choices that real ones make by a race or at random.

The rule: nothing is guessed and nothing is random. Races and random draws are asked of `Choices`, so
a caller may give a seed, Hypothesis, or what a real cluster did.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import msgspec

from controller_model.kafka.ids import TopicPartition


class SimulatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the brokers, all alike, in the words of server.properties."""

    alter_partition: bool = True
    """inter.broker.protocol.version is 2.7 or newer: leaders ask the controller for their ISR."""
    leader_recovery_supported: bool = True
    """It is 3.2 or newer: states record unclean elections."""
    topic_ids: bool = True
    """It is 2.8 or newer: topics have ids."""
    auto_leader_rebalance: bool = False
    leader_imbalance_per_broker_percentage: int = 10
    delete_topic: bool = True
    unclean_leader_election: bool = False
    controlled_shutdown: bool = True
    first_port: int = 9092
    """Of broker 0; the others follow."""
    features_version: int = 2
    """The layout of /feature: 1 below inter.broker.protocol 3.3."""


class Choices(Protocol):
    """Who wins each race, and which ids are drawn."""

    def first(self, candidates: tuple[int, ...]) -> int:
        """Return which of these brokers is the first to take /controller."""

    def falls_behind(self) -> tuple[TopicPartition, int] | None:
        """Return a follower that its leader drops now, for being slow; None for none."""

    def taken_back(self, stopping: int) -> TopicPartition | None:
        """Return a partition whose leader takes this stopping follower back; None for none."""

    def catches_up(self, partitions: Collection[TopicPartition]) -> TopicPartition:
        """Return in which of these partitions a follower is the next to catch up."""

    def joins(
        self, partition: TopicPartition, isr: tuple[int, ...], candidates: tuple[int, ...]
    ) -> int:
        """Return which of these followers is the first to catch up and join the ISR."""

    def topic_id(self, topic: str) -> str:
        """Return the id of a new topic, in Kafka's base64."""

    def cluster_id(self) -> str:
        """Return the id of a new cluster."""


class DefaultChoices:
    """The lowest broker wins /controller, replicas catch up in their order, ids are counted."""

    def __init__(self) -> None:
        """Count from nothing."""
        self._made = 0

    def first(self, candidates: tuple[int, ...]) -> int:
        """Return the lowest."""
        return min(candidates)

    def falls_behind(self) -> tuple[TopicPartition, int] | None:
        """Return None: followers are fast."""
        return None

    def taken_back(self, stopping: int) -> TopicPartition | None:  # noqa: ARG002 - others may decide by broker
        """Return None: no fetch is under way when the epoch changes."""
        return None

    def catches_up(self, partitions: Collection[TopicPartition]) -> TopicPartition:
        """Return the one that changed first."""
        return next(iter(partitions))

    def joins(
        self,
        partition: TopicPartition,  # noqa: ARG002 - others may decide by partition
        isr: tuple[int, ...],  # noqa: ARG002 - and by who is in sync already
        candidates: tuple[int, ...],
    ) -> int:
        """Return the first in the assignment's order."""
        return candidates[0]

    def topic_id(self, topic: str) -> str:  # noqa: ARG002 - others may derive it from the name
        """Return the next id: 22 characters, as Kafka's."""
        self._made += 1
        return f"{self._made:021d}A"

    def cluster_id(self) -> str:
        """Return the same for every cluster."""
        return "simulated-cluster-id-0"
