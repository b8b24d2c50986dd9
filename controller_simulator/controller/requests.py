"""What a controller sends to brokers: LeaderAndIsr, UpdateMetadata and StopReplica requests.

The rule: a request is data, with the fields that decide what a broker does with it, in Kafka's
words. Source (Kafka 3.9): the schemas of LeaderAndIsrRequest, UpdateMetadataRequest and
StopReplicaRequest, newest versions.
"""

from __future__ import annotations

import msgspec

from controller_model.kafka.ids import TopicPartition

ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The topic id of a topic without one, in Kafka's base64 (org.apache.kafka.common.Uuid)."""


class LeaderAndIsrPartition(msgspec.Struct, frozen=True):
    """A partition in a LeaderAndIsr request (LeaderAndIsrPartitionState)."""

    partition: TopicPartition
    controller_epoch: int
    """Of the controller that decided this state."""
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    is_new: bool = False
    """The broker may make the replica in any log directory."""
    leader_recovery_state: int = 0


class StopReplicaPartition(msgspec.Struct, frozen=True):
    """A partition in a StopReplica request (StopReplicaPartitionState)."""

    partition: TopicPartition
    leader_epoch: int
    delete: bool
    """The broker is to delete the replica's log as well."""


class UpdateMetadataPartition(msgspec.Struct, frozen=True):
    """A partition in an UpdateMetadata request (UpdateMetadataPartitionState)."""

    partition: TopicPartition
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


class LeaderAndIsrRequest(msgspec.Struct, frozen=True, tag=True, tag_field="request"):
    """Become leader or follower of these partitions."""

    broker: int
    broker_epoch: int
    controller_id: int
    controller_epoch: int
    partitions: tuple[LeaderAndIsrPartition, ...]
    topic_ids: dict[str, str]
    live_leaders: tuple[int, ...]
    """Leaders of these partitions that are registered."""
    type: str = "UNKNOWN"
    """LeaderAndIsrRequest.Type: controllers of ZooKeeper clusters send no other."""


class UpdateMetadataRequest(msgspec.Struct, frozen=True, tag=True, tag_field="request"):
    """Serve this metadata of these partitions to clients, and that these brokers live."""

    broker: int
    broker_epoch: int
    controller_id: int
    controller_epoch: int
    partitions: tuple[UpdateMetadataPartition, ...]
    topic_ids: dict[str, str]
    live_brokers: tuple[int, ...]


class StopReplicaRequest(msgspec.Struct, frozen=True, tag=True, tag_field="request"):
    """Stop these replicas, and delete those that say so."""

    broker: int
    broker_epoch: int
    controller_id: int
    controller_epoch: int
    partitions: tuple[StopReplicaPartition, ...]


Request = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
