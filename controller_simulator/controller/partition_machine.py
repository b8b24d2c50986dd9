"""Runs Kafka's partition state machine: how partitions are created, get leaders, and are removed.

Each partition makes its step independently. The table of states allows it or not. A
leader is elected from what ZooKeeper holds now, not from memory. A failure changes nothing and is
recorded. Only OnlinePartition writes and sends anything; the other states are kept in the
controller's memory. Source (Kafka 3.9): kafka.controller.PartitionStateMachine and
ZkPartitionStateMachine.
"""

from collections.abc import Sequence

from controller_model.kafka.elections import (
    STATE_CHANGE_FAILED,
    Election,
    LeaderAndIsr,
    Strategy,
    leader_for_controlled_shutdown,
    leader_for_offline,
    leader_for_preferred_replica,
    leader_for_reassign,
)
from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.states import PartitionState, is_valid, partition_state_of
from controller_simulator.controller.controller_io import (
    ILLEGAL_STATE,
    NODE_EXISTS,
    ControllerIO,
    TransitionFailure,
    partition_path,
    partitions_path,
)
from controller_simulator.controller.request_batch import RequestBatch
from controller_simulator.zookeeper.transactions import CreateZnode

ElectionResults = dict[TopicPartition, LeaderAndIsr | TransitionFailure]
"""By partition that was to elect a leader: what was written, or why nothing was."""


