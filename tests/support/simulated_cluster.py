"""A small simulated cluster after some operations, and its writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.operations import StartBroker
from controller_simulator.cluster.settings import SimulatorSettings
from controller_simulator.zookeeper.transactions import Committed
from tests.support.scripted_operations import CreateTopic, ScriptedOperation
from tests.support.scripted_simulator import ScriptedSimulator

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
UNCLEAN = {"unclean.leader.election.enable": "true"}


def cluster_of(
    *operations: ScriptedOperation, brokers: int = 3, **settings: Any
) -> ScriptedSimulator:
    """Return a cluster of brokers 0, 1, … after these operations."""
    cluster = ScriptedSimulator(settings=SimulatorSettings(**settings))
    for operation in (*map(StartBroker, range(brokers)), *operations):
        assert cluster.perform(operation) is None, operation
    return cluster


def state(
    cluster: ScriptedSimulator, partition: TopicPartition = T0
) -> tuple[int, list[int], int, int]:
    """Return leader, ISR, leader epoch and version of a partition."""
    topic, number = partition
    znode = cluster.tree.at(f"/brokers/topics/{topic}/partitions/{number}/state")
    written = json.loads(znode.data)
    return written["leader"], written["isr"], written["leader_epoch"], znode.version


def written_by(cluster: ScriptedSimulator, operation: ScriptedOperation) -> list[Committed]:
    """Return the writes that an operation causes."""
    before = len(cluster.commits)
    assert cluster.perform(operation) is None
    return [write for commit in cluster.commits[before:] for write in commit.writes]


def paths(writes: Sequence[Committed]) -> list[str]:
    """Return kind and path of writes, for comparison in tests."""
    return [f"{type(write).__name__} {write.path}" for write in writes]


TOPIC = CreateTopic("t", ((0, 1), (1, 2)))
