"""Administrators' requests that Kafka refuses are refused with its error, and nothing is written."""

from __future__ import annotations

import pytest

from controller_simulator.cluster.operations import (
    DeleteTopic,
    ElectPreferred,
    ElectUnclean,
    KillBroker,
    Reassign,
    StartBroker,
    StopBroker,
)
from controller_simulator.zookeeper.transactions import CreateZnode
from tests.support.scripted_operations import (
    AlterTopicConfig,
    CreatePartitions,
    CreateTopic,
    ScriptedOperation,
)
from tests.support.simulated_cluster import T0, TOPIC, cluster_of, state

REFUSED: list[tuple[ScriptedOperation, str]] = [
    (StartBroker(0), "broker 0 runs"),
    (StopBroker(7), "broker 7 does not run"),
    (KillBroker(7), "broker 7 does not run"),
    (CreateTopic("t", ((0,),)), "TOPIC_ALREADY_EXISTS"),
    (CreateTopic("x", ((0, 0),)), "INVALID_REPLICA_ASSIGNMENT"),
    (CreatePartitions("x", ((0, 1),)), "UNKNOWN_TOPIC_OR_PARTITION"),
    (CreatePartitions("t", ((0, 7),)), "INVALID_REPLICA_ASSIGNMENT"),
    (DeleteTopic("x"), "UNKNOWN_TOPIC_OR_PARTITION"),
    (Reassign(((T0, (0, 7)),)), "INVALID_REPLICA_ASSIGNMENT"),
    (Reassign(((T0, None),)), "NO_REASSIGNMENT_IN_PROGRESS"),
]


@pytest.mark.parametrize(("operation", "error"), REFUSED)
def test_an_invalid_operation_is_refused(operation: ScriptedOperation, error: str) -> None:
    """The cluster is as it was."""
    cluster = cluster_of(TOPIC)
    before = len(cluster.commits)
    assert cluster.perform(operation) == error
    assert len(cluster.commits) == before


@pytest.mark.parametrize(
    "operation", [DeleteTopic("t"), Reassign(((T0, (0, 1)),)), ElectPreferred(), ElectUnclean()]
)
def test_without_a_controller_every_request_is_refused(operation: ScriptedOperation) -> None:
    """Every request needs the controller."""
    cluster = cluster_of(TOPIC, KillBroker(0), KillBroker(1), KillBroker(2))
    assert cluster.controller is None
    assert cluster.perform(operation) == "NOT_CONTROLLER"


def test_only_unclean_leader_election_of_topics_reaches_the_controller() -> None:
    """Other settings of a topic, and settings of brokers, start no election (ConfigHandler)."""
    cluster = cluster_of(TOPIC)
    assert cluster.perform(AlterTopicConfig("t", {"retention.ms": "5"})) is None
    change = '{"version":2,"entity_path":"brokers/1"}'
    cluster.tree.write(CreateZnode("/config/changes/config_change_9", change))
    cluster.run_until_quiet()
    assert state(cluster) == (0, [0, 1], 0, 0)
