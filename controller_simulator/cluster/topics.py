"""What the simulated controller does about topics that come, grow, and are to go.

The rule: as in `active_controller`: decide by the state machines, write nothing here. Sources
(Kafka 3.9): kafka.controller.KafkaController: processTopicChange, onNewPartitionCreation,
processPartitionModifications, processTopicDeletion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller_model.kafka.elections import Strategy
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_simulator.cluster.active_controller import ActiveController
from controller_simulator.cluster.settings import SimulatorSettings
from controller_simulator.controller.controller_io import partitions_path


class TopicHandlers:
    """Handles the events of topics for a controller."""

    def __init__(self, controller: ActiveController, settings: SimulatorSettings) -> None:
        """Handle events for this controller."""
        self.controller = controller
        self._context = controller.context
        self._settings = settings

    def on_topic_change(self) -> None:
        """Take in topics that came and went (processTopicChange)."""
        context = self._context
        now = dict.fromkeys(self.controller.reader.topics())
        new = [topic for topic in now if topic not in context.topics]
        gone = [topic for topic in context.topics if topic not in now]
        context.topics = now
        for topic in gone:
            context.remove_topic(topic)
        self._on_new_partitions(
            [p for topic in new for p in self.controller.read_assignment(topic)]
        )

    def on_partition_modifications(self, topic: str) -> None:
        """Take in partitions that were added to a topic (processPartitionModifications)."""
        context = self._context
        assignments, _ = self.controller.reader.topic(topic)
        new = {
            p: a
            for p, a in assignments.items()
            if not context.replicas_of(TopicPartition(topic, p))
        }
        if self.controller.deletion.is_queued(topic):
            if new:
                self._restore(topic, assignments)
            return
        for partition, assignment in new.items():
            context.assign(TopicPartition(topic, partition), assignment)
        self._on_new_partitions([TopicPartition(topic, partition) for partition in new])

    def _restore(self, topic: str, assignments: Mapping[int, ReplicaAssignment]) -> None:
        """Take back partitions that were added to a topic that is deleted."""
        there = set(self.controller.reader.children(partitions_path(topic)))
        self.controller.io.set_topic_assignment(
            topic,
            {
                partition: self._context.assignment_of(TopicPartition(topic, partition))
                for partition in assignments
                if str(partition) in there
            },
        )

    def _on_new_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        # onNewPartitionCreation
        replicas = self._context.replicas_of_partitions(partitions)
        self.controller.partitions.handle_state_changes(partitions, PartitionState.NEW)
        self.controller.replicas.handle_state_changes(replicas, ReplicaState.NEW)
        self.controller.partitions.handle_state_changes(
            partitions, PartitionState.ONLINE, Strategy.OFFLINE
        )
        self.controller.replicas.handle_state_changes(replicas, ReplicaState.ONLINE)

    def on_topic_deletion(self) -> None:
        """Queue topics for deletion, and forget requests for unknown ones (processTopicDeletion)."""
        context = self._context
        asked = self.controller.reader.children("/admin/delete_topics")
        self.controller.deletion.delete_requests(
            topic for topic in asked if topic not in context.topics
        )
        known = [topic for topic in asked if topic in context.topics]
        if not self._settings.delete_topic:
            self.controller.deletion.delete_requests(known)
            return
        moving = {partition.topic for partition in context.being_reassigned}
        self.controller.deletion.mark_ineligible(topic for topic in known if topic in moving)
        if known:
            self.controller.deletion.enqueue(known)
