"""Moves replicas: the phases of a reassignment, from the new assignment to the last write.

The rule: the topic's znode first names the target, with adding and removing replicas, so that a new
controller can continue; only the last write forgets the origin. A clean reassignment takes three
leader epochs: one when the new replicas are informed (A1), one for the new leader, or for the same
one with fewer replicas (B3), and one when the removed replicas leave the ISR (B4; one for each of
them). Source (Kafka 3.9): kafka.controller.KafkaController, onPartitionReassignment and what it
calls.
"""

from collections.abc import Callable, Mapping, Sequence

from controller_model.kafka.elections import Strategy
from controller_model.kafka.hash_order import partition_order
from controller_model.kafka.ids import PartitionAndReplica, TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment, diff
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_simulator.controller.controller_io import AbortedEventError, ControllerIO, name_of
from controller_simulator.controller.partition_machine import PartitionStateMachine
from controller_simulator.controller.replica_machine import ReplicaStateMachine
from controller_simulator.controller.topic_deletion import TopicDeletionManager

INVALID_REPLICA_ASSIGNMENT = "INVALID_REPLICA_ASSIGNMENT"
NO_REASSIGNMENT_IN_PROGRESS = "NO_REASSIGNMENT_IN_PROGRESS"
UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
"""Names of errors in org.apache.kafka.common.protocol.Errors."""


