"""Loads a cluster from its znodes, to see what it would do next: what-if answers are based on this.

What ZooKeeper holds is taken as it is; everything else is assumed as in a cluster in
which nothing is under way. Every registered broker serves its replicas, no log directory has failed, no broker is
shutting down, every leader that can be elected is elected, and dead replicas have left the ISRs. What only the brokers' memory held
is lost: which replicas are in a failed log directory, or a state that Kafka's machines never left.
Source (Kafka 3.9): kafka.controller.KafkaController.onControllerFailover.

>>> from controller_simulator.cluster.operations import KillBroker, StartBroker
>>> cluster = ZooKeeperModeSimulator()
>>> for operation in (StartBroker(0), StartBroker(1)):
...     cluster.perform(operation)
>>> other = load_cluster(cluster.tree)
>>> other.perform(KillBroker(0))
>>> other.controller.id, other.tree.data("/controller_epoch")
(1, '2')
"""

from collections.abc import Mapping

import msgspec

from controller_model.kafka.ids import PartitionAndReplica, TopicPartition, new_tuple
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_model.sources.zookeeper.payloads import decode_controller_epoch
from controller_simulator.cluster.active_controller import ActiveController
from controller_simulator.cluster.broker import SimulatedBroker
from controller_simulator.cluster.settings import Choices, SimulatorSettings
from controller_simulator.cluster.simulator import ZooKeeperModeSimulator
from controller_simulator.controller.context import ControllerContext, LeaderIsrAndControllerEpoch
from controller_simulator.controller.leader_and_isr_receiver import HostedPartition, ReplicaManager
from controller_simulator.controller.lifecycle import Lifecycle, controller_id
from controller_simulator.controller.phases import FAILOVER_STEPS, ElectionStep, Phase
from controller_simulator.zookeeper.transactions import CONTROLLER_EPOCH_PATH
from controller_simulator.zookeeper.tree import ZnodeTree

READING_STEPS = (
    ElectionStep.READ_BROKERS,
    ElectionStep.READ_TOPICS,
    ElectionStep.READ_ASSIGNMENTS,
    ElectionStep.READ_LEADERSHIP,
    ElectionStep.START_TOPIC_DELETION,
    ElectionStep.SEND_METADATA,
)
"""The steps that fill a controller's memory and write nothing."""


def load_cluster(
    tree: ZnodeTree,
    *,
    settings: SimulatorSettings | None = None,
    choices: Choices | None = None,
    hangs: bool = False,
) -> ZooKeeperModeSimulator:
    """Return a simulator that continues from this tree, and changes it from now on.

    If the controller hangs, nothing that it has to write is written until another one is elected.
    """
    cluster = ZooKeeperModeSimulator(settings=settings, choices=choices, tree=tree)
    restore(cluster, hangs=hangs)
    return cluster


def restore(cluster: ZooKeeperModeSimulator, *, hangs: bool = False) -> None:
    """Let a simulator without brokers continue from its tree, with a controller that works or hangs.

    Without a controller in the tree there is none until the next election.
    """
    tree = cluster.tree
    holder = controller_id(tree)
    for broker in sorted(int(name) for name in tree.children("/brokers/ids")):
        znode = tree.at(f"/brokers/ids/{broker}")
        cluster.brokers[broker] = SimulatedBroker(
            broker,
            znode.owner,
            Lifecycle(
                broker,
                Phase.STANDBY,
                active_controller_id=holder,
                kraft_controller_epoch=cluster.settings.kraft_controller_epoch,
            ),
            ReplicaManager(broker, znode.czxid),
        )
    if holder in cluster.brokers:
        run = cluster.brokers[holder]
        standby = run.life
        active = _restore_memory(cluster, run)
        if hangs:
            run.hangs, run.life, run.controller = True, standby, None
        else:
            active.partitions.startup()
            removals = _pending_removals(active.context)
            active.replicas.handle_state_changes(removals, ReplicaState.OFFLINE)
            _restore_deletions(active.context)
            cluster.deliver(active.commit().requests)
    cluster.run_until_quiet()


