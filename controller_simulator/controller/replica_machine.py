"""Runs Kafka's replica state machine: how replicas start, stop, are deleted and are forgotten.

Each replica makes its step independently, broker by broker. The table of states allows it
or not. A replica that goes offline is removed from the ISR that ZooKeeper holds now. A failure
changes nothing and is recorded. Source (Kafka 3.9): kafka.controller.ReplicaStateMachine and
ZkReplicaStateMachine.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from controller_model.kafka.elections import STATE_CHANGE_FAILED
from controller_model.kafka.hash_order import broker_order
from controller_model.kafka.ids import NO_LEADER, PartitionAndReplica
from controller_model.kafka.states import ReplicaState, is_valid
from controller_simulator.controller.context import LeaderIsrAndControllerEpoch
from controller_simulator.controller.controller_io import ILLEGAL_STATE, ControllerIO
from controller_simulator.controller.request_batch import RequestBatch


class ReplicaStateMachine:
    """Moves replicas from state to state; see the module."""

    def __init__(self, io: ControllerIO) -> None:
        self._io = io
        self._context = io.context
        self._steps: dict[
            ReplicaState, Callable[[Sequence[PartitionAndReplica], RequestBatch], None]
        ] = {
            ReplicaState.NEW: self._to_new,
            ReplicaState.ONLINE: self._to_online,
            ReplicaState.OFFLINE: self._to_offline,
            ReplicaState.DELETION_STARTED: self._to_deletion_started,
            ReplicaState.NON_EXISTENT: self._to_non_existent,
        }

    def startup(self) -> None:
        """Set every replica's state by which brokers live, and send brokers the states of theirs.

        A replica whose broker is dead begins as ReplicaDeletionIneligible, and goes offline from
        there (initializeReplicaState, startup).
        """
        context = self._context
        online, offline = [], []
        for replica in context.replicas_of_partitions(context.all_partitions()):
            if context.is_replica_online(replica.replica, replica.topic_partition):
                context.replica_states[replica] = ReplicaState.ONLINE
                online.append(replica)
            else:
                context.replica_states[replica] = ReplicaState.DELETION_INELIGIBLE
                offline.append(replica)
        self.handle_state_changes(online, ReplicaState.ONLINE)
        self.handle_state_changes(offline, ReplicaState.OFFLINE)

    def handle_state_changes(
        self, replicas: Iterable[PartitionAndReplica], target: ReplicaState
    ) -> None:
        """Move replicas to a state (handleStateChanges), broker by broker in Kafka's order.

        Where several leave one ISR the order matters: each of them is a separate write.
        """
        by_broker: dict[int, list[PartitionAndReplica]] = {}
        for replica in replicas:
            by_broker.setdefault(replica.replica, []).append(replica)
        if not by_broker:
            return
        batch = self._io.new_batch()
        for broker in broker_order(by_broker):
            self._handle(by_broker[broker], target, batch)
        self._io.send(batch)

    def _handle(
        self, replicas: Sequence[PartitionAndReplica], target: ReplicaState, batch: RequestBatch
    ) -> None:
        states = self._context.replica_states
        valid = []
        for replica in replicas:
            current = states.setdefault(replica, ReplicaState.NON_EXISTENT)
            if is_valid(current, target):
                valid.append(replica)
            else:
                self._fail(replica, target, error=ILLEGAL_STATE)
        step = self._steps.get(target)
        if step is None:
            states.update(dict.fromkeys(valid, target))
        else:
            step(valid, batch)

    def _to_new(self, replicas: Sequence[PartitionAndReplica], batch: RequestBatch) -> None:
        context = self._context
        for replica in replicas:
            partition = replica.topic_partition
            state = context.leadership.get(partition)
            if state is not None:
                if state.leader_and_isr.leader == replica.replica:
                    self._fail(replica, ReplicaState.NEW)
                    continue
                batch.add_leader_and_isr((replica.replica,), partition, is_new=True)
            context.replica_states[replica] = ReplicaState.NEW

    def _to_online(self, replicas: Sequence[PartitionAndReplica], batch: RequestBatch) -> None:
        context = self._context
        for replica in replicas:
            partition = replica.topic_partition
            assignment = context.assignment_of(partition)
            if context.replica_states[replica] is ReplicaState.NEW:
                if replica.replica not in assignment.replicas:
                    grown = (*assignment.replicas, replica.replica)
                    context.assign(partition, replace(assignment, replicas=grown))
            elif partition in context.leadership:
                batch.add_leader_and_isr((replica.replica,), partition)
            context.replica_states[replica] = ReplicaState.ONLINE

    def _to_deletion_started(
        self, replicas: Sequence[PartitionAndReplica], batch: RequestBatch
    ) -> None:
        for replica in replicas:
            self._context.replica_states[replica] = ReplicaState.DELETION_STARTED
            batch.add_stop_replica((replica.replica,), replica.topic_partition, delete=True)

    def _to_non_existent(
        self,
        replicas: Sequence[PartitionAndReplica],
        batch: RequestBatch,  # noqa: ARG002  # every step takes a batch; this one sends nothing
    ) -> None:
        context = self._context
        for replica in replicas:
            partition = replica.topic_partition
            context.assign(
                partition, context.assignment_of(partition).remove_replica(replica.replica)
            )
            del context.replica_states[replica]

    # --- offline ----------------------------------------------------------------------------

    def _to_offline(self, replicas: Sequence[PartitionAndReplica], batch: RequestBatch) -> None:
        context = self._context
        for replica in replicas:
            batch.add_stop_replica((replica.replica,), replica.topic_partition, delete=False)
        without_leadership = []
        for replica in replicas:
            if replica.topic_partition in context.leadership:
                self._leave_isr(replica, batch)
            else:
                without_leadership.append(replica)
        for replica in without_leadership:
            batch.add_update_metadata(
                context.live_or_shutting_down_brokers, (replica.topic_partition,)
            )
            context.replica_states[replica] = ReplicaState.OFFLINE

    def _leave_isr(self, replica: PartitionAndReplica, batch: RequestBatch) -> None:
        """Remove a replica from its partition's ISR, and send the new ISR to the other replicas."""
        context = self._context
        partition = replica.topic_partition
        state = self._remove_from_isr(replica)
        if state is None:
            return
        context.leadership[partition] = state
        if not context.is_queued_for_deletion(partition.topic):
            others = [r for r in context.replicas_of(partition) if r != replica.replica]
            batch.add_leader_and_isr(others, partition)
        context.replica_states[replica] = ReplicaState.OFFLINE

    def _remove_from_isr(self, replica: PartitionAndReplica) -> LeaderIsrAndControllerEpoch | None:
        """Return a partition's state without this replica in the ISR (doRemoveReplicasFromIsr).

        It is written only if the replica was in the ISR. The last member stays in the ISR, and a
        leader that leaves is replaced by -1. None = the step failed, or the topic is deleted and
        has no state.
        """
        context, partition = self._context, replica.topic_partition
        current = self._io.partition_state(partition)
        if current is None and context.is_queued_for_deletion(partition.topic):
            return None
        if current is None or current.controller_epoch > context.epoch:
            self._fail(replica, ReplicaState.OFFLINE)
            return None
        decided = current.leader_and_isr
        if replica.replica not in decided.isr:
            # Nothing is written, but from now on the state counts as this controller's.
            return LeaderIsrAndControllerEpoch(decided, context.epoch, current.partition_epoch)
        leader = NO_LEADER if decided.leader == replica.replica else decided.leader
        isr = decided.isr
        if len(isr) > 1:
            isr = tuple(member for member in isr if member != replica.replica)
        return self._io.update_state(
            partition,
            decided.new_leader_and_isr(leader, isr),
            partition_epoch=current.partition_epoch,
        )

    def _fail(
        self,
        replica: PartitionAndReplica,
        target: ReplicaState,
        *,
        error: str = STATE_CHANGE_FAILED,
    ) -> None:
        self._io.fail(replica, self._context.replica_states[replica], target, error)
