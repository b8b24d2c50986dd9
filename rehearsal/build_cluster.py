"""Build the simulated cluster of a rehearsal: a cluster's facts as znodes.

The rule: only what ZooKeeper is known to hold is placed. Replicas that are out of the ISR although their
partition has a leader stay out of it, because it is not known whether they can catch up. All others catch
up once they have a leader to follow.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from controller_model.insight.loss import settled
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.ids import NO_LEADER, TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_simulator.cluster.active_controller import FEATURE_PATH
from controller_simulator.cluster.broker import CLUSTER_ID_PATH, PERSISTENT_PATHS
from controller_simulator.cluster.loading import load_cluster
from controller_simulator.cluster.settings import Choices, SimulatorSettings
from controller_simulator.cluster.simulator import FIRST_SESSION, ZooKeeperModeSimulator
from controller_simulator.cluster.znode_reader import UNCLEAN_LEADER_ELECTION
from controller_simulator.controller.controller_io import state_path, topic_path
from controller_simulator.controller.lifecycle import CONTROLLER_PATH
from controller_simulator.zookeeper.payload_writers import (
    encode_cluster_id,
    encode_config,
    encode_controller,
    encode_feature,
    encode_partition_state,
    encode_topic,
)
from controller_simulator.zookeeper.transactions import CONTROLLER_EPOCH_PATH
from controller_simulator.zookeeper.tree import ZnodeTree


class RehearsedChoices(Choices):
    """The outcomes of races in a rehearsal: the candidates are recorded, and the lowest broker id wins."""

    def __init__(self, lagging: Iterable[tuple[TopicPartition, int]]) -> None:
        """Prepare choices that keep these followers out of the ISRs."""
        self.lagging = frozenset(lagging)
        self.raced: list[tuple[int, ...]] = []
        """The candidates for /controller, for each time that one of them took it."""
        self.dead: list[tuple[TopicPartition, tuple[int, ...]]] = []
        """Dead members of ISRs that their leaders remove next, because the controller does not."""

    def first(self, candidates: tuple[int, ...]) -> int:
        """Return the lowest candidate, and record all of them."""
        self.raced.append(candidates)
        return super().first(candidates)

    def falls_behind(self) -> tuple[TopicPartition, tuple[int, ...]] | None:
        """Return dead members of an ISR for their leader to remove."""
        return self.dead.pop() if self.dead else None

    def keeps_up(self, partition: TopicPartition, follower: int) -> bool:
        """Return whether a follower was not already behind a leader when the rehearsal began."""
        return (partition, follower) not in self.lagging


def build_cluster(
    facts: ClusterFacts, partitions: Sequence[PartitionFacts], *, is_zombie: bool = False
) -> ZooKeeperModeSimulator:
    """Return a simulated cluster with these facts; its choices are `RehearsedChoices`.

    Pending leader writes are made before the first step, as the controller does, unless it is a zombie.
    """
    behind = (
        (partition.id, replica) for partition in partitions for replica in lagging(facts, partition)
    )
    return load_cluster(
        _tree(facts, partitions),
        settings=SimulatorSettings(),
        choices=RehearsedChoices(behind),
        hangs=is_zombie,
    )


def lagging(facts: ClusterFacts, partition: PartitionFacts) -> list[int]:
    """Return the live replicas that are out of the ISR although the partition has a leader, or gets one at once."""
    if not partition.counts or settled(partition, facts, facts.live)[0] == NO_LEADER:
        return []
    return [
        replica
        for replica in partition.replicas
        if replica not in partition.isr and replica in facts.live
    ]


def _tree(facts: ClusterFacts, partitions: Sequence[PartitionFacts]) -> ZnodeTree:
    tree = ZnodeTree(zxid=1)
    for path in PERSISTENT_PATHS:
        tree.place(path)
    tree.place(CLUSTER_ID_PATH, encode_cluster_id("rehearsed").decode())
    tree.place(FEATURE_PATH, encode_feature(enabled=True).decode())
    for broker in sorted(facts.live):
        tree.place(f"/brokers/ids/{broker}", "{}", owner=_session(broker))
    controller = encode_controller(facts.controller, timestamp=0).decode()
    tree.place(CONTROLLER_PATH, controller, owner=_session(facts.controller))
    epoch = facts.controller_epoch
    if epoch is None:
        epoch = max((partition.controller_epoch for partition in partitions), default=1)
    tree.place(CONTROLLER_EPOCH_PATH, str(epoch))
    _place_unclean(tree, "brokers", facts.broker_unclean)
    for topic, its in groupby(partitions, key=attrgetter("topic")):
        _place_topic(tree, topic, list(its))
    return tree


def _session(broker: int) -> int:
    """Return the session of a broker that was there before: below those that the simulator opens."""
    return FIRST_SESSION - 1 - broker


def _place_unclean(tree: ZnodeTree, kind: str, unclean: Mapping[str, bool]) -> None:
    for name, value in unclean.items():
        config = encode_config({UNCLEAN_LEADER_ELECTION: str(value).lower()})
        tree.place(f"/config/{kind}/{name}", config.decode())


def _place_topic(tree: ZnodeTree, topic: str, partitions: Sequence[PartitionFacts]) -> None:
    assignments = {
        each.partition: ReplicaAssignment(each.replicas, each.adding, each.removing)
        for each in partitions
    }
    tree.place(topic_path(topic), encode_topic(assignments, topic_id=None).decode())
    unclean = partitions[0].unclean
    if unclean is not None:
        _place_unclean(tree, "topics", {topic: unclean})
    if partitions[0].deleting:
        tree.place(f"/admin/delete_topics/{topic}")
    for each in partitions:
        if each.leader is None:
            continue
        decided = LeaderAndIsr(each.leader, each.isr, each.leader_epoch)
        state = encode_partition_state(decided, each.controller_epoch)
        tree.place(state_path(each.id), state.decode())
