"""Simulates the active controller for one term, from the first step of the failover.

Each event is handled to its end. Then its decisions are written, in order, in the
controller's session, each write fenced by the controller's epoch, and the requests are sent to the
brokers. Sources (Kafka 3.9): kafka.controller.KafkaController: onControllerFailover,
initializeControllerContext, fetchTopicDeletionsInProgress, fetchPendingPreferredReplicaElections.
"""

from collections.abc import Callable, Iterable

from controller_model.kafka.elections import Strategy
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.states import PartitionState
from controller_simulator.cluster.settings import SimulatorSettings
from controller_simulator.cluster.znode_reader import ZnodeReader
from controller_simulator.controller.context import ControllerContext
from controller_simulator.controller.controller_io import (
    ISR_CHANGES_PATH,
    LOG_DIR_EVENTS_PATH,
    PREFERRED_ELECTION_PATH,
    ControllerIO,
    Transition,
)
from controller_simulator.controller.lifecycle import Lifecycle
from controller_simulator.controller.partition_machine import PartitionStateMachine
from controller_simulator.controller.phases import ElectionStep
from controller_simulator.controller.reassignment import Reassignments
from controller_simulator.controller.replica_machine import ReplicaStateMachine
from controller_simulator.controller.topic_deletion import TopicDeletionManager
from controller_simulator.zookeeper.payload_writers import encode_feature
from controller_simulator.zookeeper.transactions import CreateZnode, DeleteZnode
from controller_simulator.zookeeper.tree import ZnodeTree

FEATURE_PATH = "/feature"