class Reassignments:
    """Carries out reassignments; see the module."""

    def __init__(
        self,
        io: ControllerIO,
        replicas: ReplicaStateMachine,
        partitions: PartitionStateMachine,
        deletion: TopicDeletionManager,
    ) -> None:
        self._io = io
        self._context = io.context
        self._replicas = replicas
        self._partitions = partitions
        self._deletion = deletion

    # --- requests ---------------------------------------------------------------------------

    def alter(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, str | None]:
        """Begin what the admin API asks for (processApiPartitionReassignment, maybeBuildReassignment).

        A target of None cancels. Return the error by partition, None where the reassignment was
        begun.
        """
        results: dict[TopicPartition, str | None] = {}
        accepted: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in targets.items():
            current = self._context.assignment_of(partition)
            if target is None and not current.is_being_reassigned:
                results[partition] = NO_REASSIGNMENT_IN_PROGRESS
            elif target is not None and not self.is_valid_target(partition, target):
                results[partition] = INVALID_REPLICA_ASSIGNMENT
            else:
                new = current.origin_replicas if target is None else target
                accepted[partition] = current.reassign_to(new)
        self._forget_requests(lambda partition, _: partition in accepted)
        return results | self._trigger(accepted)

    def process_znode(self) -> dict[TopicPartition, str | None]:
        """Begin what /admin/reassign_partitions asks for (processZkPartitionReassignment).

        Only the partition's existence is validated; a request that fails is removed from the znode.
        """
        asked = self._io.reassign_partitions()
        if asked is None:
            return {}
        results = self._trigger(
            {
                partition: self._context.assignment_of(partition).reassign_to(target)
                for partition, target in asked.items()
            }
        )
        failed = {partition for partition, error in results.items() if error is not None}
        if failed:
            self._forget_requests(lambda partition, _: partition in failed)
        return results

    def is_valid_target(self, partition: TopicPartition, target: Sequence[int]) -> bool:
        """Return whether a partition may get this target: not empty, no id twice or below 0, new ones live.

        validateReplicas.
        """
        if not target or len(set(target)) != len(target) or min(target) < 0:
            return False
        new = self._context.assignment_of(partition).reassign_to(target).adding
        return set(new) <= set(self._context.live_brokers)

    def _trigger(
        self, reassignments: Mapping[TopicPartition, ReplicaAssignment]
    ) -> dict[TopicPartition, str | None]:
        # maybeTriggerPartitionReassignment
        results: dict[TopicPartition, str | None] = {}
        for partition in partition_order(reassignments):
            assignment = reassignments[partition]
            is_going = self._context.is_queued_for_deletion(partition.topic)
            if is_going or not self._context.replicas_of(partition):
                results[partition] = UNKNOWN_TOPIC_OR_PARTITION
                continue
            try:
                self.on_partition_reassignment(partition, assignment)
                results[partition] = None
            except AbortedEventError:
                results[partition] = UNKNOWN_SERVER_ERROR
        return results

    # --- going on ---------------------------------------------------------------------------

    def resume(self, should_resume: Callable[[TopicPartition, ReplicaAssignment], bool]) -> None:
        """Continue the reassignments that the caller selects (maybeResumeReassignments).

        One that is aborted ends the whole event, as in Kafka. So their order matters, which is that
        of Kafka's hash set.
        """
        for partition in partition_order(self._context.being_reassigned):
            assignment = self._context.assignment_of(partition)
            if should_resume(partition, assignment):
                self.on_partition_reassignment(partition, assignment)

    def maybe_complete(self, partition: TopicPartition) -> None:
        """Finish a reassignment if its target is in sync (maybeCompleteReassignment).

        Called after each change of the ISR of a partition that is being reassigned.
        """
        assignment = self._context.assignment_of(partition)
        if partition in self._context.being_reassigned and self._is_complete(partition, assignment):
            self.on_partition_reassignment(partition, assignment)

    # --- the phases -------------------------------------------------------------------------

    def on_partition_reassignment(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> None:
        """Carry a partition's reassignment as far as possible now (onPartitionReassignment)."""
        context = self._context
        self._deletion.mark_ineligible((partition.topic,))
        self._update_current(partition, assignment)
        if not self._is_complete(partition, assignment):
            self._update_leader_epoch_and_send(partition)  # A1
            for replica in assignment.adding:  # A2
                self._replicas.handle_state_changes(
                    _replicas(partition, (replica,)), ReplicaState.NEW
                )
            return
        adding = _replicas(partition, assignment.adding)
        self._replicas.handle_state_changes(adding, ReplicaState.ONLINE)  # B1
        completed = ReplicaAssignment(assignment.target_replicas)
        context.assign(partition, completed)  # B2
        self._move_leader_if_required(partition, completed)  # B3
        self._stop_removed(partition, assignment.removing)  # B4, B5
        self._write_assignment(partition, completed)  # B6
        self._forget_requests(  # B7
            lambda other, replicas: other == partition and replicas == completed.replicas
        )
        context.being_reassigned.pop(partition)
        self._io.send_update_metadata((partition,))  # B8
        self._deletion.resume_for((partition.topic,))

    def _update_current(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Write the target of the reassignment, and stop replicas that are no longer needed.

        updateCurrentReassignment: a reassignment that replaces another stops the replicas that only
        the other one was adding.
        """
        context = self._context
        current = context.assignment_of(partition)
        if current != assignment:
            self._write_assignment(partition, assignment)  # U1
            context.assign(partition, assignment)  # U2
            self._stop_removed(partition, diff(current.replicas, assignment.replicas))  # U3
        context.being_reassigned[partition] = None

    def _is_complete(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        """Return whether all of the target is in sync (isReassignmentComplete)."""
        if not assignment.is_being_reassigned:
            return True
        state = self._io.partition_state(partition)
        return state is not None and set(assignment.target_replicas) <= set(
            state.leader_and_isr.isr
        )

    def _move_leader_if_required(
        self, partition: TopicPartition, completed: ReplicaAssignment
    ) -> None:
        # moveReassignedPartitionLeaderIfRequired
        context = self._context
        state = context.leadership.get(partition)
        if state is None:
            # Option.get: Kafka throws NoSuchElementException.
            raise AbortedEventError(f"No leader is known of {name_of(partition)}")
        leader = state.leader_and_isr.leader
        if leader in completed.replicas and context.is_replica_online(leader, partition):
            self._update_leader_epoch_and_send(partition)
        else:
            self._partitions.handle_state_changes(
                (partition,), PartitionState.ONLINE, Strategy.REASSIGN
            )

    def _stop_removed(self, partition: TopicPartition, removed: Sequence[int]) -> None:
        # stopRemovedReplicasOfReassignedPartition; the brokers' answers are not waited for.
        replicas = _replicas(partition, removed)
        for target in (
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            self._replicas.handle_state_changes(replicas, target)

    def _write_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        # updateReplicaAssignmentForPartition
        assignments = dict(self._context.assignments.get(partition.topic, {}))
        assignments[partition.partition] = assignment
        self._io.set_topic_assignment(partition.topic, assignments)

    def _update_leader_epoch_and_send(self, partition: TopicPartition) -> None:
        """Raise the leader epoch, so that the leader accepts the new replicas from the request.

        updateLeaderEpochAndSendRequest: the added replicas may use any log directory.
        """
        self._update_leader_epoch(partition)
        assignment = self._context.assignment_of(partition)
        batch = self._io.new_batch()
        batch.add_leader_and_isr(assignment.origin_replicas, partition)
        batch.add_leader_and_isr(assignment.adding, partition, is_new=True)
        self._io.send(batch)

    def _update_leader_epoch(self, partition: TopicPartition) -> None:
        # updateLeaderEpoch
        context, io = self._context, self._io
        current = io.partition_state(partition)
        if current is None:
            raise AbortedEventError(
                f"Cannot update leader epoch for partition {name_of(partition)} as leaderAndIsr path "
                "is empty"
            )
        if current.controller_epoch > context.epoch:
            raise AbortedEventError(
                f"Leader and isr path of {name_of(partition)} written by another controller, "
                f"with epoch {current.controller_epoch}"
            )
        context.leadership[partition] = io.update_state(
            partition, current.leader_and_isr.new_epoch(), partition_epoch=current.partition_epoch
        )

    def _forget_requests(self, is_done: Callable[[TopicPartition, tuple[int, ...]], bool]) -> None:
        """Remove requests from /admin/reassign_partitions (maybeRemoveFromZkReassignment)."""
        asked = self._io.reassign_partitions()
        if asked is not None:
            self._io.set_reassign_partitions(
                {
                    partition: replicas
                    for partition, replicas in asked.items()
                    if not is_done(partition, replicas)
                }
            )


def _replicas(partition: TopicPartition, brokers: Sequence[int]) -> list[PartitionAndReplica]:
    return [PartitionAndReplica(*partition, broker) for broker in brokers]
