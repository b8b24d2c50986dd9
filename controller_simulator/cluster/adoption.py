"""Take a cluster over as ZooKeeper holds it, to see what it would do next: what-if answers.

The rule: what ZooKeeper holds is taken as it is, and the rest as it is in a cluster at rest: every
registered broker serves its replicas, no log directory has failed, nobody is shutting down, and
what could be elected is. What only memory held is not there: which replicas lie in a failed log
directory, or a state that Kafka's machines never left.
Source (Kafka 3.9): kafka.controller.KafkaController.onControllerFailover.

>>> from controller_model.simulator_operations import CreateTopic, KillBroker, StartBroker
>>> cluster = Simulator()
>>> cluster.play([StartBroker(0), StartBroker(1), CreateTopic("t", ((1, 0),))])
>>> other = adopt(cluster.tree)
>>> _ = other.perform(KillBroker(1))
>>> other.tree.data("/brokers/topics/t/partitions/0/state")
'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":1,"isr":[0]}'
"""

from __future__ import annotations

from controller_model.kafka.states import PartitionState, ReplicaState
from controller_model.znodes.znode_kinds import decode_controller_epoch
from controller_simulator.cluster.active_controller import ActiveController
from controller_simulator.cluster.broker import SimulatedBroker
from controller_simulator.cluster.leadership import EventHandlers
from controller_simulator.cluster.settings import Chance, SimulatorSettings
from controller_simulator.cluster.simulator import Simulator
from controller_simulator.controller.context import ControllerContext
from controller_simulator.controller.leader_and_isr_receiver import ReplicaManager
from controller_simulator.controller.lifecycle import Lifecycle, controller_id
from controller_simulator.controller.phases import Phase
from controller_simulator.controller.steps import FAILOVER_STEPS, Step
from controller_simulator.zookeeper.tree import ZnodeTree
from controller_simulator.zookeeper.writes import CONTROLLER_EPOCH_PATH

READING_STEPS = (
    Step.READ_BROKERS,
    Step.READ_TOPICS,
    Step.READ_ASSIGNMENTS,
    Step.READ_LEADERSHIP,
    Step.START_TOPIC_DELETION,
    Step.SEND_METADATA,
)
"""What fills a controller's memory and writes nothing."""


def adopt(
    tree: ZnodeTree,
    *,
    settings: SimulatorSettings | None = None,
    chance: Chance | None = None,
) -> Simulator:
    """Return a simulator that goes on from this tree; it is changed from now on.

    Without a controller in the tree there is none until somebody stands for election.
    """
    cluster = Simulator(settings=settings, chance=chance, tree=tree)
    holder = controller_id(tree)
    for broker in sorted(int(name) for name in tree.children("/brokers/ids")):
        znode = tree.at(f"/brokers/ids/{broker}")
        cluster.brokers[broker] = SimulatedBroker(
            broker,
            znode.owner,
            Lifecycle(broker, Phase.STANDBY, active_controller_id=holder),
            ReplicaManager(broker, znode.czxid),
        )
    if holder in cluster.brokers:
        _take_office(cluster, cluster.brokers[holder])
    cluster.settle()
    return cluster


def _take_office(cluster: Simulator, run: SimulatedBroker) -> None:
    """Let the holder of /controller know what it would know."""
    epoch = cluster.tree.at(CONTROLLER_EPOCH_PATH)
    run.life = Lifecycle(
        run.id,
        Phase.ACTIVE,
        active_controller_id=run.id,
        epoch=decode_controller_epoch(epoch.data.encode()),
        epoch_zk_version=epoch.version,
        steps_done=len(FAILOVER_STEPS),
    )
    active = ActiveController(
        cluster.tree,
        cluster.settings,
        broker=run.id,
        session=run.session,
        epoch=run.life.epoch,
        epoch_zk_version=run.life.epoch_zk_version,
    )
    run.controller = EventHandlers(active, cluster.tree, cluster.settings)
    for step in READING_STEPS:
        active.run(step)
    _settle_replicas(active)
    active.partitions.startup()
    _settle_deletions(active.context)
    cluster.deliver(active.commit().requests)


def _settle_replicas(active: ActiveController) -> None:
    """Take live replicas for online and dead ones for offline, and tell the brokers of theirs.

    A new controller would take the dead ones out of the ISRs once more, and raise the epochs of
    those that are the last ones; the one that is in office did so when they died.
    """
    context = active.context
    online = []
    for replica in context.replicas_of_partitions(context.all_partitions()):
        is_online = context.is_replica_online(replica.replica, replica.topic_partition)
        context.replica_states[replica] = ReplicaState.ONLINE if is_online else ReplicaState.OFFLINE
        if is_online:
            online.append(replica)
    active.replicas.handle_state_changes(online, ReplicaState.ONLINE)


def _settle_deletions(context: ControllerContext) -> None:
    """Take deletions that wait for dead replicas for done as far as they go."""
    for topic in context.topics_to_be_deleted:
        context.topics_with_deletion_started.add(topic)
        for partition in context.partitions_of(topic):
            context.partition_states[partition] = PartitionState.NON_EXISTENT
        for replica in context.replicas_of_topic(topic):
            is_online = context.is_replica_online(replica.replica, replica.topic_partition)
            context.replica_states[replica] = (
                ReplicaState.DELETION_SUCCESSFUL if is_online else ReplicaState.DELETION_INELIGIBLE
            )
