"""What the simulated controller does about brokers that come, go, and shut down.

The rule: as in `active_controller`: decide by the state machines, write nothing here. Sources
(Kafka 3.9): kafka.controller.KafkaController: processBrokerChange, onBrokerStartup,
onBrokerFailure, onReplicasBecomeOffline, doControlledShutdown.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller_model.kafka.elections import LeaderAndIsr, Strategy
from controller_model.kafka.ids import PartitionAndReplica, TopicPartition
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_simulator.cluster.active_controller import ActiveController


class BrokerChangeHandlers:
    """Handles the events of brokers for a controller."""

    def __init__(self, controller: ActiveController) -> None:
        """Handle events for this controller."""
        self.controller = controller
        self._context = controller.context

    def on_broker_change(self) -> None:
        """Take in who came, went, or came back meanwhile (processBrokerChange)."""
        context = self._context
        now = self.controller.reader.broker_epochs()
        known = context.live_broker_epochs
        new = [broker for broker in now if broker not in known]
        dead = [broker for broker in sorted(known) if broker not in now]
        bounced = [b for b in now if b in known and now[b] > known[b]]
        if new:
            known.update({broker: now[broker] for broker in new})
            self._on_startup(new)
        if bounced:
            self._forget(bounced)
            self._on_failure(bounced)
            known.update({broker: now[broker] for broker in bounced})
            self._on_startup(bounced)
        if dead:
            self._forget(dead)
            self._on_failure(dead)

    def _forget(self, brokers: Sequence[int]) -> None:
        for broker in brokers:
            del self._context.live_broker_epochs[broker]

    def _on_startup(self, brokers: Sequence[int]) -> None:
        context = self._context
        for broker in brokers:
            context.replicas_on_offline_dirs.pop(broker, None)
        others = [b for b in context.live_or_shutting_down_brokers if b not in brokers]
        self.controller.io.send_update_metadata(others, ())
        self.controller.io.send_update_metadata(brokers, context.partitions_with_leaders())
        replicas = context.replicas_on(frozenset(brokers))
        self.controller.replicas.handle_state_changes(replicas, ReplicaState.ONLINE)
        self.controller.partitions.trigger_online()
        self.controller.reassignments.resume(
            lambda _, assignment: any(b in assignment.target_replicas for b in brokers)
        )
        self.controller.deletion.resume_for(
            r.topic for r in replicas if self.controller.deletion.is_queued(r.topic)
        )

    def _on_failure(self, brokers: Sequence[int]) -> None:
        for broker in brokers:
            self._context.replicas_on_offline_dirs.pop(broker, None)
            self._context.shutting_down.discard(broker)
        self.on_replicas_become_offline(self._context.replicas_on(frozenset(brokers)))

    def on_replicas_become_offline(self, replicas: Sequence[PartitionAndReplica]) -> None:
        """Elect new leaders, then take the replicas out of the ISRs (onReplicasBecomeOffline)."""
        staying = [r for r in replicas if not self.controller.deletion.is_queued(r.topic)]
        going = [r for r in replicas if self.controller.deletion.is_queued(r.topic)]
        leaderless = self._context.partitions_with_offline_leader()
        self.controller.partitions.handle_state_changes(leaderless, PartitionState.OFFLINE)
        results = self.controller.partitions.trigger_online()
        self.controller.replicas.handle_state_changes(staying, ReplicaState.OFFLINE)
        if going:
            self.controller.deletion.fail_replicas(going)
        if not staying and not any(isinstance(r, LeaderAndIsr) for r in results.values()):
            self.controller.send_metadata(())

    def on_controlled_shutdown(self, broker: int) -> tuple[TopicPartition, ...]:
        """Move leaders off a broker, and it out of the ISRs; return what it still leads.

        doControlledShutdown.
        """
        context = self._context
        context.shutting_down.add(broker)
        affected = [
            partition
            for partition in context.all_partitions()
            if broker in context.replicas_of(partition)
            and len(context.replicas_of(partition)) > 1
            and partition in context.leadership
            and not self.controller.deletion.is_queued(partition.topic)
        ]
        led = [p for p in affected if context.leadership[p].leader_and_isr.leader == broker]
        followed = [p for p in affected if p not in led]
        self.controller.partitions.handle_state_changes(
            led, PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN
        )
        batch = self.controller.io.new_batch()
        for partition in followed:
            batch.add_stop_replica((broker,), partition, delete=False)
        self.controller.io.send(batch)
        self.controller.replicas.handle_state_changes(
            [PartitionAndReplica(*partition, broker) for partition in followed],
            ReplicaState.OFFLINE,
        )
        return context.partition_leaders_on(broker)
