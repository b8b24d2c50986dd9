"""Reads the simulated ZooKeeper for the simulated controller and brokers.

Every answer is what the tree holds now, decoded as a broker would; nothing is kept.
Sources (Kafka 3.9): kafka.zk.KafkaZkClient (getTopicPartitionStates,
getAllBrokerAndEpochsInCluster, getReplicaAssignmentAndTopicIdForTopics, getLogConfigs,
getPartitionReassignment).
"""

from collections.abc import Mapping, Sequence

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.ids import NO_CONTROLLER, TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.sources.zookeeper.config_payloads import decode_config
from controller_model.sources.zookeeper.payloads import (
    decode_partition_state,
    decode_partitions,
    decode_reassign_partitions,
    decode_topic,
)
from controller_simulator.controller.context import LeaderIsrAndControllerEpoch
from controller_simulator.controller.controller_io import (
    REASSIGN_PARTITIONS_PATH,
    state_path,
    topic_path,
)
from controller_simulator.zookeeper.transactions import CONTROLLER_EPOCH_PATH
from controller_simulator.zookeeper.tree import ZnodeTree

UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"


class ZnodeReader:
    """A `StateReader` over a tree, with what else a controller reads when its term begins."""

    def __init__(
        self, tree: ZnodeTree, *, broker: int = NO_CONTROLLER, unclean_by_default: bool = False
    ) -> None:
        """Read this tree as this broker; `unclean_by_default` is the value in its server.properties."""
        self._tree = tree
        self._broker = broker
        self._unclean_by_default = unclean_by_default

    def partition_state(self, partition: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        """Return a partition's state znode and its version; None if there is none."""
        znode = self._tree.find(state_path(partition))
        if znode is None:
            return None
        state = decode_partition_state(znode.data.encode())
        return LeaderIsrAndControllerEpoch(
            LeaderAndIsr(state.leader, state.isr, state.leader_epoch, state.leader_recovery_state),
            state.controller_epoch,
            znode.version,
        )

    def unclean_leader_election(self, topic: str) -> bool:
        """Return whether unclean.leader.election.enable holds for the topic.

        The topic's own value has precedence, then the one set for this broker, then the one for all
        brokers (DynamicBrokerConfig), then the one in the broker's file.
        """
        entities = (f"topics/{topic}", f"brokers/{self._broker}", "brokers/<default>")
        for entity in entities:
            found = self._tree.find(f"/config/{entity}")
            config = {} if found is None else decode_config(found.data.encode())
            if UNCLEAN_LEADER_ELECTION in config:
                return config[UNCLEAN_LEADER_ELECTION] == "true"
        return self._unclean_by_default

    def controller_epoch_zk_version(self) -> int:
        """Return the version of /controller_epoch."""
        return self._tree.at(CONTROLLER_EPOCH_PATH).version

    def children(self, path: str) -> Sequence[str]:
        """Return the names below a znode; none if it does not exist."""
        return self._tree.children(path)

    def reassign_partitions(self) -> Mapping[TopicPartition, tuple[int, ...]] | None:
        """Return what /admin/reassign_partitions asks for; None if it does not exist."""
        found = self._tree.find(REASSIGN_PARTITIONS_PATH)
        if found is None:
            return None
        asked = decode_reassign_partitions(found.data.encode())
        return {partition: tuple(replicas) for partition, replicas in asked.items()}

    def partitions_at(self, path: str) -> tuple[TopicPartition, ...]:
        """Return the partitions that a znode names; none if it does not exist."""
        found = self._tree.find(path)
        if found is None:
            return ()
        return decode_partitions(found.data.encode())

    def broker_epochs(self) -> dict[int, int]:
        """Return the registered brokers and their epochs (czxid), by id."""
        ids = sorted(int(name) for name in self._tree.children("/brokers/ids"))
        return {broker: self._tree.at(f"/brokers/ids/{broker}").czxid for broker in ids}

    def topics(self) -> tuple[str, ...]:
        """Return the names of all topics."""
        return self._tree.children("/brokers/topics")

    def topic(self, topic: str) -> tuple[dict[int, ReplicaAssignment], str | None]:
        """Return a topic's assignment by partition, and its id; empty if the topic does not exist."""
        found = self._tree.find(topic_path(topic))
        if found is None:
            return {}, None
        znode = decode_topic(found.data.encode())
        assignments = {
            partition: ReplicaAssignment(
                replicas, znode.adding.get(partition, ()), znode.removing.get(partition, ())
            )
            for partition, replicas in znode.partitions.items()
        }
        return assignments, znode.topic_id
