"""Decides what the simulated controller does about topics that are created, extended and deleted.

As in `active_controller`: decide by the state machines, write nothing here. Sources
(Kafka 3.9): kafka.controller.KafkaController: processTopicChange, onNewPartitionCreation,
processPartitionModifications, processTopicDeletion.
"""

from collections.abc import Mapping, Sequence

from controller_model.kafka.elections import Strategy
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_simulator.cluster.active_controller import ActiveController
from controller_simulator.controller.controller_io import partitions_path


def on_topic_change(controller: ActiveController) -> None:
    """Handle topics that were created and deleted (processTopicChange)."""
    context = controller.context
    now = dict.fromkeys(controller.reader.topics())
    new = [topic for topic in now if topic not in context.topics]
    gone = [topic for topic in context.topics if topic not in now]
    context.topics = now
    for topic in gone:
        context.remove_topic(topic)
    _on_new_partitions(controller, [p for topic in new for p in controller.read_assignment(topic)])


def on_partition_modifications(controller: ActiveController, topic: str) -> None:
    """Handle partitions that were added to a topic (processPartitionModifications)."""
    context = controller.context
    assignments, _ = controller.reader.topic(topic)
    new = {
        p: a for p, a in assignments.items() if not context.replicas_of(TopicPartition(topic, p))
    }
    if controller.context.is_queued_for_deletion(topic):
        if new:
            _restore(controller, topic, assignments)
        return
    for partition, assignment in new.items():
        context.assign(TopicPartition(topic, partition), assignment)
    _on_new_partitions(controller, [TopicPartition(topic, partition) for partition in new])


def _restore(
    controller: ActiveController, topic: str, assignments: Mapping[int, ReplicaAssignment]
) -> None:
    """Undo the addition of partitions to a topic that is being deleted."""
    there = set(controller.reader.children(partitions_path(topic)))
    controller.io.set_topic_assignment(
        topic,
        {
            partition: controller.context.assignment_of(TopicPartition(topic, partition))
            for partition in assignments
            if str(partition) in there
        },
    )


def _on_new_partitions(controller: ActiveController, partitions: Sequence[TopicPartition]) -> None:
    # onNewPartitionCreation
    replicas = controller.context.replicas_of_partitions(partitions)
    controller.partitions.handle_state_changes(partitions, PartitionState.NEW)
    controller.replicas.handle_state_changes(replicas, ReplicaState.NEW)
    controller.partitions.handle_state_changes(partitions, PartitionState.ONLINE, Strategy.OFFLINE)
    controller.replicas.handle_state_changes(replicas, ReplicaState.ONLINE)


def on_topic_deletion(controller: ActiveController) -> None:
    """Queue topics for deletion, and forget requests for unknown ones (processTopicDeletion)."""
    context = controller.context
    asked = controller.reader.children("/admin/delete_topics")
    controller.deletion.delete_requests(topic for topic in asked if topic not in context.topics)
    known = [topic for topic in asked if topic in context.topics]
    if not controller.settings.delete_topic:
        controller.deletion.delete_requests(known)
        return
    moving = {partition.topic for partition in context.being_reassigned}
    controller.deletion.mark_ineligible(topic for topic in known if topic in moving)
    if known:
        controller.deletion.enqueue(known)
