"""Defines the settings of simulated brokers, and the choices that real ones make by a race or at random.

Nothing is guessed and nothing is random. Results of races and random draws come from
`Choices`, so a caller may use a seed, Hypothesis, or what a real cluster did.
"""

from collections.abc import Collection

import msgspec

from controller_model.kafka.ids import TopicPartition


class SimulatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the brokers, the same for all, under the names of server.properties."""

    alter_partition: bool = True
    """inter.broker.protocol.version is 2.7 or newer: leaders ask the controller for their ISR."""
    leader_recovery_supported: bool = True
    """inter.broker.protocol.version is 3.2 or newer: states record unclean elections."""
    topic_ids: bool = True
    """inter.broker.protocol.version is 2.8 or newer: topics have ids."""
    auto_leader_rebalance: bool = False
    leader_imbalance_per_broker_percentage: int = 10
    delete_topic: bool = True
    unclean_leader_election: bool = False
    controlled_shutdown: bool = True
    features_version: int = 2
    """The layout of /feature: 1 below inter.broker.protocol 3.3."""
    kraft_controller_epoch: bool = True
    """Kafka is 3.4 or newer: /controller has a field for the epoch of a KRaft controller (KIP-866)."""


class Choices:
    """Who wins each race, and which ids are drawn; a caller overrides what it wants to decide.

    By default the lowest broker wins /controller, followers are fast and catch up in order, and ids
    are counted.
    """

    _made = 0

    def first(self, candidates: tuple[int, ...]) -> int:
        """Return which of these brokers is the first to take /controller."""
        return min(candidates)

    def falls_behind(self) -> tuple[TopicPartition, tuple[int, ...]] | None:
        """Return followers that the leader of a partition drops now because they are slow; None for none."""
        return None

    def taken_back(self, stopping: int) -> TopicPartition | None:  # noqa: ARG002 - others may decide by broker
        """Return a partition whose leader takes this stopping follower back; None for none.

        Its fetch was in progress when the leader epoch changed.
        """
        return None

    def catches_up(self, partitions: Collection[TopicPartition]) -> TopicPartition:
        """Return in which of these partitions a follower is the next to catch up.

        The partitions are in the order in which they changed.
        """
        return next(iter(partitions))

    def keeps_up(self, partition: TopicPartition, follower: int) -> bool:  # noqa: ARG002 - others may decide by either
        """Return whether this follower, which is out of the ISR, can catch up with its leader."""
        return True

    def joins(
        self,
        partition: TopicPartition,  # noqa: ARG002 - others may decide by partition
        isr: tuple[int, ...],  # noqa: ARG002 - and by who is in sync already
        candidates: tuple[int, ...],
    ) -> int:
        """Return which of these followers, in the assignment's order, is the first to join the ISR."""
        return candidates[0]

    def topic_id(self, topic: str) -> str:  # noqa: ARG002 - others may derive it from the name
        """Return the id of a new topic, in Kafka's base64: 22 characters."""
        self._made += 1
        return f"{self._made:021d}A"

    def cluster_id(self) -> str:
        """Return the id of a new cluster."""
        return "simulated-cluster-id-0"