class ActiveController:
    """One term of one broker as the controller."""

    def __init__(
        self, tree: ZnodeTree, settings: SimulatorSettings, life: Lifecycle, *, session: int
    ) -> None:
        """Begin the term of a broker that has won; the failover's steps fill the context."""
        self.tree = tree
        self.settings = settings
        self.session = session
        self.reader = ZnodeReader(
            tree, broker=life.broker, unclean_by_default=settings.unclean_leader_election
        )
        self.context = ControllerContext(
            controller_id=life.broker, epoch=life.epoch, epoch_zk_version=life.epoch_zk_version
        )
        self.io = ControllerIO(
            self.context, self.reader, leader_recovery_supported=settings.leader_recovery_supported
        )
        self.partitions = PartitionStateMachine(self.io)
        self.replicas = ReplicaStateMachine(self.io)
        self.deletion = TopicDeletionManager(
            self.io, self.replicas, self.partitions, delete_topic_enable=settings.delete_topic
        )
        self.reassignments = Reassignments(self.io, self.replicas, self.partitions, self.deletion)
        self._steps = self._failover_steps()

    def _failover_steps(self) -> dict[ElectionStep, Callable[[], object]]:
        return {
            ElectionStep.SET_UP_FEATURES: self._set_up_features,
            ElectionStep.DELETE_LOG_DIR_EVENTS: lambda: self.delete_children(LOG_DIR_EVENTS_PATH),
            ElectionStep.DELETE_ISR_CHANGES: lambda: self.delete_children(ISR_CHANGES_PATH),
            ElectionStep.READ_BROKERS: self._read_brokers,
            ElectionStep.READ_TOPICS: self._read_topics,
            ElectionStep.READ_ASSIGNMENTS: self._read_assignments,
            ElectionStep.READ_LEADERSHIP: lambda: self.read_leadership(
                self.context.all_partitions()
            ),
            ElectionStep.START_TOPIC_DELETION: self._start_topic_deletion,
            ElectionStep.SEND_METADATA: self.io.send_update_metadata,
            ElectionStep.START_REPLICA_MACHINE: self.replicas.startup,
            ElectionStep.START_PARTITION_MACHINE: self.partitions.startup,
            ElectionStep.RESUME_REASSIGNMENTS: self._resume_reassignments,
            ElectionStep.TRY_TOPIC_DELETION: self.deletion.try_topic_deletion,
            ElectionStep.RESUME_PREFERRED_ELECTION: self._resume_preferred_election,
        }

    def commit(self) -> Transition:
        """Write what was decided, and return it. A refused create is not an error, as in Kafka."""
        done = self.io.take_transition()
        for write in done.writes:
            self.tree.attempt(write, session=self.session)
        return done

    def run(self, step: ElectionStep) -> None:
        """Do one step of the failover."""
        self._steps[step]()

    # --- the failover -----------------------------------------------------------------------

    def _set_up_features(self) -> None:
        """Create /feature if it does not exist (enableFeatureVersioning); the simulator upgrades nothing."""
        if self.tree.find(FEATURE_PATH) is None:
            settings = self.settings
            data = encode_feature(
                enabled=settings.alter_partition, version=settings.features_version
            )
            self.tree.attempt(CreateZnode(FEATURE_PATH, data.decode()), session=self.session)

    def delete_children(self, path: str) -> None:
        """Delete all notifications below a znode."""
        for name in self.reader.children(path):
            self.io.write(DeleteZnode(f"{path}/{name}"))

    def _read_brokers(self) -> None:
        self.context.live_broker_epochs = self.reader.broker_epochs()

    def _read_topics(self) -> None:
        self.context.topics = dict.fromkeys(self.reader.topics())

    def _read_assignments(self) -> None:
        context = self.context
        for topic in context.topics:
            self.read_assignment(topic)
        for partition in context.all_partitions():
            if context.assignment_of(partition).is_being_reassigned:
                context.being_reassigned[partition] = None

    def read_assignment(self, topic: str) -> list[TopicPartition]:
        """Read a topic's znode into the context; return the topic's partitions."""
        assignments, topic_id = self.reader.topic(topic)
        if topic_id is not None:
            self.context.topic_ids[topic] = topic_id
        for partition, assignment in assignments.items():
            self.context.assign(TopicPartition(topic, partition), assignment)
        return [TopicPartition(topic, partition) for partition in assignments]

    def read_leadership(self, partitions: Iterable[TopicPartition]) -> None:
        """Read leaders, from ZooKeeper and from this step's writes, into the context (updateLeaderAndIsrCache)."""
        for partition in partitions:
            state = self.io.partition_state(partition)
            if state is not None:
                self.context.leadership[partition] = state

    def _start_topic_deletion(self) -> None:
        # Kafka looks at all topics, and then drops those that nobody asked to delete.
        context, asked = self.context, self.reader.children("/admin/delete_topics")
        ineligible = {
            replica.topic
            for topic in asked
            for replica in context.replicas_of_topic(topic)
            if not context.is_replica_online(replica.replica, replica.topic_partition)
        } | {partition.topic for partition in context.being_reassigned}
        self.deletion.init(asked, ineligible)

    def _resume_reassignments(self) -> None:
        resumed = {tp for tp, error in self.reassignments.process_znode().items() if error is None}
        self.reassignments.resume(lambda partition, _: partition not in resumed)

    def _resume_preferred_election(self) -> None:
        """Elect what a legacy tool asked the last controller for (fetchPendingPreferredReplicaElections)."""
        pending = [
            partition
            for partition in self.reader.partitions_at(PREFERRED_ELECTION_PATH)
            if self.context.replicas_of(partition)
            and not self.leads_preferred(partition)
            and not self.context.is_queued_for_deletion(partition.topic)
        ]
        self.partitions.handle_state_changes(pending, PartitionState.ONLINE, Strategy.PREFERRED)
        self.io.write(DeleteZnode(PREFERRED_ELECTION_PATH))

    def leads_preferred(self, partition: TopicPartition) -> bool:
        """Return whether the first replica leads, according to the controller's memory."""
        state = self.context.leadership.get(partition)
        first = self.context.replicas_of(partition)[0]
        return state is not None and state.leader_and_isr.leader == first
