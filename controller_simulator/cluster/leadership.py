"""What the simulated controller does about leaders and ISRs, and about brokers' answers.

The rule: as in `active_controller`: decide by the state machines, write nothing here. Sources
(Kafka 3.9): kafka.controller.KafkaController: processReplicaLeaderElection, onReplicaElection,
checkAndTriggerAutoLeaderRebalance, processAlterPartition, processIsrChangeNotification,
processLogDirEventNotification, processLeaderAndIsrResponseReceived,
processTopicDeletionStopReplicaResponseReceived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from controller_model.kafka.elections import RECOVERED, RECOVERING, Strategy, is_election_needed
from controller_model.kafka.ids import PartitionAndReplica, TopicPartition
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_model.znodes.payloads import decode_log_dir_event
from controller_simulator.cluster import members, topics
from controller_simulator.cluster.active_controller import ActiveController
from controller_simulator.cluster.events import (
    AlterPartition,
    ControllerEvent,
    ControllerSignal,
    LeaderAndIsrResponse,
    PartitionModifications,
    StateChange,
    StopReplicaResponse,
    TopicUncleanEnable,
)
from controller_simulator.cluster.operations import (
    ElectPreferred,
    ElectUnclean,
    Reassign,
    StopBroker,
)
from controller_simulator.controller.context import LeaderIsrAndControllerEpoch
from controller_simulator.controller.controller_io import (
    ISR_CHANGES_PATH,
    LOG_DIR_EVENTS_PATH,
    PREFERRED_ELECTION_PATH,
    AbortedEventError,
)
from controller_simulator.zookeeper.transactions import DeleteZnode


class EventHandlers:
    """Hands each event to its handler, and handles those of leaders and ISRs."""

    def __init__(self, controller: ActiveController) -> None:
        """Handle events for this controller."""
        self.controller = controller
        self._context = controller.context
        self._tree = controller.tree
        self._signals: dict[ControllerSignal, Callable[[], object]] = {
            ControllerSignal.BROKER_CHANGE: lambda: members.on_broker_change(controller),
            ControllerSignal.TOPIC_CHANGE: lambda: topics.on_topic_change(controller),
            ControllerSignal.TOPIC_DELETION: lambda: topics.on_topic_deletion(controller),
            ControllerSignal.ZK_REASSIGNMENT: controller.reassignments.process_znode,
            ControllerSignal.ZK_PREFERRED_ELECTION: self._on_preferred_znode,
            ControllerSignal.ISR_CHANGE_NOTIFICATION: self._on_isr_changes,
            ControllerSignal.LOG_DIR_EVENT: self._on_log_dir_events,
            ControllerSignal.AUTO_REBALANCE: self._on_auto_rebalance,
        }
        self._others: dict[type, Callable[[Any], object]] = {
            PartitionModifications: lambda e: topics.on_partition_modifications(
                controller, e.topic
            ),
            StateChange: self._on_state_change,
            TopicUncleanEnable: lambda e: controller.partitions.trigger_online(e.topic),
            StopBroker: lambda e: members.on_controlled_shutdown(controller, e.broker),
            Reassign: lambda e: controller.reassignments.alter(dict(e.targets)),
            ElectPreferred: lambda e: self._on_elect_leaders(e, Strategy.PREFERRED),
            ElectUnclean: lambda e: self._on_elect_leaders(e, Strategy.OFFLINE),
            AlterPartition: self._on_alter_partition,
            StopReplicaResponse: self._on_stop_replica_response,
            LeaderAndIsrResponse: self._on_leader_and_isr_response,
        }

    def handle(self, event: ControllerEvent) -> object:
        """Decide what an event asks for; return what its sender is answered, None if nothing.

        An event that is aborted keeps what it has done, and its sender gets no answer.
        """
        with self.controller.io.event():
            if isinstance(event, ControllerSignal):
                return self._signals[event]()
            return self._others[type(event)](event)
        return None

    # --- elections --------------------------------------------------------------------------

    def _on_elect_leaders(self, asked: ElectPreferred | ElectUnclean, strategy: Strategy) -> None:
        self._elect(asked.partitions or tuple(self._context.all_partitions()), strategy)

    def _on_preferred_znode(self) -> None:
        if self._tree.find(PREFERRED_ELECTION_PATH) is None:
            return
        asked = self.controller.reader.partitions_at(PREFERRED_ELECTION_PATH)
        self._elect(asked, Strategy.PREFERRED)
        self.controller.io.write(DeleteZnode(PREFERRED_ELECTION_PATH))

    def _elect(self, partitions: Iterable[TopicPartition], strategy: Strategy) -> None:
        """Elect where that is needed; an unclean one is allowed, since an operator asked for it."""
        context = self._context
        known = set(context.all_partitions())
        chosen = [
            partition
            for partition in partitions
            if partition in known
            and not context.is_queued_for_deletion(partition.topic)
            and (state := context.leadership.get(partition)) is not None
            and is_election_needed(
                strategy,
                replicas=context.replicas_of(partition),
                leader=state.leader_and_isr.leader,
                live=context.live_broker_epochs,
                shutting_down=context.shutting_down,
            )
        ]
        self.controller.partitions.handle_state_changes(
            chosen,
            PartitionState.ONLINE,
            strategy,
            allow_unclean=strategy is Strategy.OFFLINE,
        )

    def _on_auto_rebalance(self) -> None:
        """Elect preferred replicas, broker by broker, above the allowed ratio."""
        context = self._context
        by_broker: dict[int, list[TopicPartition]] = {}
        for partition in context.all_partitions():
            if not context.is_queued_for_deletion(partition.topic):
                replicas = context.replicas_of(partition)
                if not replicas:
                    raise AbortedEventError(f"{partition} has no replicas")  # Seq.head
                by_broker.setdefault(replicas[0], []).append(partition)
        for broker, partitions in by_broker.items():
            imbalanced = [
                partition
                for partition in partitions
                if (state := context.leadership.get(partition)) is not None
                and state.leader_and_isr.leader != broker
            ]
            allowed = self.controller.settings.leader_imbalance_per_broker_percentage
            if 100 * len(imbalanced) > allowed * len(partitions):
                self.controller.partitions.handle_state_changes(
                    [p for p in imbalanced if self._can_lead(broker, p)],
                    PartitionState.ONLINE,
                    Strategy.PREFERRED,
                )

    def _can_lead(self, broker: int, partition: TopicPartition) -> bool:
        # canPreferredReplicaBeLeader
        isr = self._context.leadership[partition].leader_and_isr.isr
        return broker in isr and self._context.is_replica_online(broker, partition)

    # --- ISRs -------------------------------------------------------------------------------

    def _on_alter_partition(self, event: AlterPartition) -> str | LeaderIsrAndControllerEpoch:
        """Write the ISR that a leader asks for, or return the name of the error.

        A reassignment whose target is in sync now is finished after the answer.
        """
        answer = self._alter_partition(event)
        if isinstance(answer, LeaderIsrAndControllerEpoch):
            self.controller.io.send_update_metadata((event.partition,))
            with self.controller.io.event():
                self.controller.reassignments.maybe_complete(event.partition)
        return answer

    def _alter_partition(self, event: AlterPartition) -> str | LeaderIsrAndControllerEpoch:
        # tryProcessAlterPartition
        context = self._context
        if event.broker not in context.live_broker_epochs:
            return "STALE_BROKER_EPOCH"
        current = context.leadership.get(event.partition)
        if current is None:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        error = self._refusal(event, current)
        if error is not None:
            return error
        if event.leader_and_isr == current.leader_and_isr:
            return current
        state = self.controller.io.update_state(
            event.partition, event.leader_and_isr, partition_epoch=event.partition_epoch
        )
        context.leadership[event.partition] = state
        return state

    def _refusal(self, event: AlterPartition, current: LeaderIsrAndControllerEpoch) -> str | None:
        """Return why an ISR is not written; the order of the checks is Kafka's."""
        asked, now = event.leader_and_isr, current.leader_and_isr
        if event.partition_epoch > current.partition_epoch or asked.leader_epoch > now.leader_epoch:
            return "NOT_CONTROLLER"
        if asked.leader_epoch < now.leader_epoch:
            return "FENCED_LEADER_EPOCH"
        if asked == now:
            return None
        if event.partition_epoch < current.partition_epoch:
            return "INVALID_UPDATE_VERSION"
        if asked.leader_recovery_state == RECOVERING and (
            len(asked.isr) > 1 or now.leader_recovery_state == RECOVERED
        ):
            return "INVALID_REQUEST"
        eligible = set(asked.isr) <= set(self._context.live_brokers)
        return None if eligible else "INELIGIBLE_REPLICA"

    def _on_state_change(self, event: StateChange) -> None:
        """Finish a reassignment that is through (processPartitionReassignmentIsrChange)."""
        self.controller.reassignments.maybe_complete(event.partition)

    def _on_isr_changes(self) -> None:
        """Take in ISRs that leaders wrote themselves, below inter.broker.protocol 2.7."""
        reader = self.controller.reader
        partitions = [
            partition
            for name in reader.children(ISR_CHANGES_PATH)
            for partition in reader.partitions_at(f"{ISR_CHANGES_PATH}/{name}")
        ]
        if partitions:
            self.controller.read_leadership(partitions)
            self.controller.io.send_update_metadata(partitions)
            for partition in partitions:
                self.controller.reassignments.maybe_complete(partition)
        self.controller.delete_children(ISR_CHANGES_PATH)

    # --- brokers' answers -------------------------------------------------------------------

    def _on_log_dir_events(self) -> None:
        """Ask brokers whose log directory failed which replicas are left (onBrokerLogDirFailure)."""
        brokers = frozenset(
            decode_log_dir_event(self._tree.data(f"{LOG_DIR_EVENTS_PATH}/{name}").encode()).broker
            for name in self.controller.reader.children(LOG_DIR_EVENTS_PATH)
        )
        self.controller.replicas.handle_state_changes(
            self._context.replicas_on(brokers), ReplicaState.ONLINE
        )
        self.controller.delete_children(LOG_DIR_EVENTS_PATH)

    def _on_leader_and_isr_response(self, event: LeaderAndIsrResponse) -> None:
        before = self._context.replicas_on_offline_dirs.get(event.broker, set())
        now = (before - set(event.online)) | set(event.offline)
        self._context.replicas_on_offline_dirs[event.broker] = now
        new = [partition for partition in event.offline if partition not in before]
        if new:
            members.on_replicas_become_offline(
                self.controller,
                [PartitionAndReplica(*partition, event.broker) for partition in new],
            )

    def _on_stop_replica_response(self, event: StopReplicaResponse) -> None:
        deletion = self.controller.deletion
        deletion.fail_replicas(
            [PartitionAndReplica(*partition, event.broker) for partition in event.failed]
        )
        deleted = [partition for partition in event.partitions if partition not in event.failed]
        if deleted:
            deletion.complete_replicas(
                [PartitionAndReplica(*partition, event.broker) for partition in deleted]
            )
