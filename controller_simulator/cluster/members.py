"""Decides what the simulated controller does about brokers that join, leave, and shut down.

As in `active_controller`: decide by the state machines, write nothing here. Sources
(Kafka 3.9): kafka.controller.KafkaController: processBrokerChange, onBrokerStartup,
onBrokerFailure, onReplicasBecomeOffline, doControlledShutdown.
"""

from collections.abc import Sequence

from controller_model.kafka.elections import LeaderAndIsr, Strategy
from controller_model.kafka.ids import PartitionAndReplica, TopicPartition
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_simulator.cluster.active_controller import ActiveController


def on_broker_change(controller: ActiveController) -> None:
    """Handle brokers that joined, left, or restarted since the last time (processBrokerChange)."""
    context = controller.context
    now = controller.reader.broker_epochs()
    known = context.live_broker_epochs
    new = [broker for broker in now if broker not in known]
    dead = [broker for broker in sorted(known) if broker not in now]
    bounced = [b for b in now if b in known and now[b] > known[b]]
    if new:
        known.update({broker: now[broker] for broker in new})
        _on_startup(controller, new)
    if bounced:
        _on_failure(controller, bounced)
        known.update({broker: now[broker] for broker in bounced})
        _on_startup(controller, bounced)
    if dead:
        _on_failure(controller, dead)


def _on_startup(controller: ActiveController, brokers: Sequence[int]) -> None:
    context = controller.context
    for broker in brokers:
        context.replicas_on_offline_dirs.pop(broker, None)
    others = [b for b in context.live_or_shutting_down_brokers if b not in brokers]
    controller.io.send_update_metadata(brokers=others)
    controller.io.send_update_metadata(context.partitions_with_leaders(), brokers=brokers)
    replicas = context.replicas_on(frozenset(brokers))
    controller.replicas.handle_state_changes(replicas, ReplicaState.ONLINE)
    controller.partitions.trigger_online()
    controller.reassignments.resume(
        lambda _, assignment: any(b in assignment.target_replicas for b in brokers)
    )
    controller.deletion.resume_for(
        r.topic for r in replicas if controller.context.is_queued_for_deletion(r.topic)
    )


def _on_failure(controller: ActiveController, brokers: Sequence[int]) -> None:
    for broker in brokers:
        del controller.context.live_broker_epochs[broker]
        controller.context.replicas_on_offline_dirs.pop(broker, None)
        controller.context.shutting_down.discard(broker)
    on_replicas_become_offline(controller, controller.context.replicas_on(frozenset(brokers)))


def on_replicas_become_offline(
    controller: ActiveController, replicas: Sequence[PartitionAndReplica]
) -> None:
    """Elect new leaders, then remove the replicas from the ISRs (onReplicasBecomeOffline)."""
    staying = [r for r in replicas if not controller.context.is_queued_for_deletion(r.topic)]
    going = [r for r in replicas if controller.context.is_queued_for_deletion(r.topic)]
    leaderless = controller.context.partitions_with_offline_leader()
    controller.partitions.handle_state_changes(leaderless, PartitionState.OFFLINE)
    results = controller.partitions.trigger_online()
    controller.replicas.handle_state_changes(staying, ReplicaState.OFFLINE)
    if going:
        controller.deletion.fail_replicas(going)
    if not staying and not any(isinstance(r, LeaderAndIsr) for r in results.values()):
        controller.io.send_update_metadata()


def on_controlled_shutdown(controller: ActiveController, broker: int) -> tuple[TopicPartition, ...]:
    """Move leaders off a broker, and remove it from the ISRs; return the partitions that it still leads.

    doControlledShutdown.
    """
    context = controller.context
    context.shutting_down.add(broker)
    affected = [
        partition
        for partition in context.all_partitions()
        if broker in context.replicas_of(partition)
        and len(context.replicas_of(partition)) > 1
        and partition in context.leadership
        and not context.is_queued_for_deletion(partition.topic)
    ]
    led = [p for p in affected if context.leadership[p].leader_and_isr.leader == broker]
    followed = [p for p in affected if context.leadership[p].leader_and_isr.leader != broker]
    controller.partitions.handle_state_changes(
        led, PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN
    )
    batch = controller.io.new_batch()
    for partition in followed:
        batch.add_stop_replica((broker,), partition, delete=False)
    controller.io.send(batch)
    controller.replicas.handle_state_changes(
        [PartitionAndReplica(*partition, broker) for partition in followed], ReplicaState.OFFLINE
    )
    return context.partition_leaders_on(broker)