def _restore_memory(cluster: ZooKeeperModeSimulator, run: SimulatedBroker) -> ActiveController:
    """Let a broker be the controller, with all in its memory that it reads in a failover; it writes nothing."""
    epoch = cluster.tree.at(CONTROLLER_EPOCH_PATH)
    run.life = msgspec.structs.replace(
        run.life,
        phase=Phase.ACTIVE,
        epoch=decode_controller_epoch(epoch.data.encode()),
        epoch_zk_version=epoch.version,
        steps_done=len(FAILOVER_STEPS),
    )
    run.controller = active = cluster.begin_term(run)
    for step in READING_STEPS:
        active.run(step)
    cluster.add_lagging(_restore_replicas(active, cluster.brokers))
    return active


def _restore_replicas(
    active: ActiveController, brokers: Mapping[int, SimulatedBroker]
) -> list[TopicPartition]:
    """Mark live replicas online and dead ones offline, and let brokers serve the live ones.

    A new controller would remove the dead ones from the ISRs again, and raise the epochs of
    partitions where they are the last in the ISR; the current controller did so when they died.
    What brokers were sent then is what they serve now; sending it again would be most of the work.
    Return the partitions in which a live replica is out of the ISR.
    """
    context = active.context
    states = context.replica_states
    lagging = []
    for partition in context.all_partitions():
        state = context.leadership.get(partition)
        for broker in context.replicas_of(partition):
            replica = new_tuple(PartitionAndReplica, (*partition, broker))
            if broker not in brokers:
                states[replica] = ReplicaState.OFFLINE
                continue
            states[replica] = ReplicaState.ONLINE
            if state is None:
                continue
            brokers[broker].manager.partitions[partition] = _hosted(context, partition, state)
            if broker not in state.leader_and_isr.isr:
                lagging.append(partition)
    return lagging


def _pending_removals(context: ControllerContext) -> list[PartitionAndReplica]:
    """Return the dead replicas that the controller would have removed from an ISR with other members when they died."""
    live = context.live_broker_epochs
    return [
        new_tuple(PartitionAndReplica, (*partition, member))
        for partition, state in context.leadership.items()
        if len(state.leader_and_isr.isr) > 1 and not context.is_queued_for_deletion(partition.topic)
        for member in state.leader_and_isr.isr
        if member not in live and member in context.replicas_of(partition)
    ]


def _hosted(
    context: ControllerContext, partition: TopicPartition, state: LeaderIsrAndControllerEpoch
) -> HostedPartition:
    """Return what a broker holds of a partition after it was sent this state (ReplicaManager._apply_partition)."""
    decided = state.leader_and_isr
    topic_id = context.topic_ids.get(partition.topic)
    if decided.leader not in context.live_broker_epochs:
        return HostedPartition(topic_id=topic_id)
    return HostedPartition(
        leader_epoch=decided.leader_epoch,
        partition_epoch=state.partition_epoch,
        leader=decided.leader,
        topic_id=topic_id,
        isr=decided.isr,
        replicas=context.replicas_of(partition),
        controller_epoch=state.controller_epoch,
        serves=True,
    )


def _restore_deletions(context: ControllerContext) -> None:
    """Restore deletions: done for live replicas, waiting for dead ones."""
    for topic in context.topics_to_be_deleted:
        context.topics_with_deletion_started.add(topic)
        for partition in context.partitions_of(topic):
            context.partition_states[partition] = PartitionState.NON_EXISTENT
        for replica in context.replicas_of_topic(topic):
            is_online = context.is_replica_online(replica.replica, replica.topic_partition)
            context.replica_states[replica] = (
                ReplicaState.DELETION_SUCCESSFUL if is_online else ReplicaState.DELETION_INELIGIBLE
            )
