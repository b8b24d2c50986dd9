"""Defines the events of the simulated controller's event thread.

One queue, one event at a time, as in Kafka. An event says that something happened; what
is true is read when its turn comes. When a broker or an administrator asks the controller for
something, the event is the operation itself. Source (Kafka 3.9): kafka.controller.ControllerEvent
and the handlers at the end of KafkaController.scala.
"""

import enum

import msgspec

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.operations import (
    ElectPreferred,
    ElectUnclean,
    Reassign,
    StopBroker,
)
from controller_simulator.zookeeper.transactions import Changed, Committed, Created, Removed


class ControllerSignal(enum.StrEnum):
    """Events that watches cause and that carry no data."""

    BROKER_CHANGE = "BrokerChange"
    TOPIC_CHANGE = "TopicChange"
    TOPIC_DELETION = "TopicDeletion"
    ZK_REASSIGNMENT = "ZkPartitionReassignment"
    ZK_PREFERRED_ELECTION = "ReplicaLeaderElection by znode"
    ISR_CHANGE_NOTIFICATION = "IsrChangeNotification"
    LOG_DIR_EVENT = "LogDirEventNotification"
    AUTO_REBALANCE = "AutoPreferredReplicaLeaderElection"


class PartitionModifications(msgspec.Struct, frozen=True):
    """A topic's znode was set."""

    topic: str


class StateChange(msgspec.Struct, frozen=True):
    """A partition's state was set: watched for reassignments below inter.broker.protocol 2.7."""

    partition: TopicPartition


class TopicUncleanEnable(msgspec.Struct, frozen=True):
    """Unclean leader election was enabled for a topic."""

    topic: str


class AlterPartition(msgspec.Struct, frozen=True):
    """A leader asks for another ISR."""

    broker: int
    partition: TopicPartition
    leader_and_isr: LeaderAndIsr
    partition_epoch: int


class StopReplicaResponse(msgspec.Struct, frozen=True):
    """A broker answers whether it deleted replicas of topics that are being deleted."""

    broker: int
    partitions: tuple[TopicPartition, ...]
    failed: tuple[TopicPartition, ...] = ()


class LeaderAndIsrResponse(msgspec.Struct, frozen=True):
    """A broker answers which replicas it can serve, and which are in a failed log directory."""

    broker: int
    online: tuple[TopicPartition, ...]
    offline: tuple[TopicPartition, ...]


ControllerEvent = (
    ControllerSignal
    | PartitionModifications
    | StateChange
    | TopicUncleanEnable
    | StopBroker
    | Reassign
    | ElectPreferred
    | ElectUnclean
    | AlterPartition
    | StopReplicaResponse
    | LeaderAndIsrResponse
)

_CHILDREN = {
    "/brokers/ids": ControllerSignal.BROKER_CHANGE,
    "/brokers/topics": ControllerSignal.TOPIC_CHANGE,
    "/admin/delete_topics": ControllerSignal.TOPIC_DELETION,
    "/isr_change_notification": ControllerSignal.ISR_CHANGE_NOTIFICATION,
    "/log_dir_event_notification": ControllerSignal.LOG_DIR_EVENT,
}
_CREATED = {
    "/admin/reassign_partitions": ControllerSignal.ZK_REASSIGNMENT,
    "/admin/preferred_replica_election": ControllerSignal.ZK_PREFERRED_ELECTION,
}


def event_of(write: Committed) -> ControllerEvent | None:
    """Return the event that a controller's watches make of a write; None if no watch is set there.

    >>> event_of(Removed("/brokers/ids/3")).value
    'BrokerChange'
    """
    parent, _, name = write.path.rpartition("/")
    if isinstance(write, Created | Removed):
        signal = _CHILDREN.get(parent)
        if signal is not None:
            return signal
    if isinstance(write, Created):
        return _CREATED.get(write.path)
    if isinstance(write, Changed):
        if parent == "/brokers/topics":
            return PartitionModifications(name)
        if name == "state" and parent.startswith("/brokers/topics/"):
            parts = parent.split("/")
            return StateChange(TopicPartition(parts[3], int(parts[5])))
    return None
