"""A simulated cluster on which scripts may do more than can be rehearsed.

The rule: a request is validated as the broker does, and refused with Kafka's error name. What is
accepted is written in Kafka's order (a topic's configuration before its assignment), in the
controller's session. A legacy tool writes its request itself. Sources (Kafka 3.9):
kafka.server.ZkAdminManager, kafka.zk.AdminZkClient, kafka.zk.KafkaZkClient
(setOrCreateEntityConfigs, createConfigChangeNotification).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec

from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_simulator.cluster.broker import SimulatedBroker, create_recursive, register
from controller_simulator.cluster.loading import restore
from controller_simulator.cluster.operations import Operation, Replicas
from controller_simulator.cluster.settings import Choices, SimulatorSettings
from controller_simulator.cluster.simulator import ZooKeeperModeSimulator
from controller_simulator.cluster.znode_reader import ZnodeReader
from controller_simulator.controller.controller_io import (
    LOG_DIR_EVENTS_PATH,
    PREFERRED_ELECTION_PATH,
    REASSIGN_PARTITIONS_PATH,
    topic_path,
)
from controller_simulator.controller.leader_and_isr_receiver import HostedPartition, ReplicaManager
from controller_simulator.controller.lifecycle import CONTROLLER_PATH
from controller_simulator.controller.phases import LifecycleEvent
from controller_simulator.zookeeper.payload_writers import (
    encode_config,
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
from controller_simulator.zookeeper.tree import ZnodeTree
from tests.support.payloads import encode_config_change, encode_log_dir_event
from tests.support.scripted_operations import (
    AlterTopicConfig,
    BounceBroker,
    CreatePartitions,
    CreateTopic,
    ElectPreferredByZnode,
    ExpireSession,
    FailLogDir,
    ReassignByZnode,
    ScriptedOperation,
    StallBroker,
)

CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"

_config = msgspec.json.Decoder(dict[str, dict[str, str] | int])


class ScriptedSimulator(ZooKeeperModeSimulator):
    """A cluster on which scripts are run."""

    def __init__(
        self,
        *,
        settings: SimulatorSettings | None = None,
        choices: Choices | None = None,
        tree: ZnodeTree | None = None,
    ) -> None:
        """Start with an empty ZooKeeper (or this one) and no brokers."""
        super().__init__(settings=settings, choices=choices, tree=tree)
        self._reader = ZnodeReader(self.tree)
        self._performers |= {
            BounceBroker: lambda asked: self._if_runs(asked.broker, self._bounce),
            StallBroker: lambda asked: self._if_runs(
                asked.broker, lambda run: self._stall(run, asked.topics)
            ),
            ExpireSession: self._expire,
            FailLogDir: lambda asked: self._if_runs(
                asked.broker, lambda run: self._fail_log_dir(run, asked)
            ),
            CreateTopic: self._by_controller(self._create_topic),
            CreatePartitions: self._by_controller(self._create_partitions),
            AlterTopicConfig: self._by_controller(self._alter_topic_config),
            ElectPreferredByZnode: lambda asked: self._create_request(
                PREFERRED_ELECTION_PATH, encode_partitions(asked.partitions)
            ),
            ReassignByZnode: lambda asked: self._create_request(
                REASSIGN_PARTITIONS_PATH, encode_reassign_partitions(dict(asked.targets))
            ),
        }

    def perform(self, operation: ScriptedOperation) -> str | None:
        """Perform one operation and run until the cluster is at rest; return why it was refused."""
        return super().perform(cast("Operation", operation))

    # --- brokers ----------------------------------------------------------------------------

    def _bounce(self, run: SimulatedBroker) -> None:
        self._kill(run)
        self.run()
        self._start(run.id)

    def _stall(self, run: SimulatedBroker, topics: tuple[str, ...]) -> None:
        """Pause a follower while its partitions are written to, then resume it."""
        run.stalled = True
        for leader in self.brokers.values():
            for partition, hosted in served(leader).items():
                if (
                    partition.topic in topics
                    and leader is not run
                    and hosted.leader == leader.id
                    and run.id in hosted.isr
                ):
                    isr = tuple(member for member in hosted.isr if member != run.id)
                    self._alter_isr(leader, partition, isr)
        self.run()
        run.stalled = False
        self.deliver(self._inboxes.pop(run.id, ()))
        self.add_lagging(served(run))

    def _expire(self, asked: ExpireSession) -> str | None:
        """Pause a broker until its session has ended; then it resigns, and registers again."""
        if asked.broker is not None:
            return self._if_runs(asked.broker, self._lose_session)
        controller = self.controller
        if controller is None:
            return "there is no controller"
        self._lose_session(controller)
        return None

    def _lose_session(self, run: SimulatedBroker) -> None:
        run.stalled = True
        run.controller = None  # it cannot write any more
        self.run()  # leaders may notice its absence before ZooKeeper does
        self.tree.close_session(run.session)
        self.run()
        run.stalled = False
        self._inboxes.pop(run.id, None)  # messages sent meanwhile went to a closed connection
        self.notify(run, LifecycleEvent.EXPIRE)
        self.run()
        run.session = self._open_session()
        czxid = register(self.tree, run.session, run.id, self.settings)
        run.manager.broker_epoch = czxid
        self.notify(run, LifecycleEvent.NEW_SESSION)

    def _fail_log_dir(self, run: SimulatedBroker, asked: FailLogDir) -> None:
        """Make a broker lose a log directory with these replicas, and announce it to the controller."""
        fail_log_dir(run.manager, [tp for tp in asked.partitions if tp in served(run)])
        path = self.tree.next_in_sequence(f"{LOG_DIR_EVENTS_PATH}/log_dir_event_")
        data = encode_log_dir_event(run.id).decode()
        self.tree.attempt(CreateZnode(path, data), session=run.session)

    # --- topics -----------------------------------------------------------------------------

    def _create_request(self, path: str, data: bytes) -> str | None:
        """Create a legacy tool's request; only one can exist at a time."""
        answer = self.tree.attempt(CreateZnode(path, data.decode()))
        return str(answer) if isinstance(answer, ZooKeeperCode) else None

    def _create_topic(self, asked: CreateTopic, session: int) -> str | None:
        if self.tree.find(topic_path(asked.topic)) is not None:
            return "TOPIC_ALREADY_EXISTS"
        if not _is_consistent(asked.assignment):
            return "INVALID_REPLICA_ASSIGNMENT"
        self._set_or_create_config(asked.topic, asked.config, session)
        data = encode_topic(
            dict(enumerate(map(ReplicaAssignment, asked.assignment))),
            topic_id=self.choices.topic_id(asked.topic) if self.settings.topic_ids else None,
        )
        create_recursive(self.tree, topic_path(asked.topic), data.decode(), session=session)
        return None

    def _create_partitions(self, asked: CreatePartitions, session: int) -> str | None:
        assignments, topic_id = self._reader.topic(asked.topic)
        if not assignments or self.tree.find(f"/admin/delete_topics/{asked.topic}") is not None:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        if any(assignment.is_being_reassigned for assignment in assignments.values()):
            return "REASSIGNMENT_IN_PROGRESS"
        factor = len(assignments[0].replicas)
        live = set(self.live)
        if not _is_consistent(asked.assignment) or any(
            len(replicas) != factor or not set(replicas) <= live for replicas in asked.assignment
        ):
            return "INVALID_REPLICA_ASSIGNMENT"
        more = enumerate(map(ReplicaAssignment, asked.assignment), start=len(assignments))
        data = encode_topic(assignments | dict(more), topic_id=topic_id)
        self.tree.attempt(SetZnode(topic_path(asked.topic), data.decode()), session=session)
        return None

    def _alter_topic_config(self, asked: AlterTopicConfig, session: int) -> str | None:
        if self.tree.find(topic_path(asked.topic)) is None:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        config = {**self._config_of(asked.topic), **asked.config}
        self._set_or_create_config(asked.topic, config, session)
        create_recursive(self.tree, "/config/changes", session=session)
        path = self.tree.next_in_sequence(CONFIG_CHANGE_PREFIX)
        data = encode_config_change(f"topics/{asked.topic}")
        self.tree.attempt(CreateZnode(path, data.decode()), session=session)
        return None

    def _config_of(self, topic: str) -> dict[str, str]:
        """Return all of a topic's settings, not only those that the model needs."""
        found = self.tree.find(f"/config/topics/{topic}")
        if found is None or not found.data:
            return {}
        config = _config.decode(found.data)["config"]
        return config if isinstance(config, dict) else {}

    def _set_or_create_config(self, topic: str, config: dict[str, str], session: int) -> None:
        """Set a topic's configuration if the controller is still the one that was read."""
        path = f"/config/topics/{topic}"
        data = encode_config(config).decode()
        fence = CheckZnode(CONTROLLER_PATH, self.tree.at(CONTROLLER_PATH).version)
        answer = self.tree.attempt(Multi((fence, SetZnode(path, data))), session=session)
        if answer is ZooKeeperCode.NO_NODE:
            create_recursive(self.tree, path, data, session=session)


def served(broker: SimulatedBroker) -> dict[TopicPartition, HostedPartition]:
    """Return the partitions that a broker leads or follows."""
    return {tp: hosted for tp, hosted in broker.manager.partitions.items() if hosted.serves}


def fail_log_dir(manager: ReplicaManager, partitions: Iterable[TopicPartition]) -> None:
    """Make a broker lose the log directory of these replicas (ReplicaManager.handleLogDirFailure)."""
    manager.partitions |= {tp: HostedPartition(offline=True) for tp in partitions}


def load_scripted(
    tree: ZnodeTree, *, settings: SimulatorSettings | None = None, choices: Choices | None = None
) -> ScriptedSimulator:
    """Return a cluster that continues from this tree (`loading.load_cluster`)."""
    cluster = ScriptedSimulator(settings=settings, choices=choices, tree=tree)
    restore(cluster)
    return cluster


def _is_consistent(assignment: tuple[Replicas, ...]) -> bool:
    """Return whether all partitions have the same number of replicas, at least one, without duplicates."""
    return (
        bool(assignment)
        and len({len(replicas) for replicas in assignment}) == 1
        and all(replicas and len(set(replicas)) == len(replicas) for replicas in assignment)
    )
