"""Decides what the simulated controller does about leaders and ISRs, and about brokers' answers.

As in `active_controller`: decide by the state machines, write nothing here. Sources
(Kafka 3.9): kafka.controller.KafkaController: processReplicaLeaderElection, onReplicaElection,
checkAndTriggerAutoLeaderRebalance, processAlterPartition, processIsrChangeNotification,
processLogDirEventNotification, processLeaderAndIsrResponseReceived,
processTopicDeletionStopReplicaResponseReceived.
"""

from collections.abc import Callable, Iterable
from typing import Any

from controller_model.kafka.elections import (
    RECOVERED,
    RECOVERING,
    LeaderAndIsr,
    Strategy,
    is_election_needed,
)
from controller_model.kafka.ids import PartitionAndReplica, TopicPartition
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_model.sources.zookeeper.payloads import decode_log_dir_event
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
    name_of,
)
from controller_simulator.controller.reassignment import UNKNOWN_TOPIC_OR_PARTITION
from controller_simulator.zookeeper.transactions import DeleteZnode

ELECTION_NOT_NEEDED = "ELECTION_NOT_NEEDED"
ELIGIBLE_LEADERS_NOT_AVAILABLE = "ELIGIBLE_LEADERS_NOT_AVAILABLE"
INVALID_TOPIC_EXCEPTION = "INVALID_TOPIC_EXCEPTION"
"""The topic is being deleted."""
PREFERRED_LEADER_NOT_AVAILABLE = "PREFERRED_LEADER_NOT_AVAILABLE"
"""Names of errors in org.apache.kafka.common.protocol.Errors."""


def handle_event(controller: ActiveController, event: ControllerEvent) -> object:
    """Decide what an event asks for; return the answer to its sender, None if there is none.

    An event that is aborted keeps what it has done, and its sender gets no answer.
    """
    with controller.io.event():
        if isinstance(event, ControllerSignal):
            return _SIGNALS[event](controller)
        return _OTHERS[type(event)](controller, event)
    return None


# --- elections --------------------------------------------------------------------------


Answer = dict[TopicPartition, str | None]
"""By partition, the name of Kafka's error (org.apache.kafka.common.protocol.Errors); None: elected."""


def _on_elect_leaders(
    controller: ActiveController, asked: ElectPreferred | ElectUnclean, strategy: Strategy
) -> Answer:
    """Elect, and answer as the admin API does (KafkaApis.handleElectLeaders).

    Who asks for all partitions asks for those in the brokers' metadata, which have a leader or had one, and is
    not told which needed none.
    """
    if asked.partitions:
        return _elect(controller, asked.partitions, strategy)
    known = [p for p in controller.context.all_partitions() if p in controller.context.leadership]
    answer = _elect(controller, known, strategy)
    return {p: error for p, error in answer.items() if error != ELECTION_NOT_NEEDED}


def _on_preferred_znode(controller: ActiveController) -> None:
    if controller.tree.find(PREFERRED_ELECTION_PATH) is None:
        return
    asked = controller.reader.partitions_at(PREFERRED_ELECTION_PATH)
    _elect(controller, asked, Strategy.PREFERRED)
    controller.io.write(DeleteZnode(PREFERRED_ELECTION_PATH))


def _elect(
    controller: ActiveController, partitions: Iterable[TopicPartition], strategy: Strategy
) -> Answer:
    """Elect leaders where needed; unclean elections are allowed if an operator asked for one.

    A partition that has no state aborts the whole event: processReplicaLeaderElection reads its leader by
    Option.get.
    """
    context = controller.context
    known = set(context.all_partitions())
    answer: Answer = {}
    chosen = []
    for partition in partitions:
        if partition not in known:
            answer[partition] = UNKNOWN_TOPIC_OR_PARTITION
        elif context.is_queued_for_deletion(partition.topic):
            answer[partition] = INVALID_TOPIC_EXCEPTION
        elif (state := context.leadership.get(partition)) is None:
            raise AbortedEventError(f"No leader is known of {name_of(partition)}")
        elif is_election_needed(
            strategy,
            replicas=context.replicas_of(partition),
            leader=state.leader_and_isr.leader,
            live=context.live_broker_epochs,
            shutting_down=context.shutting_down,
        ):
            chosen.append(partition)
        else:
            answer[partition] = ELECTION_NOT_NEEDED
    elected = controller.partitions.handle_state_changes(
        chosen, PartitionState.ONLINE, strategy, allow_unclean=strategy is Strategy.OFFLINE
    )
    failed = (
        PREFERRED_LEADER_NOT_AVAILABLE
        if strategy is Strategy.PREFERRED
        else ELIGIBLE_LEADERS_NOT_AVAILABLE
    )
    return answer | {
        partition: None if isinstance(result, LeaderAndIsr) else failed
        for partition, result in elected.items()
    }


def _on_auto_rebalance(controller: ActiveController) -> None:
    """Elect preferred replicas, broker by broker, above the allowed ratio."""
    context = controller.context
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
        allowed = controller.settings.leader_imbalance_per_broker_percentage
        if 100 * len(imbalanced) > allowed * len(partitions):
            # canPreferredReplicaBeLeader
            electable = [
                partition
                for partition in imbalanced
                if broker in context.leadership[partition].leader_and_isr.isr
                and context.is_replica_online(broker, partition)
            ]
            controller.partitions.handle_state_changes(
                electable, PartitionState.ONLINE, Strategy.PREFERRED
            )


