"""A controller over a ZooKeeper in a dictionary, for the tests of its state machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller_model.kafka.cluster_facts import has_preferred_leader
from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.ids import PartitionAndReplica, TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import PartitionState
from controller_model.sources.zookeeper.payloads import (
    decode_partition_state,
    decode_reassign_partitions,
    decode_topic,
)
from controller_simulator.controller.context import ControllerContext, LeaderIsrAndControllerEpoch
from controller_simulator.controller.controller_io import ControllerIO, Transition
from controller_simulator.controller.partition_machine import PartitionStateMachine
from controller_simulator.controller.reassignment import Reassignments
from controller_simulator.controller.replica_machine import ReplicaStateMachine
from controller_simulator.controller.requests import (
    LeaderAndIsrRequest,
    Request,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller_simulator.controller.topic_deletion import TopicDeletionManager
from controller_simulator.zookeeper.transactions import (
    CheckZnode,
    CreateZnode,
    DeleteZnode,
    Multi,
    SetZnode,
    ZnodeWrite,
)

EPOCH = 50
EPOCH_ZK_VERSION = 49
"""The version grows by one for each controller; the first epoch is 1, in version 0."""


class Zookeeper:
    """Data and versions by path; writes raise where the real ZooKeeper would refuse them."""

    def __init__(self) -> None:
        self.znodes: dict[str, tuple[str, int]] = {}
        self.unclean: set[str] = set()
        self.epoch_version = EPOCH_ZK_VERSION
        self.reassignments: dict[TopicPartition, tuple[int, ...]] | None = None

    def partition_state(self, partition: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        """Read a state znode."""
        found = self.znodes.get(
            f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"
        )
        if found is None:
            return None
        state = decode_partition_state(found[0].encode())
        return LeaderIsrAndControllerEpoch(
            LeaderAndIsr(state.leader, state.isr, state.leader_epoch, state.leader_recovery_state),
            state.controller_epoch,
            found[1],
        )

    def unclean_leader_election(self, topic: str) -> bool:
        """Return whether the topic allows unclean elections."""
        return topic in self.unclean

    def controller_epoch_zk_version(self) -> int:
        """Return the version of /controller_epoch."""
        return self.epoch_version

    def children(self, path: str) -> Sequence[str]:
        """Return the names right below a path."""
        below = (other[len(path) + 1 :] for other in self.znodes if other.startswith(f"{path}/"))
        return list(dict.fromkeys(name.split("/")[0] for name in below))

    def reassign_partitions(self) -> Mapping[TopicPartition, tuple[int, ...]] | None:
        """Return the reassignment that legacy tools request."""
        return self.reassignments

    def make(self, write: CreateZnode | SetZnode | DeleteZnode) -> None:
        """Perform a write as ZooKeeper would."""
        if write.path == "/admin/reassign_partitions":
            self.reassignments = None
            if isinstance(write, SetZnode):
                asked = decode_reassign_partitions(write.data.encode())
                self.reassignments = {p: tuple(replicas) for p, replicas in asked.items()}
            return
        found = self.znodes.get(write.path)
        if isinstance(write, CreateZnode):
            if found is None:
                self.znodes[write.path] = (write.data, 0)
            else:
                assert not write.path.endswith("/state"), f"{write.path} is there already"
        elif isinstance(write, SetZnode):
            assert found is not None, f"{write.path} is not there"
            assert write.expected_version in {-1, found[1]}, f"{write}: version {found[1]}"
            self.znodes[write.path] = (write.data, found[1] + 1)
        else:
            assert not self.children(write.path), f"{write.path} is not empty"
            self.znodes.pop(write.path, None)


class Play:
    """A controller under epoch 50 with its state machines, over its own ZooKeeper."""

    def __init__(self, *live: int, delete_topic_enable: bool = True, **options: Any) -> None:
        self.zookeeper = Zookeeper()
        self.context = ControllerContext(
            controller_id=1,
            epoch=EPOCH,
            epoch_zk_version=EPOCH_ZK_VERSION,
            live_broker_epochs={broker: 100 + broker for broker in live},
        )
        self.io = ControllerIO(self.context, self.zookeeper, **options)
        self.replicas = ReplicaStateMachine(self.io)
        self.partitions = PartitionStateMachine(self.io)
        self.deletion = TopicDeletionManager(
            self.io, self.replicas, self.partitions, delete_topic_enable=delete_topic_enable
        )
        self.reassignments = Reassignments(self.io, self.replicas, self.partitions, self.deletion)

    def topic(self, name: str, *assignment: Sequence[int]) -> list[TopicPartition]:
        """Add a topic with these replicas and without states; return its partitions."""
        self.context.topics[name] = None
        self.context.topic_ids[name] = f"id-of-{name}"
        self.zookeeper.znodes[f"/brokers/topics/{name}"] = ("", 0)
        self.zookeeper.znodes[f"/config/topics/{name}"] = ("", 0)
        for number, replicas in enumerate(assignment):
            self.context.assign(TopicPartition(name, number), ReplicaAssignment(tuple(replicas)))
        return list(self.context.partitions_of(name))

    def created(self, name: str, *assignment: Sequence[int]) -> list[TopicPartition]:
        """Add a topic whose partitions and replicas have passed through the state machines."""
        partitions = self.topic(name, *assignment)
        self.replicas.startup()
        self.partitions.startup()
        self.take_transition()
        return partitions

    def state(self, partition: TopicPartition, leader: int, *isr: int, **more: int) -> None:
        """Put a state into ZooKeeper and into the controller's memory."""
        epoch, controller_epoch = more.get("leader_epoch", 0), more.get("controller_epoch", EPOCH)
        version = more.get("version", 0)
        data = (
            f'{{"controller_epoch":{controller_epoch},"leader":{leader},"version":1,'
            f'"leader_epoch":{epoch},"isr":{list(isr)}}}'
        )
        path = f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"
        self.zookeeper.znodes[path] = (data, version)
        self.context.leadership[partition] = LeaderIsrAndControllerEpoch(
            LeaderAndIsr(leader, isr, epoch), controller_epoch, version
        )

    def take_transition(self) -> Transition:
        """Take the transition, and perform its writes."""
        done = self.io.take_transition()
        for write in done.writes:
            for part in unfenced(write):
                self.zookeeper.make(part)
        return done

    def written(self, partition: TopicPartition) -> tuple[int, tuple[int, ...], int, int]:
        """Return leader, ISR, leader epoch and version in ZooKeeper, with all writes applied."""
        found = self.zookeeper.partition_state(partition)
        assert found is not None
        state = found.leader_and_isr
        assert found.controller_epoch == EPOCH
        assert self.context.leadership[partition] == found
        return state.leader, state.isr, state.leader_epoch, found.partition_epoch

    def assignment(self, topic: str) -> dict[int, ReplicaAssignment]:
        """Return a topic's assignment in ZooKeeper."""
        znode = decode_topic(self.zookeeper.znodes[f"/brokers/topics/{topic}"][0].encode())
        return {
            partition: ReplicaAssignment(
                replicas, znode.adding.get(partition, ()), znode.removing.get(partition, ())
            )
            for partition, replicas in znode.partitions.items()
        }


