"""What a simulated broker writes about itself: its start, its registration, its failed disks.

Sources (Kafka 3.9): kafka.server.KafkaServer.startup, kafka.zk.KafkaZkClient (createTopLevelPaths,
createOrGetClusterId, registerBroker with CheckedEphemeral, propagateLogDirEvent).
"""

from __future__ import annotations

from collections.abc import Iterable

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.broker import PERSISTENT_PATHS, SimulatedBroker
from controller_simulator.cluster.leadership import LOG_DIR_EVENTS_PATH
from controller_simulator.cluster.settings import Chance, SimulatorSettings
from controller_simulator.controller.leader_and_isr_receiver import fail_log_dir as lose_log_dir
from controller_simulator.zookeeper.commits import ZooKeeperCode
from controller_simulator.zookeeper.payload_writers import (
    encode_broker,
    encode_cluster_id,
    encode_log_dir_event,
)
from controller_simulator.zookeeper.tree import ZnodeTree, parent_of
from controller_simulator.zookeeper.writes import CreateZnode, Multi, SetZnode

CLUSTER_ID_PATH = "/cluster/id"


def create_recursive(tree: ZnodeTree, path: str, data: str = "", *, session: int) -> bool:
    """Create a znode and what is missing above it; return whether it was not there.

    As KafkaZkClient.createRecursive it tries first and looks later, so refusals take zxids.
    """
    answer = tree.attempt(CreateZnode(path, data), session=session)
    if answer is ZooKeeperCode.NO_NODE:
        create_recursive(tree, parent_of(path), session=session)
        answer = tree.attempt(CreateZnode(path, data), session=session)
    return answer is not ZooKeeperCode.NODE_EXISTS


def start_znodes(tree: ZnodeTree, session: int, chance: Chance) -> None:
    """Make sure of the containers and of the cluster's id, as every start does."""
    for path in PERSISTENT_PATHS:
        create_recursive(tree, path, session=session)
    if tree.find(CLUSTER_ID_PATH) is None:
        data = encode_cluster_id(chance.cluster_id()).decode()
        create_recursive(tree, CLUSTER_ID_PATH, data, session=session)


def register(tree: ZnodeTree, session: int, broker: int, settings: SimulatorSettings) -> int:
    """Register a broker in one transaction of create and set; return its epoch, the czxid."""
    path = f"/brokers/ids/{broker}"
    port = settings.first_port + broker
    data = encode_broker(
        [("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port)],
        timestamp=tree.time_ms,
        version=5 if settings.alter_partition else 4,
    )
    tree.write(
        Multi((CreateZnode(path, "", session), SetZnode(path, data.decode(), 0))), session=session
    )
    return tree.at(path).czxid


def fail_log_dir(
    tree: ZnodeTree, run: SimulatedBroker, partitions: Iterable[TopicPartition]
) -> None:
    """Let a broker lose a log directory with these replicas, and tell the controller of it."""
    lost = [partition for partition in partitions if partition in run.hosted]
    run.manager = lose_log_dir(run.manager, lost)
    for partition in lost:
        del run.hosted[partition]
    path = tree.next_in_sequence(f"{LOG_DIR_EVENTS_PATH}/log_dir_event_")
    tree.attempt(CreateZnode(path, encode_log_dir_event(run.id).decode()), session=run.session)
