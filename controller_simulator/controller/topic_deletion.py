"""Deletes a topic: replica by replica, as far as brokers are live, then its znodes.

A topic is queued, its partitions leave the partition state machine, and every live
replica is asked to stop and then to delete its log. Only when all replicas have answered that they
did are the znodes deleted, the queue's own last. A dead replica, a broker that answers with an
error, or a reassignment in progress makes the topic ineligible: it waits, and is tried again when
the broker is back or the reassignment is complete. Where delete.topic.enable is off, nothing is
ever queued. Source (Kafka 3.9): kafka.controller.TopicDeletionManager and ControllerDeletionClient.
"""

from collections.abc import Collection, Iterable, Iterator

from controller_model.kafka.hash_order import topic_order
from controller_model.kafka.ids import PartitionAndReplica
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_simulator.controller.controller_io import (
    AbortedEventError,
    ControllerIO,
    topic_path,
)
from controller_simulator.controller.partition_machine import PartitionStateMachine
from controller_simulator.controller.replica_machine import ReplicaStateMachine
from controller_simulator.zookeeper.transactions import DeleteZnode


class TopicDeletionManager:
    """Carries out the deletion of topics; see the module."""

    def __init__(
        self,
        io: ControllerIO,
        replicas: ReplicaStateMachine,
        partitions: PartitionStateMachine,
        *,
        delete_topic_enable: bool = True,
    ) -> None:
        self._io = io
        self._context = io.context
        self._replicas = replicas
        self._partitions = partitions
        self._enabled = delete_topic_enable

    def init(self, to_be_deleted: Iterable[str], ineligible: Iterable[str]) -> None:
        """Continue the deletions that an earlier controller left (init).

        Where delete.topic.enable is off, the requests are deleted instead.
        """
        if not self._enabled:
            self.delete_requests(to_be_deleted)
            return
        self._queue(to_be_deleted)
        self.mark_ineligible(ineligible)

    def enqueue(self, topics: Iterable[str]) -> None:
        """Queue topics for deletion, and begin (enqueueTopicsForDeletion)."""
        if self._enabled:
            self._queue(topics)
            self.try_topic_deletion()

    def resume_for(self, topics: Iterable[str]) -> None:
        """Try ineligible topics again (resumeDeletionForTopics)."""
        resumed = self._queued_of(topics)
        if resumed:
            self._context.topics_ineligible_for_deletion.difference_update(resumed)
            self.try_topic_deletion()

    def mark_ineligible(self, topics: Iterable[str]) -> None:
        """Halt the deletion of topics (markTopicIneligibleForDeletion); topics that are not queued are ignored."""
        self._context.topics_ineligible_for_deletion.update(self._queued_of(topics))

    def fail_replicas(self, replicas: Iterable[PartitionAndReplica]) -> None:
        """Note that replicas could not be deleted (failReplicaDeletion)."""
        failed = [r for r in replicas if self._context.is_queued_for_deletion(r.topic)]
        if failed:
            self._replicas.handle_state_changes(failed, ReplicaState.DELETION_INELIGIBLE)
            self.mark_ineligible(replica.topic for replica in failed)
            self.try_topic_deletion()

    def complete_replicas(self, replicas: Iterable[PartitionAndReplica]) -> None:
        """Note that replicas were deleted (completeReplicaDeletion)."""
        deleted = [r for r in replicas if self._context.is_queued_for_deletion(r.topic)]
        self._replicas.handle_state_changes(deleted, ReplicaState.DELETION_SUCCESSFUL)
        self.try_topic_deletion()

    def delete_requests(self, topics: Iterable[str]) -> None:
        """Ask for the removal of these topics from /admin/delete_topics (deleteTopicDeletions)."""
        for topic in topics:
            self._io.write(DeleteZnode(f"/admin/delete_topics/{topic}"))

    # --- the work ---------------------------------------------------------------------------

    def _queue(self, topics: Iterable[str]) -> None:
        self._context.topics_to_be_deleted.update(dict.fromkeys(topics))

    def _queued_of(self, topics: Iterable[str]) -> list[str]:
        return [t for t in dict.fromkeys(topics) if self._context.is_queued_for_deletion(t)]

    def try_topic_deletion(self) -> None:
        """Finish, retry and begin deletions where possible (tryTopicDeletion, resumeDeletions)."""
        context = self._context
        again, eligible = [], []
        for topic in topic_order(context.topics_to_be_deleted):
            if all(state is ReplicaState.DELETION_SUCCESSFUL for _, state in self._states(topic)):
                self._complete(topic)
            elif not self._has(topic, ReplicaState.DELETION_STARTED) and self._has(
                topic, ReplicaState.DELETION_INELIGIBLE
            ):
                again.append(topic)
            if self._is_eligible(topic):
                eligible.append(topic)
        self._replicas.handle_state_changes(
            [
                replica
                for topic in again
                for replica in self._in(topic, ReplicaState.DELETION_INELIGIBLE)
            ],
            ReplicaState.OFFLINE,
        )
        if eligible:
            self._begin(eligible)

    def _is_eligible(self, topic: str) -> bool:
        # isTopicEligibleForDeletion
        return (
            self._context.is_queued_for_deletion(topic)
            and not self._has(topic, ReplicaState.DELETION_STARTED)
            and topic not in self._context.topics_ineligible_for_deletion
        )

    def _has(self, topic: str, state: ReplicaState) -> bool:
        return any(found is state for _, found in self._states(topic))

    def _in(self, topic: str, state: ReplicaState) -> list[PartitionAndReplica]:
        return [replica for replica, found in self._states(topic) if found is state]

    def _states(self, topic: str) -> Iterator[tuple[PartitionAndReplica, ReplicaState]]:
        """Yield a topic's replicas and their states, one by one.

        A replica without a state, of a reassignment that was aborted before it began, aborts this
        event, and every later one until the broker or the controller starts again:
        ControllerContext.replicaState throws NoSuchElementException.
        """
        for replica in self._context.replicas_of_topic(topic):
            state = self._context.replica_states.get(replica)
            if state is None:
                raise AbortedEventError(f"no state is known of replica {replica}")
            yield replica, state

    def _begin(self, topics: Collection[str]) -> None:
        """Take topics out of service, and have their replicas deleted (onTopicDeletion)."""
        context = self._context
        started = context.topics_with_deletion_started
        unseen = [topic for topic in topics if topic not in started]
        partitions = [p for topic in unseen for p in context.partitions_of(topic)]
        self._partitions.handle_state_changes(partitions, PartitionState.OFFLINE)
        self._partitions.handle_state_changes(partitions, PartitionState.NON_EXISTENT)
        started.update(unseen)
        self._io.send_update_metadata([p for t in topics for p in context.partitions_of(t)])
        self._delete_replicas(topics)

    def _delete_replicas(self, topics: Iterable[str]) -> None:
        """Stop and delete live replicas; dead ones make their topic ineligible.

        onPartitionDeletion.
        """
        context = self._context
        dead: list[PartitionAndReplica] = []
        alive: list[PartitionAndReplica] = []
        for topic in topics:
            for replica, state in self._states(topic):
                if not context.is_replica_online(replica.replica, replica.topic_partition):
                    dead.append(replica)
                elif state is not ReplicaState.DELETION_SUCCESSFUL:
                    alive.append(replica)
        self._replicas.handle_state_changes(dead, ReplicaState.DELETION_INELIGIBLE)
        self._replicas.handle_state_changes(alive, ReplicaState.OFFLINE)
        self._replicas.handle_state_changes(alive, ReplicaState.DELETION_STARTED)
        self.mark_ineligible(replica.topic for replica in dead)

    def _complete(self, topic: str) -> None:
        """Delete what ZooKeeper and the controller hold of a topic (completeDeleteTopic)."""
        context, io = self._context, self._io
        gone = self._in(topic, ReplicaState.DELETION_SUCCESSFUL)
        self._replicas.handle_state_changes(gone, ReplicaState.NON_EXISTENT)
        io.delete_recursive(topic_path(topic))
        io.write(DeleteZnode(f"/config/topics/{topic}"))
        self.delete_requests((topic,))
        context.remove_topic(topic)