def unfenced(write: ZnodeWrite) -> tuple[CreateZnode | SetZnode | DeleteZnode, ...]:
    """Return the changes of a write, without the transaction and its checks."""
    if isinstance(write, Multi):
        return tuple(part for part in write.writes if not isinstance(part, CheckZnode))
    return (write,)


def offline_partition_count(context: ControllerContext) -> int:
    """Return the gauge OfflinePartitionsCount: topics whose deletion has begun do not count.

    A topic whose deletion is queued and waits still counts (updatePartitionStateMetrics). A deleted
    topic whose partitions' states are still remembered does not.
    """
    return sum(
        p.topic in context.assignments and p.topic not in context.topics_with_deletion_started
        for p, state in context.partition_states.items()
        if state is PartitionState.OFFLINE
    )


def preferred_replica_imbalance_count(context: ControllerContext) -> int:
    """Return the gauge PreferredReplicaImbalanceCount, with hasPreferredLeader's exemption."""
    count = 0
    for partition, state in context.leadership.items():
        assignment, decided = context.assignment_of(partition), state.leader_and_isr
        count += not context.is_queued_for_deletion(partition.topic) and not has_preferred_leader(
            assignment.replicas[0], assignment.adding, decided.leader, decided.isr
        )
    return count


def replica(partition: TopicPartition, broker: int) -> PartitionAndReplica:
    """Return a replica of a partition."""
    return PartitionAndReplica(partition.topic, partition.partition, broker)


def in_short(requests: Sequence[Request]) -> list[str]:
    """Return requests in short: kind, broker, and the deciding values."""
    lines = []
    for request in requests:
        match request:
            case LeaderAndIsrRequest():
                lines += [
                    f"LeaderAndIsr to {request.broker}: {p.partition.topic}-{p.partition.partition} "
                    f"leader {p.leader} epoch {p.leader_epoch} isr {list(p.isr)}"
                    + (" new" if p.is_new else "")
                    for p in request.partitions
                ]
            case UpdateMetadataRequest():
                about = [f"{p.partition.topic}-{p.partition.partition}" for p in request.partitions]
                lines.append(f"UpdateMetadata to {request.broker}: {about}")
            case StopReplicaRequest():
                lines += [
                    f"StopReplica to {request.broker}: {p.partition.topic}-{p.partition.partition}"
                    f" epoch {p.leader_epoch}" + (" delete" if p.delete else "")
                    for p in request.partitions
                ]
    return lines
