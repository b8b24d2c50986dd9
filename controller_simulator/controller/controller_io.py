"""Does the input and output of a controller: what it reads, asks ZooKeeper to write, and sends.

The machines decide, and use nothing but this for input and output. A caller provides a
`StateReader`, runs one step of the controller, and takes a `Transition`: writes in order, requests
in order, and what could not be done. A state that an earlier machine of the same step wrote is read
back from here, since the real controller reads ZooKeeper again before each of its writes. Sources
(Kafka 3.9): kafka.zk.KafkaZkClient; for the fence, retryRequestsUntilConnected with
expectedControllerEpochZkVersion.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from controller_model.kafka.elections import LeaderAndIsr, Strategy
from controller_model.kafka.ids import PartitionAndReplica, TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_simulator.controller.context import ControllerContext, LeaderIsrAndControllerEpoch
from controller_simulator.controller.request_batch import RequestBatch
from controller_simulator.controller.requests import Request
from controller_simulator.zookeeper.payload_writers import (
    encode_partition_state,
    encode_reassign_partitions,
    encode_topic,
)
from controller_simulator.zookeeper.transactions import (
    ControllerMovedError,
    CreateZnode,
    DeleteZnode,
    SetZnode,
    SingleWrite,
    ZnodeWrite,
    fenced,
)

ILLEGAL_STATE = "IllegalStateException"
"""The name of Kafka's error for a step that the tables of states do not allow."""

NODE_EXISTS = "NodeExistsException"
"""org.apache.zookeeper.KeeperException: the znode to be created exists already."""


class AbortedEventError(Exception):
    """An exception that Kafka's controller does not handle: the event ends here.

    What was done until then stays done (KafkaController.process logs the exception and takes the
    next event).
    """