# --- ISRs -------------------------------------------------------------------------------


def _on_alter_partition(
    controller: ActiveController, event: AlterPartition
) -> str | LeaderIsrAndControllerEpoch:
    """Write the ISR that a leader asks for, or return the name of the error.

    A reassignment whose target is now in sync is finished after the answer.
    """
    answer = _alter_partition(controller, event)
    if isinstance(answer, LeaderIsrAndControllerEpoch):
        controller.io.send_update_metadata((event.partition,))
        with controller.io.event():
            controller.reassignments.maybe_complete(event.partition)
    return answer


def _alter_partition(
    controller: ActiveController, event: AlterPartition
) -> str | LeaderIsrAndControllerEpoch:
    # tryProcessAlterPartition
    context = controller.context
    if event.broker not in context.live_broker_epochs:
        return "STALE_BROKER_EPOCH"
    current = context.leadership.get(event.partition)
    if current is None:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    error = _refusal(controller, event, current)
    if error is not None:
        return error
    if event.leader_and_isr == current.leader_and_isr:
        return current
    state = controller.io.update_state(
        event.partition, event.leader_and_isr, partition_epoch=event.partition_epoch
    )
    context.leadership[event.partition] = state
    return state


def _refusal(
    controller: ActiveController, event: AlterPartition, current: LeaderIsrAndControllerEpoch
) -> str | None:
    """Return the error with which an ISR is refused, None if it is not; the order of the checks is Kafka's."""
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
    eligible = set(asked.isr) <= set(controller.context.live_brokers)
    return None if eligible else "INELIGIBLE_REPLICA"


def _on_isr_changes(controller: ActiveController) -> None:
    """Read the ISRs that leaders wrote themselves, below inter.broker.protocol 2.7."""
    reader = controller.reader
    partitions = [
        partition
        for name in reader.children(ISR_CHANGES_PATH)
        for partition in reader.partitions_at(f"{ISR_CHANGES_PATH}/{name}")
    ]
    if partitions:
        controller.read_leadership(partitions)
        controller.io.send_update_metadata(partitions)
        for partition in partitions:
            controller.reassignments.maybe_complete(partition)
    controller.delete_children(ISR_CHANGES_PATH)


# --- brokers' answers -------------------------------------------------------------------


def _on_log_dir_events(controller: ActiveController) -> None:
    """Ask brokers whose log directory failed which replicas are left (onBrokerLogDirFailure)."""
    brokers = frozenset(
        decode_log_dir_event(controller.tree.data(f"{LOG_DIR_EVENTS_PATH}/{name}").encode()).broker
        for name in controller.reader.children(LOG_DIR_EVENTS_PATH)
    )
    controller.replicas.handle_state_changes(
        controller.context.replicas_on(brokers), ReplicaState.ONLINE
    )
    controller.delete_children(LOG_DIR_EVENTS_PATH)


def _on_leader_and_isr_response(controller: ActiveController, event: LeaderAndIsrResponse) -> None:
    before = controller.context.replicas_on_offline_dirs.get(event.broker, set())
    now = (before - set(event.online)) | set(event.offline)
    controller.context.replicas_on_offline_dirs[event.broker] = now
    new = [partition for partition in event.offline if partition not in before]
    if new:
        members.on_replicas_become_offline(
            controller, [PartitionAndReplica(*partition, event.broker) for partition in new]
        )


def _on_stop_replica_response(controller: ActiveController, event: StopReplicaResponse) -> None:
    deletion = controller.deletion
    deletion.fail_replicas(
        [PartitionAndReplica(*partition, event.broker) for partition in event.failed]
    )
    deleted = [partition for partition in event.partitions if partition not in event.failed]
    if deleted:
        deletion.complete_replicas(
            [PartitionAndReplica(*partition, event.broker) for partition in deleted]
        )


_SIGNALS: dict[ControllerSignal, Callable[[ActiveController], object]] = {
    ControllerSignal.BROKER_CHANGE: members.on_broker_change,
    ControllerSignal.TOPIC_CHANGE: topics.on_topic_change,
    ControllerSignal.TOPIC_DELETION: topics.on_topic_deletion,
    ControllerSignal.ZK_REASSIGNMENT: lambda controller: controller.reassignments.process_znode(),
    ControllerSignal.ZK_PREFERRED_ELECTION: _on_preferred_znode,
    ControllerSignal.ISR_CHANGE_NOTIFICATION: _on_isr_changes,
    ControllerSignal.LOG_DIR_EVENT: _on_log_dir_events,
    ControllerSignal.AUTO_REBALANCE: _on_auto_rebalance,
}
_OTHERS: dict[type, Callable[[ActiveController, Any], object]] = {
    PartitionModifications: lambda c, e: topics.on_partition_modifications(c, e.topic),
    StateChange: lambda c, e: c.reassignments.maybe_complete(e.partition),
    TopicUncleanEnable: lambda c, e: c.partitions.trigger_online(e.topic),
    StopBroker: lambda c, e: members.on_controlled_shutdown(c, e.broker),
    Reassign: lambda c, e: c.reassignments.alter(dict(e.targets)),
    ElectPreferred: lambda c, e: _on_elect_leaders(c, e, Strategy.PREFERRED),
    ElectUnclean: lambda c, e: _on_elect_leaders(c, e, Strategy.OFFLINE),
    AlterPartition: _on_alter_partition,
    StopReplicaResponse: _on_stop_replica_response,
    LeaderAndIsrResponse: _on_leader_and_isr_response,
}
