"""Administrators' requests are written in Kafka's order, or refused with Kafka's error."""

from __future__ import annotations

import json

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
from controller_simulator.zookeeper.transactions import CreateZnode, SetZnode
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
from tests.support.scripted_simulator import ScriptedSimulator
from tests.support.simulated_cluster import (
    T0,
    T1,
    TOPIC,
    UNCLEAN,
    cluster_of,
    paths,
    state,
    written_by,
)

REFUSED: list[tuple[ScriptedOperation, str]] = [
    (StartBroker(0), "broker 0 runs"),
    (StopBroker(7), "broker 7 does not run"),
    (KillBroker(7), "broker 7 does not run"),
    (BounceBroker(7), "broker 7 does not run"),
    (StallBroker(7, ("t",)), "broker 7 does not run"),
    (FailLogDir(7, (T0,)), "broker 7 does not run"),
    (ExpireSession(7), "broker 7 does not run"),
    (CreateTopic("t", ((0,),)), "TOPIC_ALREADY_EXISTS"),
    (CreateTopic("x", ()), "INVALID_REPLICA_ASSIGNMENT"),
    (CreateTopic("x", ((),)), "INVALID_REPLICA_ASSIGNMENT"),
    (CreateTopic("x", ((0, 0),)), "INVALID_REPLICA_ASSIGNMENT"),
    (CreateTopic("x", ((0,), (0, 1))), "INVALID_REPLICA_ASSIGNMENT"),
    (CreatePartitions("x", ((0, 1),)), "UNKNOWN_TOPIC_OR_PARTITION"),
    (CreatePartitions("t", ((0,),)), "INVALID_REPLICA_ASSIGNMENT"),
    (CreatePartitions("t", ((0, 0),)), "INVALID_REPLICA_ASSIGNMENT"),
    (CreatePartitions("t", ((0, 7),)), "INVALID_REPLICA_ASSIGNMENT"),
    (DeleteTopic("x"), "UNKNOWN_TOPIC_OR_PARTITION"),
    (AlterTopicConfig("x", UNCLEAN), "UNKNOWN_TOPIC_OR_PARTITION"),
    (Reassign(((T0, (0, 7)),)), "INVALID_REPLICA_ASSIGNMENT"),
    (Reassign(((T0, None),)), "NO_REASSIGNMENT_IN_PROGRESS"),
]


@pytest.mark.parametrize(("operation", "error"), REFUSED)
def test_an_invalid_operation_is_refused(operation: ScriptedOperation, error: str) -> None:
    """A request that Kafka refuses gets its error, and nothing is written."""
    cluster = cluster_of(TOPIC)
    before = len(cluster.commits)
    assert cluster.perform(operation) == error
    assert len(cluster.commits) == before


@pytest.mark.parametrize(
    "operation",
    [
        CreateTopic("x", ((0,),)),
        CreatePartitions("t", ((0, 1),)),
        DeleteTopic("t"),
        AlterTopicConfig("t", UNCLEAN),
        Reassign(((T0, (0, 1)),)),
        ElectPreferred(),
        ElectUnclean(),
    ],
)
def test_without_a_controller_every_request_is_refused(operation: ScriptedOperation) -> None:
    """Every request needs the controller."""
    cluster = cluster_of(TOPIC, KillBroker(0), KillBroker(1), KillBroker(2))
    assert cluster.controller is None
    assert cluster.live == ()
    assert cluster.perform(operation) == "NOT_CONTROLLER"


def test_partitions_are_not_added_to_a_topic_in_reassignment_or_deletion() -> None:
    """It is refused while the topic is reassigned, and while it is deleted."""
    cluster = cluster_of(TOPIC, KillBroker(2), ReassignByZnode(((T0, (2, 1)),)))
    assert cluster.perform(CreatePartitions("t", ((0, 1),))) == "REASSIGNMENT_IN_PROGRESS"
    cluster = cluster_of(TOPIC, KillBroker(2), DeleteTopic("t"))
    assert cluster.perform(CreatePartitions("t", ((0, 1),))) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_legacy_tool_waits_for_the_one_before() -> None:
    """The request's znode can exist only once; the second tool gets an error."""
    cluster = cluster_of(TOPIC, KillBroker(2), ReassignByZnode(((T0, (2, 1)),)))
    assert cluster.perform(ReassignByZnode(((T1, (1, 0)),))) == "NODEEXISTS"
    assert ScriptedSimulator().perform(ElectPreferredByZnode((T0,))) == "NONODE"


def test_other_topic_settings_start_no_election() -> None:
    """Settings are kept and extended; only unclean leader election triggers the controller."""
    cluster = cluster_of(CreateTopic("t", ((1, 2),), {"min.insync.replicas": "2"}))
    writes = written_by(cluster, AlterTopicConfig("t", {"retention.ms": "5"}))
    assert paths(writes) == [
        "Changed /config/topics/t",
        "Created /config/changes/config_change_0000000000",
    ]
    assert json.loads(cluster.tree.data("/config/topics/t"))["config"] == {
        "min.insync.replicas": "2", "retention.ms": "5",
    }  # fmt: skip
    cluster.tree.write(
        CreateZnode("/config/changes/config_change_9", '{"version":2,"entity_path":"brokers/1"}')
    )
    cluster.run_until_quiet()
    assert state(cluster) == (1, [1, 2], 0, 0)


def test_missing_topic_settings_are_created_again() -> None:
    """A topic without a configuration znode gets one, or keeps the content of an empty one."""
    cluster = cluster_of(TOPIC)
    cluster.tree.write(SetZnode("/config/topics/t", ""))
    assert cluster.perform(AlterTopicConfig("t", {"retention.ms": "5"})) is None
    assert '"retention.ms":"5"' in cluster.tree.data("/config/topics/t")
