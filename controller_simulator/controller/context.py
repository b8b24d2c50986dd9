"""Holds a controller's memory: brokers, assignments, leaders, states, deletions, reassignments.

The rule: this is the controller's memory and no more, so it may lag behind ZooKeeper, and a machine
reads ZooKeeper before it writes there. Callers change it through the machines. Everything that is
iterated over keeps its order of insertion, so that the same sequence of events gives the same
writes on every machine. Source (Kafka 3.9): kafka.controller.ControllerContext.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.ids import PartitionAndReplica, TopicPartition, new_tuple
from controller_model.kafka.replica_assignment import EMPTY_ASSIGNMENT, ReplicaAssignment
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_simulator.controller.requests import EPOCH_DURING_DELETE, NO_EPOCH

_UNKNOWN_TOPIC: dict[int, ReplicaAssignment] = {}

INITIAL_CONTROLLER_EPOCH = 0
"""KafkaController.InitialControllerEpoch: the epoch of a broker that was never elected."""


class LeaderIsrAndControllerEpoch(msgspec.Struct, frozen=True, gc=False):
    """A partition's state znode: what was decided, by which controller, in which version."""

    leader_and_isr: LeaderAndIsr
    controller_epoch: int
    partition_epoch: int = 0
    """The version of the znode (LeaderAndIsr.partitionEpoch)."""