class StateReader(Protocol):
    """ZooKeeper as the controller reads it. Every answer is as of now."""

    def partition_state(self, partition: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        """Return a partition's state znode and its version; None if there is none."""

    def unclean_leader_election(self, topic: str) -> bool:
        """Return whether unclean.leader.election.enable holds for the topic (getLogConfigs)."""

    def controller_epoch_zk_version(self) -> int:
        """Return the version of /controller_epoch."""

    def children(self, path: str) -> Sequence[str]:
        """Return the names below a znode; none if it does not exist."""

    def reassign_partitions(self) -> Mapping[TopicPartition, tuple[int, ...]] | None:
        """Return what /admin/reassign_partitions asks for; None if it does not exist."""


class TransitionFailure(msgspec.Struct, frozen=True):
    """A step that was not done: neither a state nor a znode changed."""

    subject: PartitionAndReplica | TopicPartition
    previous: PartitionState | ReplicaState
    target: PartitionState | ReplicaState
    error: str
    """The name of Kafka's exception."""


class HeldElection(msgspec.Struct, frozen=True):
    """An election that gave a partition a leader."""

    partition: TopicPartition
    strategy: Strategy
    unclean: bool


class Transition(msgspec.Struct):
    """The result of a step of the controller: writes and requests in order, and failures."""

    writes: list[ZnodeWrite] = []
    requests: list[Request] = []
    failed: list[TransitionFailure] = []
    aborted: str | None = None
    """Why the event was aborted; None = it was not."""
    elections: list[HeldElection] = []
    """The elections behind the writes; the first leader of a new partition is chosen without one."""


class ControllerIO:
    """What a controller has read, written and sent since the last `take_transition`."""

    def __init__(
        self,
        context: ControllerContext,
        reader: StateReader,
        *,
        leader_recovery_supported: bool = True,
    ) -> None:
        self.context = context
        self.reader = reader
        self.leader_recovery_supported = leader_recovery_supported
        self._done = Transition()
        self._written: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        self._reassign_partitions: Mapping[TopicPartition, tuple[int, ...]] | None = None
        self._reassign_partitions_written = False

    def take_transition(self) -> Transition:
        """Return what has been done since the last call, for ZooKeeper and the brokers.

        After that everything is read from the reader again.
        """
        done, self._done = self._done, Transition()
        self._written.clear()
        self._reassign_partitions_written = False
        return done

    @contextlib.contextmanager
    def event(self) -> Iterator[None]:
        """Handle an event: an error that aborts it is put into the `Transition` and is not raised."""
        try:
            yield
        except AbortedEventError as error:
            self._done.aborted = str(error)

    def new_batch(self) -> RequestBatch:
        """Return an empty batch of requests."""
        return RequestBatch(self.context, leader_recovery_supported=self.leader_recovery_supported)

    def send(self, batch: RequestBatch) -> None:
        """Send what the batch holds."""
        self._done.requests.extend(batch.requests())

    def send_update_metadata(
        self, partitions: Iterable[TopicPartition] = (), *, brokers: Iterable[int] | None = None
    ) -> None:
        """Send these brokers metadata alone (KafkaController.sendUpdateMetadataRequest).

        None = all that are registered. Without partitions the request says who is registered.
        """
        batch = self.new_batch()
        to_all = self.context.live_or_shutting_down_brokers
        batch.add_update_metadata(to_all if brokers is None else brokers, partitions)
        self.send(batch)

    def fail(
        self,
        subject: PartitionAndReplica | TopicPartition,
        previous: PartitionState | ReplicaState,
        target: PartitionState | ReplicaState,
        error: str,
    ) -> TransitionFailure:
        """Record that a step was not done (logFailedStateChange)."""
        failure = TransitionFailure(subject, previous, target, error)
        self._done.failed.append(failure)
        return failure

    def note_election(
        self, partition: TopicPartition, strategy: Strategy, *, unclean: bool
    ) -> None:
        """Record that a leader was elected."""
        self._done.elections.append(HeldElection(partition, strategy, unclean))

    # --- ZooKeeper --------------------------------------------------------------------------

    def write(self, write: SingleWrite) -> None:
        """Ask for a write, fenced by the controller's epoch; raise if another controller has raised the epoch."""
        version = self.context.epoch_zk_version
        found = self.reader.controller_epoch_zk_version()
        if found != version:
            raise ControllerMovedError(
                f"controller epoch zkVersion check fails: expected {version}, found {found}"
            )
        self._done.writes.append(fenced(write, epoch_zk_version=version))

    def partition_state(self, partition: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        """Return a partition's state as ZooKeeper holds it now (getTopicPartitionStatesRaw)."""
        written = self._written.get(partition)
        return self.reader.partition_state(partition) if written is None else written

    def create_state(
        self, partition: TopicPartition, leader_and_isr: LeaderAndIsr
    ) -> LeaderIsrAndControllerEpoch:
        """Ask for a partition's first state (createTopicPartitionStatesRaw)."""
        state = LeaderIsrAndControllerEpoch(leader_and_isr, self.context.epoch)
        data = encode_partition_state(leader_and_isr, state.controller_epoch).decode()
        self.write(CreateZnode(state_path(partition), data))
        self._written[partition] = state
        return state

    def update_state(
        self, partition: TopicPartition, leader_and_isr: LeaderAndIsr, *, partition_epoch: int
    ) -> LeaderIsrAndControllerEpoch:
        """Ask for a partition's next state over the version that was read (updateLeaderAndIsr)."""
        state = LeaderIsrAndControllerEpoch(leader_and_isr, self.context.epoch, partition_epoch + 1)
        data = encode_partition_state(leader_and_isr, state.controller_epoch).decode()
        self.write(SetZnode(state_path(partition), data, partition_epoch))
        self._written[partition] = state
        return state

    def set_topic_assignment(
        self, topic: str, assignments: Mapping[int, ReplicaAssignment]
    ) -> None:
        """Ask for a topic's assignment (setTopicAssignmentRaw)."""
        data = encode_topic(assignments, topic_id=self.context.topic_ids.get(topic))
        self.write(SetZnode(topic_path(topic), data.decode()))

    def delete_recursive(self, path: str) -> None:
        """Ask for the deletion of a znode, after all below it (deleteRecursive)."""
        for child in self.reader.children(path):
            self.delete_recursive(f"{path}/{child}")
        self.write(DeleteZnode(path))

    def reassign_partitions(self) -> Mapping[TopicPartition, tuple[int, ...]] | None:
        """Return what /admin/reassign_partitions asks for now; None if it does not exist."""
        if self._reassign_partitions_written:
            return self._reassign_partitions
        return self.reader.reassign_partitions()

    def set_reassign_partitions(self, left: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        """Ask that /admin/reassign_partitions holds these, and that it is deleted when there are none."""
        if left:
            data = encode_reassign_partitions(left).decode()
            self.write(SetZnode(REASSIGN_PARTITIONS_PATH, data))
        else:
            self.write(DeleteZnode(REASSIGN_PARTITIONS_PATH))
        self._reassign_partitions = dict(left) or None
        self._reassign_partitions_written = True


REASSIGN_PARTITIONS_PATH = "/admin/reassign_partitions"
"""Where legacy tools ask for reassignments (kafka.zk.ReassignPartitionsZNode)."""

ISR_CHANGES_PATH = "/isr_change_notification"
"""Where leaders announce the ISRs that they wrote (kafka.zk.IsrChangeNotificationZNode)."""

LOG_DIR_EVENTS_PATH = "/log_dir_event_notification"
"""Where brokers announce failed log directories (kafka.zk.LogDirEventNotificationZNode)."""

PREFERRED_ELECTION_PATH = "/admin/preferred_replica_election"
"""Where legacy tools ask for elections (kafka.zk.PreferredReplicaElectionZNode)."""


def name_of(partition: TopicPartition | PartitionAndReplica) -> str:
    """Return a partition's name as Kafka prints it (TopicPartition.toString)."""
    return f"{partition.topic}-{partition.partition}"


def topic_path(topic: str) -> str:
    """Return a topic's znode (kafka.zk.TopicZNode)."""
    return f"/brokers/topics/{topic}"


def partitions_path(topic: str) -> str:
    """Return the container of a topic's partitions (kafka.zk.TopicPartitionsZNode)."""
    return f"{topic_path(topic)}/partitions"


def partition_path(partition: TopicPartition) -> str:
    """Return the container of a partition's state (kafka.zk.TopicPartitionZNode)."""
    return f"{partitions_path(partition.topic)}/{partition.partition}"


def state_path(partition: TopicPartition) -> str:
    """Return a partition's state znode (kafka.zk.TopicPartitionStateZNode).

    >>> state_path(TopicPartition("t", 3))
    '/brokers/topics/t/partitions/3/state'
    """
    return f"{partition_path(partition)}/state"
