"""What the simulated brokers do for administrators: topics, settings, requests to the controller.

The rule: a request is validated as the broker does, and refused with Kafka's error name; what is
accepted is written in Kafka's order (a topic's configuration before its assignment), in the
controller's session. A legacy tool writes its request itself. Sources
(Kafka 3.9): kafka.server.ZkAdminManager, kafka.zk.AdminZkClient, kafka.zk.KafkaZkClient
(setOrCreateEntityConfigs, createConfigChangeNotification, createDeleteTopicPath).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller_simulator.cluster.broker import create_recursive
from controller_simulator.cluster.cluster import SimulatedCluster
from controller_simulator.cluster.operations import (
    AlterTopicConfig,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    ElectPreferred,
    ElectPreferredByZnode,
    ElectUnclean,
    Operation,
    Reassign,
    ReassignByZnode,
    Replicas,
)
from controller_simulator.cluster.znode_reader import ZnodeReader
from controller_simulator.controller.controller_io import (
    PREFERRED_ELECTION_PATH,
    REASSIGN_PARTITIONS_PATH,
    topic_path,
)
from controller_simulator.controller.lifecycle import CONTROLLER_PATH
from controller_simulator.zookeeper.payload_writers import (
    encode_config,
    encode_config_change,
    encode_partitions,
    encode_reassign_partitions,
    encode_topic,
)
from controller_simulator.zookeeper.transactions import (
    CheckZnode,
    CreateZnode,
    Multi,
    SetZnode,
    ZooKeeperCode,
)

CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"


class Administrator:
    """Everything that can be asked of a cluster from outside."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        """Ask this cluster."""
        self._cluster = cluster
        self._tree = cluster.tree
        self._reader = ZnodeReader(cluster.tree)
        self._asks: dict[type, Callable[[Any, int], str | None]] = {
            CreateTopic: self._create_topic,
            CreatePartitions: self._create_partitions,
            DeleteTopic: self._delete_topic,
            AlterTopicConfig: self._alter_topic_config,
            Reassign: self._reassign,
            ElectPreferred: self._elect,
            ElectUnclean: self._elect,
        }

    def ask(self, operation: Operation) -> str | None:
        """Return the name of the error that a request was refused with; None if it was not."""
        if isinstance(operation, ElectPreferredByZnode):
            data = encode_partitions(operation.partitions)
            return self._create_request(PREFERRED_ELECTION_PATH, data)
        if isinstance(operation, ReassignByZnode):
            data = encode_reassign_partitions(dict(operation.targets))
            return self._create_request(REASSIGN_PARTITIONS_PATH, data)
        run = self._cluster.controller
        if run is None:
            return "NOT_CONTROLLER"
        return self._asks[type(operation)](operation, run.session)

    def _create_request(self, path: str, data: bytes) -> str | None:
        """Create a legacy tool's request; there can be one at a time."""
        answer = self._tree.attempt(CreateZnode(path, data.decode()))
        return str(answer) if isinstance(answer, ZooKeeperCode) else None

    # --- topics -----------------------------------------------------------------------------

    def _create_topic(self, asked: CreateTopic, session: int) -> str | None:
        if self._tree.find(topic_path(asked.topic)) is not None:
            return "TOPIC_ALREADY_EXISTS"
        if not _is_consistent(asked.assignment):
            return "INVALID_REPLICA_ASSIGNMENT"
        self._set_or_create_config(asked.topic, asked.config, session)
        with_id = self._cluster.settings.topic_ids
        data = encode_topic(
            dict(enumerate(asked.assignment)),
            topic_id=self._cluster.choices.topic_id(asked.topic) if with_id else None,
        )
        create_recursive(self._tree, topic_path(asked.topic), data.decode(), session=session)
        return None

    def _create_partitions(self, asked: CreatePartitions, session: int) -> str | None:
        assignments, topic_id = self._reader.topic(asked.topic)
        if not assignments or self._tree.find(f"/admin/delete_topics/{asked.topic}") is not None:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        if any(assignment.is_being_reassigned for assignment in assignments.values()):
            return "REASSIGNMENT_IN_PROGRESS"
        factor = len(assignments[0].replicas)
        live = set(self._cluster.live)
        if not _is_consistent(asked.assignment) or any(
            len(replicas) != factor or not set(replicas) <= live for replicas in asked.assignment
        ):
            return "INVALID_REPLICA_ASSIGNMENT"
        partitions: dict[int, Replicas] = {p: a.replicas for p, a in assignments.items()}
        partitions |= dict(enumerate(asked.assignment, start=len(partitions)))
        data = encode_topic(partitions, topic_id=topic_id)
        self._tree.attempt(SetZnode(topic_path(asked.topic), data.decode()), session=session)
        return None

    def _delete_topic(self, asked: DeleteTopic, session: int) -> str | None:
        if not self._cluster.settings.delete_topic:
            return "TOPIC_DELETION_DISABLED"
        if self._tree.find(topic_path(asked.topic)) is None:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        create_recursive(self._tree, f"/admin/delete_topics/{asked.topic}", session=session)
        return None

    # --- settings ---------------------------------------------------------------------------

    def _alter_topic_config(self, asked: AlterTopicConfig, session: int) -> str | None:
        if self._tree.find(topic_path(asked.topic)) is None:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        config = {**self._reader.config(asked.topic), **asked.config}
        self._set_or_create_config(asked.topic, config, session)
        create_recursive(self._tree, "/config/changes", session=session)
        path = self._tree.next_in_sequence(CONFIG_CHANGE_PREFIX)
        data = encode_config_change(f"topics/{asked.topic}")
        self._tree.attempt(CreateZnode(path, data.decode()), session=session)
        return None

    def _set_or_create_config(self, topic: str, config: dict[str, str], session: int) -> None:
        """Set a topic's configuration as long as the controller is the one that was read."""
        path = f"/config/topics/{topic}"
        data = encode_config(config).decode()
        fence = CheckZnode(CONTROLLER_PATH, self._tree.at(CONTROLLER_PATH).version)
        answer = self._tree.attempt(Multi((fence, SetZnode(path, data))), session=session)
        if answer is ZooKeeperCode.NO_NODE:
            create_recursive(self._tree, path, data, session=session)

    # --- the controller ---------------------------------------------------------------------

    def _reassign(self, asked: Reassign, _session: int) -> str | None:
        results = self._cluster.control(asked)
        errors = [e for e in results.values() if e] if isinstance(results, dict) else []
        return str(errors[0]) if errors else None

    def _elect(self, asked: ElectPreferred | ElectUnclean, _session: int) -> None:
        self._cluster.control(asked)


def _is_consistent(assignment: tuple[Replicas, ...]) -> bool:
    """Return whether all partitions have as many replicas, at least one, and none twice."""
    return (
        bool(assignment)
        and len({len(replicas) for replicas in assignment}) == 1
        and all(replicas and len(set(replicas)) == len(replicas) for replicas in assignment)
    )