@dataclass(slots=True)
class ControllerContext:
    """The controller's memory; a fresh one is what a broker has before it is elected.

    Sets whose order matters are dictionaries without values.
    """

    controller_id: int = -1
    epoch: int = INITIAL_CONTROLLER_EPOCH
    epoch_zk_version: int = 0
    """The version of /controller_epoch that this controller wrote, which fences every write."""
    live_broker_epochs: dict[int, int] = field(default_factory=dict)
    """Registered brokers, including those that are shutting down, with their broker epochs."""
    shutting_down: set[int] = field(default_factory=set)
    topics: dict[str, None] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    assignments: dict[str, dict[int, ReplicaAssignment]] = field(default_factory=dict)
    leadership: dict[TopicPartition, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    being_reassigned: dict[TopicPartition, None] = field(default_factory=dict)
    partition_states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    replica_states: dict[PartitionAndReplica, ReplicaState] = field(default_factory=dict)
    replicas_on_offline_dirs: dict[int, set[TopicPartition]] = field(default_factory=dict)
    """By broker, the partitions that it holds in a failed log directory."""
    topics_to_be_deleted: dict[str, None] = field(default_factory=dict)
    topics_with_deletion_started: set[str] = field(default_factory=set)
    topics_ineligible_for_deletion: set[str] = field(default_factory=set)

    # --- brokers ----------------------------------------------------------------------------

    @property
    def live_brokers(self) -> tuple[int, ...]:
        """Registered brokers that are not shutting down (liveBrokerIds)."""
        return tuple(
            broker for broker in self.live_broker_epochs if broker not in self.shutting_down
        )

    @property
    def live_or_shutting_down_brokers(self) -> tuple[int, ...]:
        """All registered brokers (liveOrShuttingDownBrokerIds)."""
        return tuple(self.live_broker_epochs)

    def is_replica_online(
        self, broker: int, partition: TopicPartition, *, include_shutting_down: bool = False
    ) -> bool:
        """Return whether a broker can serve this partition (isReplicaOnline)."""
        if broker not in self.live_broker_epochs:
            return False
        if broker in self.shutting_down and not include_shutting_down:
            return False
        return partition not in self.replicas_on_offline_dirs.get(broker, ())

    # --- assignments ------------------------------------------------------------------------

    def assignment_of(self, partition: TopicPartition) -> ReplicaAssignment:
        """Return a partition's assignment (partitionFullReplicaAssignment); empty if unknown."""
        topic, number = partition
        return self.assignments.get(topic, _UNKNOWN_TOPIC).get(number, EMPTY_ASSIGNMENT)

    def replicas_of(self, partition: TopicPartition) -> tuple[int, ...]:
        """Return a partition's replicas (partitionReplicaAssignment); empty if unknown."""
        return self.assignment_of(partition).replicas

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Remember an assignment (updatePartitionFullReplicaAssignment)."""
        self.assignments.setdefault(partition.topic, {})[partition.partition] = assignment

    def all_partitions(self) -> Iterator[TopicPartition]:
        """Return every assigned partition (allPartitions)."""
        for topic in self.assignments:
            yield from self.partitions_of(topic)

    def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return a topic's partitions (partitionsForTopic); none if it is unknown."""
        return tuple(
            [new_tuple(TopicPartition, (topic, p)) for p in self.assignments.get(topic, ())]
        )

    def replicas_of_topic(self, topic: str) -> tuple[PartitionAndReplica, ...]:
        """Return all replicas of a topic (replicasForTopic)."""
        return self.replicas_of_partitions(self.partitions_of(topic))

    def replicas_of_partitions(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[PartitionAndReplica, ...]:
        """Return all replicas of these partitions (replicasForPartition)."""
        return tuple(
            new_tuple(PartitionAndReplica, (*partition, replica))
            for partition in partitions
            for replica in self.replicas_of(partition)
        )

    def replicas_on(self, brokers: Collection[int]) -> tuple[PartitionAndReplica, ...]:
        """Return the replicas that these brokers are assigned (replicasOnBrokers)."""
        return tuple(
            new_tuple(PartitionAndReplica, (topic, partition, broker))
            for topic, assignments in self.assignments.items()
            for partition, assignment in assignments.items()
            for broker in assignment.replicas
            if broker in brokers
        )

    # --- leaders ----------------------------------------------------------------------------

    def partitions_with_leaders(self) -> tuple[TopicPartition, ...]:
        """Return partitions that have a state, without those of topics to be deleted (partitionsWithLeaders)."""
        return tuple(p for p in self.leadership if not self.is_queued_for_deletion(p.topic))

    def partitions_with_offline_leader(self) -> tuple[TopicPartition, ...]:
        """Return partitions whose leader is not online (partitionsWithOfflineLeader)."""
        return tuple(
            partition
            for partition, state in self.leadership.items()
            if not self.is_replica_online(state.leader_and_isr.leader, partition)
            and not self.is_queued_for_deletion(partition.topic)
        )

    def partition_leaders_on(self, broker: int) -> tuple[TopicPartition, ...]:
        """Return partitions that a broker still leads and another could lead (partitionLeadersOnBroker)."""
        return tuple(
            partition
            for partition, state in self.leadership.items()
            if state.leader_and_isr.leader == broker
            and not self.is_queued_for_deletion(partition.topic)
            and len(self.replicas_of(partition)) > 1
        )

    def leader_epoch_for_stop(self, partition: TopicPartition) -> int:
        """Return the leader epoch that StopReplica requests carry (leaderEpoch)."""
        if self.is_queued_for_deletion(partition.topic):
            return EPOCH_DURING_DELETE
        state = self.leadership.get(partition)
        return NO_EPOCH if state is None else state.leader_and_isr.leader_epoch

    # --- deletion ---------------------------------------------------------------------------

    def is_queued_for_deletion(self, topic: str) -> bool:
        """Return whether the topic is queued for deletion (isTopicQueuedUpForDeletion)."""
        return topic in self.topics_to_be_deleted

    def remove_topic(self, topic: str) -> None:
        """Forget a topic (removeTopic).

        As in Kafka, the states of its partitions are kept, and that the topic was ineligible.
        """
        self.topics_to_be_deleted.pop(topic, None)
        self.topics_with_deletion_started.discard(topic)
        self.topics.pop(topic, None)
        self.topic_ids.pop(topic, None)
        for partition in self.assignments.pop(topic, {}):
            self.leadership.pop(TopicPartition(topic, partition), None)
