"""Defines what a controller sends to brokers: LeaderAndIsr, UpdateMetadata and StopReplica requests.

A request is data, with the fields that decide what a broker does with it, under Kafka's
names. Source (Kafka 3.9): the schemas of LeaderAndIsrRequest, UpdateMetadataRequest and
StopReplicaRequest, newest versions.
"""

import msgspec

from controller_model.kafka.ids import TopicPartition

ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of a topic without one, in Kafka's base64 (org.apache.kafka.common.Uuid)."""

NO_EPOCH = -1
"""The leader epoch of a partition that never had a leader (LeaderAndIsr.NoEpoch)."""

EPOCH_DURING_DELETE = -2
"""The leader epoch in requests for partitions that are deleted (LeaderAndIsr.EpochDuringDelete)."""


class DecidedPartition(msgspec.Struct, frozen=True, gc=False):
    """What a controller decided for a partition: the fields that two kinds of requests share."""

    partition: TopicPartition
    controller_epoch: int
    """The epoch of the controller that decided this state."""
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]


class LeaderAndIsrPartition(DecidedPartition, frozen=True, gc=False):
    """A partition in a LeaderAndIsr request (LeaderAndIsrPartitionState)."""

    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    is_new: bool = False
    """The broker may create the replica in any log directory."""
    leader_recovery_state: int = 0


class StopReplicaPartition(msgspec.Struct, frozen=True, gc=False):
    """A partition in a StopReplica request (StopReplicaPartitionState)."""

    partition: TopicPartition
    leader_epoch: int
    delete: bool
    """The broker is to delete the replica's log as well."""


class UpdateMetadataPartition(DecidedPartition, frozen=True, gc=False):
    """A partition in an UpdateMetadata request (UpdateMetadataPartitionState)."""

    offline_replicas: tuple[int, ...] = ()


class ControllerRequest(msgspec.Struct, frozen=True, tag=True, tag_field="request"):
    """The fields of all requests: the target broker's incarnation, and the controller."""

    broker: int
    broker_epoch: int
    controller_id: int
    controller_epoch: int


class LeaderAndIsrRequest(ControllerRequest, frozen=True):
    """Become leader or follower of these partitions."""

    partitions: tuple[LeaderAndIsrPartition, ...]
    topic_ids: dict[str, str]
    live_leaders: tuple[int, ...]
    """Registered brokers that lead any of these partitions."""
    type: str = "UNKNOWN"
    """LeaderAndIsrRequest.Type: controllers of ZooKeeper clusters send no other type."""


class UpdateMetadataRequest(ControllerRequest, frozen=True):
    """Serve this metadata of these partitions to clients, and the fact that these brokers live."""

    partitions: tuple[UpdateMetadataPartition, ...]
    topic_ids: dict[str, str]
    live_brokers: tuple[int, ...]


class StopReplicaRequest(ControllerRequest, frozen=True):
    """Stop these replicas, and delete those that are marked for deletion."""

    partitions: tuple[StopReplicaPartition, ...]


Request = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