class PartitionStateMachine:
    """Moves partitions from state to state; see the module."""

    def __init__(self, io: ControllerIO) -> None:
        self._io = io
        self._context = io.context

    def startup(self) -> ElectionResults:
        """Set every partition's state by what ZooKeeper holds, and elect where a leader is missing."""
        context = self._context
        for partition in context.all_partitions():
            state = context.leadership.get(partition)
            leader = None if state is None else state.leader_and_isr.leader
            brokers = () if leader is None else (leader,)
            online = [b for b in brokers if context.is_replica_online(b, partition)]
            context.partition_states[partition] = partition_state_of(leader, online)
        return self.trigger_online()

    def trigger_online(self, topic: str | None = None) -> ElectionResults:
        """Try to bring new and offline partitions online (triggerOnlinePartitionStateChange).

        Those of one topic, or of all topics; never those of a topic that is to be deleted.
        """
        context, states = self._context, self._context.partition_states
        waiting = [
            partition
            for partition in (states if topic is None else context.partitions_of(topic))
            if states.get(partition) in {PartitionState.OFFLINE, PartitionState.NEW}
            and not context.is_queued_for_deletion(partition.topic)
        ]
        return self.handle_state_changes(waiting, PartitionState.ONLINE, Strategy.OFFLINE)

    def handle_state_changes(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionState,
        strategy: Strategy | None = None,
        *,
        allow_unclean: bool = False,
    ) -> ElectionResults:
        """Move partitions to a state (handleStateChanges), and return the results of their elections.

        Only partitions that had a leader before are elected, and need a strategy; `allow_unclean`
        applies to "offline". A partition that was New gets its first state instead.
        """
        if not partitions:
            return {}
        states = self._context.partition_states
        valid = self._valid(partitions, target)
        if target is not PartitionState.ONLINE:
            states.update(dict.fromkeys(valid, target))
            return {}
        new = [p for p in valid if states[p] is PartitionState.NEW]
        others = [p for p in valid if states[p] is not PartitionState.NEW]
        if others and strategy is None:
            raise ModelError(
                "Election strategy is a required field when the target state is OnlinePartition"
            )
        batch = self._io.new_batch()
        self._initialize(new, batch)
        results = {
            partition: self._elect(partition, strategy, batch, allow_unclean=allow_unclean)
            for partition in others
            if strategy is not None
        }
        self._io.send(batch)
        return results

    def _valid(
        self, partitions: Sequence[TopicPartition], target: PartitionState
    ) -> list[TopicPartition]:
        """Return the partitions that may move to this state; the others fail."""
        states = self._context.partition_states
        valid = []
        for partition in partitions:
            if is_valid(states.setdefault(partition, PartitionState.NON_EXISTENT), target):
                valid.append(partition)
            else:
                self._fail(partition, target=target, error=ILLEGAL_STATE)
        return valid

    # --- new partitions ---------------------------------------------------------------------

    def _initialize(self, partitions: Sequence[TopicPartition], batch: RequestBatch) -> None:
        """Give new partitions a leader and an ISR (initializeLeaderAndIsrForPartitions).

        The first live replica leads, all live ones are in sync. As in Kafka, containers are created
        whether they exist or not: ZooKeeper refuses the existing ones, and its answers are ignored.
        """
        context, io = self._context, self._io
        states = self._first_states(partitions)
        for topic in dict.fromkeys(partition.topic for partition in states):
            io.write(CreateZnode(partitions_path(topic)))
        for partition in states:
            io.write(CreateZnode(partition_path(partition)))
        for partition, leader_and_isr in states.items():
            if io.partition_state(partition) is not None:
                self._fail(partition, error=NODE_EXISTS)
                continue
            context.leadership[partition] = io.create_state(partition, leader_and_isr)
            batch.add_leader_and_isr(leader_and_isr.isr, partition, is_new=True)
            context.partition_states[partition] = PartitionState.ONLINE

    def _first_states(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LeaderAndIsr]:
        context = self._context
        states = {}
        for partition in partitions:
            replicas = context.replicas_of(partition)
            live = tuple(r for r in replicas if context.is_replica_online(r, partition))
            if live:
                states[partition] = LeaderAndIsr(live[0], live)
            else:
                self._fail(partition)
        return states

    # --- elections --------------------------------------------------------------------------

    def _elect(
        self,
        partition: TopicPartition,
        strategy: Strategy,
        batch: RequestBatch,
        *,
        allow_unclean: bool,
    ) -> LeaderAndIsr | TransitionFailure:
        """Elect a leader, based on the state that ZooKeeper holds (doElectLeaderForPartitions)."""
        context = self._context
        current = self._io.partition_state(partition)
        if current is None or current.controller_epoch > context.epoch:
            return self._fail(partition)  # it is gone, or a newer controller's
        election = self._election(
            partition, current.leader_and_isr, strategy, allow_unclean=allow_unclean
        )
        if election is None:
            return self._fail(partition)
        context.leadership[partition] = self._io.update_state(
            partition, election.leader_and_isr, partition_epoch=current.partition_epoch
        )
        self._io.note_election(partition, strategy, unclean=election.unclean)
        batch.add_leader_and_isr(self._recipients(partition, strategy), partition)
        context.partition_states[partition] = PartitionState.ONLINE
        return election.leader_and_isr

    def _election(
        self,
        partition: TopicPartition,
        current: LeaderAndIsr,
        strategy: Strategy,
        *,
        allow_unclean: bool,
    ) -> Election | None:
        context, io = self._context, self._io
        assignment = context.assignment_of(partition)
        replicas = assignment.replicas
        online = {
            broker
            for broker in (*replicas, *current.isr)
            if context.is_replica_online(broker, partition)
        }
        match strategy:
            case Strategy.OFFLINE:
                return leader_for_offline(
                    current,
                    replicas,
                    online,
                    unclean=io.reader.unclean_leader_election(partition.topic) or allow_unclean,
                    recovery_supported=io.leader_recovery_supported,
                )
            case Strategy.REASSIGN:
                return leader_for_reassign(current, assignment.target_replicas, online)
            case Strategy.PREFERRED:
                return leader_for_preferred_replica(current, replicas, online)
            case _:  # Strategy.CONTROLLED_SHUTDOWN
                shutting_down = context.shutting_down
                return leader_for_controlled_shutdown(current, replicas, online, shutting_down)

    def _recipients(self, partition: TopicPartition, strategy: Strategy) -> Sequence[int]:
        """Return the brokers that get a new leader (ElectionResult.liveReplicas, whatever its name)."""
        context = self._context
        assignment = context.assignment_of(partition)
        if strategy is Strategy.PREFERRED:
            return assignment.replicas
        if strategy is Strategy.REASSIGN:
            return assignment.target_replicas
        too = strategy is Strategy.CONTROLLED_SHUTDOWN
        return [
            replica
            for replica in assignment.replicas
            if context.is_replica_online(replica, partition, include_shutting_down=too)
        ]

    def _fail(
        self,
        partition: TopicPartition,
        *,
        target: PartitionState = PartitionState.ONLINE,
        error: str = STATE_CHANGE_FAILED,
    ) -> TransitionFailure:
        current = self._context.partition_states[partition]
        return self._io.fail(partition, current, target, error)
