"""The miniature cluster: what it writes when operators, disks and fate do their worst."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.events import AlterPartition, StopReplicaResponse
from controller_simulator.cluster.operations import (
    AlterTopicConfig,
    BounceBroker,
    CreatePartitions,
    CreateTopic,
    DeleteController,
    DeleteTopic,
    ElectPreferred,
    ElectPreferredByZnode,
    ElectUnclean,
    ExpireSession,
    FailLogDir,
    KillBroker,
    Operation,
    Reassign,
    ReassignByZnode,
    StallBroker,
    StartBroker,
    StopBroker,
)
from controller_simulator.cluster.random_operations import RandomChoices, RandomOperations
from controller_simulator.cluster.settings import DefaultChoices, SimulatorSettings
from controller_simulator.cluster.simulator import Simulator
from controller_simulator.controller.context import LeaderIsrAndControllerEpoch
from controller_simulator.controller.leader_and_isr_receiver import fail_log_dir
from controller_simulator.controller.lifecycle import handle
from controller_simulator.controller.phases import (
    FAILOVER_STEPS,
    TRANSITIONS,
    ElectionStep,
    LifecycleEvent,
    Phase,
)
from controller_simulator.controller.requests import (
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
)
from controller_simulator.zookeeper.payload_writers import encode_topic
from controller_simulator.zookeeper.transactions import (
    Changed,
    Commit,
    Committed,
    Created,
    CreateZnode,
    DeleteZnode,
    SetZnode,
    ZnodeWrite,
    ZooKeeperCode,
)
from controller_simulator.zookeeper.tree import ZnodeTree

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
UNCLEAN = {"unclean.leader.election.enable": "true"}


def cluster_of(*operations: Operation, brokers: int = 3, **settings: Any) -> Simulator:
    """Return a cluster of brokers 0, 1, … that has been through some operations."""
    cluster = Simulator(settings=SimulatorSettings(**settings))
    cluster.play([StartBroker(broker) for broker in range(brokers)])
    for operation in operations:
        assert cluster.perform(operation) is None, operation
    return cluster


def state(cluster: Simulator, partition: TopicPartition = T0) -> tuple[int, list[int], int, int]:
    """Return leader, ISR, leader epoch and version of a partition."""
    topic, number = partition
    znode = cluster.tree.at(f"/brokers/topics/{topic}/partitions/{number}/state")
    written = json.loads(znode.data)
    return written["leader"], written["isr"], written["leader_epoch"], znode.version


def written_by(cluster: Simulator, operation: Operation) -> list[Committed]:
    """Return the writes that come of an operation."""
    before = len(cluster.commits)
    assert cluster.perform(operation) is None
    return [write for commit in cluster.commits[before:] for write in commit.writes]


def paths(writes: Sequence[Committed]) -> list[str]:
    """Return kind and path of writes, for reading."""
    return [f"{type(write).__name__} {write.path}" for write in writes]


# --- what is refused ------------------------------------------------------------------------

TOPIC = CreateTopic("t", ((0, 1), (1, 2)))

REFUSED: list[tuple[Operation, str]] = [
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
def test_what_cannot_be_is_refused(operation: Operation, error: str) -> None:
    """A request that Kafka refuses is refused with its error, and nothing is written."""
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
def test_without_a_controller_nobody_is_served(operation: Operation) -> None:
    """Every request needs the controller."""
    cluster = cluster_of(TOPIC, KillBroker(0), KillBroker(1), KillBroker(2))
    assert cluster.controller is None
    assert cluster.live == ()
    assert cluster.perform(operation) == "NOT_CONTROLLER"


def test_a_topic_that_changes_cannot_grow() -> None:
    """Not while it is reassigned, nor while it is deleted."""
    cluster = cluster_of(TOPIC, KillBroker(2), ReassignByZnode(((T0, (2, 1)),)))
    assert cluster.perform(CreatePartitions("t", ((0, 1),))) == "REASSIGNMENT_IN_PROGRESS"
    cluster = cluster_of(TOPIC, KillBroker(2), DeleteTopic("t"))
    assert cluster.perform(CreatePartitions("t", ((0, 1),))) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_legacy_tool_waits_for_the_one_before() -> None:
    """The znode of a request is there once; the second tool is told so."""
    cluster = cluster_of(TOPIC, KillBroker(2), ReassignByZnode(((T0, (2, 1)),)))
    assert cluster.perform(ReassignByZnode(((T1, (1, 0)),))) == "NODEEXISTS"
    assert Simulator().perform(ElectPreferredByZnode((T0,))) == "NONODE"


# --- elections ------------------------------------------------------------------------------


def test_the_lowest_broker_wins_unless_chance_says_else() -> None:
    """Without chance the cluster is the same at every run."""
    first, second = cluster_of(TOPIC, DeleteController()), cluster_of(TOPIC, DeleteController())
    assert first.commits == second.commits
    assert first.controller is not None
    assert first.controller.id == 0
    assert first.tree.data("/controller_epoch") == "2"


def test_a_leader_that_nobody_can_replace_stops_at_last() -> None:
    """Asked three times the controller cannot move it; then the broker goes, and leaves -1."""
    cluster = cluster_of(CreateTopic("t", ((2, 1),)), KillBroker(1))
    assert state(cluster) == (2, [2], 1, 1)
    writes = written_by(cluster, StopBroker(2))
    assert paths(writes) == [
        "Removed /brokers/ids/2",
        "Changed /brokers/topics/t/partitions/0/state",
    ]
    assert state(cluster) == (-1, [2], 2, 2)


def test_without_controlled_shutdown_a_stop_is_a_death() -> None:
    """The leaders move when the broker has gone, not before."""
    cluster = cluster_of(CreateTopic("t", ((2, 1),)), controlled_shutdown=False)
    writes = written_by(cluster, StopBroker(2))
    assert paths(writes)[0] == "Removed /brokers/ids/2"
    assert state(cluster) == (1, [1], 1, 1)


def test_the_last_broker_stops_without_being_asked() -> None:
    """A controller that shuts itself down relieves itself first."""
    cluster = cluster_of(CreateTopic("t", ((0,),)), brokers=1)
    assert paths(written_by(cluster, StopBroker(0))) == [
        "Removed /brokers/ids/0",
        "Removed /controller",
    ]


def test_an_unclean_leader_recovers_with_its_next_isr() -> None:
    """The state says 1 until the first follower joins; below 3.2 it never says so."""
    story = (KillBroker(2), KillBroker(1), StartBroker(2), AlterTopicConfig("t", UNCLEAN))
    cluster = cluster_of(CreateTopic("t", ((1, 2),)), *story)
    assert '"leader_recovery_state":1' in cluster.tree.data("/brokers/topics/t/partitions/0/state")
    assert state(cluster) == (2, [2], 3, 3)
    cluster.perform(StartBroker(1))
    assert "recovery" not in cluster.tree.data("/brokers/topics/t/partitions/0/state")
    old = cluster_of(CreateTopic("t", ((1, 2),)), *story, leader_recovery_supported=False)
    assert "recovery" not in old.tree.data("/brokers/topics/t/partitions/0/state")
    assert state(old) == (2, [2], 3, 3)


def test_unclean_election_may_be_the_brokers_default() -> None:
    """Then no setting of the topic is needed, and the topic may forbid it."""
    story = (KillBroker(2), KillBroker(1), StartBroker(2))
    lossy = cluster_of(CreateTopic("t", ((1, 2),)), *story, unclean_leader_election=True)
    assert state(lossy)[:2] == (2, [2])
    forbidden = {"unclean.leader.election.enable": "false"}
    safe = cluster_of(CreateTopic("t", ((1, 2),), forbidden), *story, unclean_leader_election=True)
    assert state(safe)[:2] == (-1, [1])


def test_other_settings_elect_nobody() -> None:
    """Settings are kept and added to; only unclean leader election wakes the controller."""
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
    cluster.settle()
    assert state(cluster) == (1, [1, 2], 0, 0)


def test_settings_that_are_gone_are_made_again() -> None:
    """A topic without a configuration znode gets one, or keeps what an empty one says."""
    cluster = cluster_of(TOPIC)
    cluster.tree.write(SetZnode("/config/topics/t", ""))
    assert cluster.perform(AlterTopicConfig("t", {"retention.ms": "5"})) is None
    assert '"retention.ms":"5"' in cluster.tree.data("/config/topics/t")


def test_only_known_partitions_are_elected() -> None:
    """Others, those that are led well, and those without a state are passed over."""
    cluster = cluster_of(CreateTopic("t", ((1, 2), (2, 1))), StopBroker(1), StartBroker(1))
    cluster.perform(CreateTopic("dead", ((7,),)))
    asked = (T0, T1, TopicPartition("x", 0), TopicPartition("dead", 0))
    writes = written_by(cluster, ElectPreferred(asked))
    assert paths(writes) == ["Changed /brokers/topics/t/partitions/0/state"]
    assert state(cluster) == (1, [2, 1], 2, 3)


def test_a_preferred_election_outlives_its_controller() -> None:
    """A new controller does what a legacy tool asked the old one, and deletes the request."""
    cluster = cluster_of(CreateTopic("t", ((1, 2), (2, 1))), StopBroker(1), StartBroker(1))
    for broker in cluster.brokers.values():
        broker.stalled = True
    cluster.perform(ElectPreferredByZnode((T0, T1, TopicPartition("x", 0))))
    assert cluster.tree.find("/admin/preferred_replica_election") is not None
    for broker in cluster.brokers.values():
        broker.stalled = False
    cluster.perform(KillBroker(0))
    assert cluster.tree.find("/admin/preferred_replica_election") is None
    assert state(cluster)[0] == 1


# --- auto leader rebalance ------------------------------------------------------------------


def test_leaders_go_back_by_themselves_above_the_allowed_ratio() -> None:
    """Exactly at the percentage nothing happens; above it every electable one is elected."""
    ten = CreateTopic("t", tuple((1, 2) if p == 0 else (2, 1) for p in range(10)))
    stays = cluster_of(ten, StopBroker(2), StartBroker(2), ElectPreferred())
    assert state(stays, TopicPartition("t", 9))[0] == 2
    one_off = (CreateTopic("t", ((1, 2),) * 10), StopBroker(1), StartBroker(1))
    rebalanced = cluster_of(*one_off, auto_leader_rebalance=True)
    assert {state(rebalanced, TopicPartition("t", p))[0] for p in range(10)} == {1}
    all_off = cluster_of(
        *one_off, auto_leader_rebalance=True, leader_imbalance_per_broker_percentage=100
    )
    assert {state(all_off, TopicPartition("t", p))[0] for p in range(10)} == {2}


def test_who_cannot_lead_is_not_rebalanced() -> None:
    """A preferred replica that is dead, or whose topic is deleted, is left alone."""
    cluster = cluster_of(CreateTopic("t", ((1, 2),)), KillBroker(1), auto_leader_rebalance=True)
    assert state(cluster) == (2, [2], 1, 1)
    cluster.perform(DeleteTopic("t"))
    before = len(cluster.commits)
    cluster.settle()
    assert len(cluster.commits) == before


# --- in-sync replicas -----------------------------------------------------------------------


def test_a_stalled_follower_leaves_and_comes_back() -> None:
    """The leader writes twice and keeps its epoch; what the follower leads is left alone."""
    cluster = cluster_of(CreateTopic("t", ((0, 2), (2, 0))), CreateTopic("other", ((0, 2),)))
    writes = written_by(cluster, StallBroker(2, ("t",)))
    assert paths(writes) == ["Changed /brokers/topics/t/partitions/0/state"] * 2
    assert state(cluster) == (0, [0, 2], 0, 2)
    assert state(cluster, T1) == (2, [2, 0], 0, 0)


class SlowFollower(DefaultChoices):
    """Chance that lets a follower fall behind, as often as it is told to."""

    def __init__(self, *slow: tuple[TopicPartition, int]) -> None:
        super().__init__()
        self.slow = list(slow)

    def falls_behind(self) -> tuple[TopicPartition, int] | None:
        """Return the next one; None when there is none left."""
        return self.slow.pop(0) if self.slow else None


def test_a_slow_follower_is_dropped_and_catches_up() -> None:
    """Its leader writes twice under the same epoch; who is slow where nobody leads is no matter."""
    cluster = cluster_of(CreateTopic("t", ((1, 2, 0),)))
    cluster.choices = SlowFollower((T0, 2), (T1, 2))
    cluster.settle()
    assert state(cluster) == (1, [1, 0, 2], 0, 2)


def test_nobody_alters_an_isr_while_the_controller_is_stalled() -> None:
    """Since 2.7 the controller writes it, so a stalled controller stays in the ISR."""
    cluster = cluster_of(CreateTopic("t", ((1, 0),)))
    assert written_by(cluster, StallBroker(0, ("t",))) == []


def test_before_alter_partition_leaders_write_their_isr() -> None:
    """They write under the controller's epoch, in their own session, and notify later."""
    cluster = cluster_of(
        CreateTopic("t", ((1, 0, 2),)), alter_partition=False, leader_recovery_supported=False
    )
    before = len(cluster.commits)
    assert cluster.perform(StallBroker(0, ("t",))) is None
    commits = cluster.commits[before:]
    assert paths([write for commit in commits for write in commit.writes]) == [
        "Changed /brokers/topics/t/partitions/0/state",
        "Changed /brokers/topics/t/partitions/0/state",
        "Created /isr_change_notification/isr_change_0000000000",
        "Removed /isr_change_notification/isr_change_0000000000",
    ]
    leader, controller = cluster.brokers[1].session, cluster.brokers[0].session
    assert [commit.session for commit in commits] == [leader, leader, leader, controller]
    assert state(cluster) == (1, [1, 2, 0], 0, 2)


class LateFetch(DefaultChoices):
    """Chance that has a fetch under way when a follower shuts down, for each of these partitions."""

    def __init__(self, *late: TopicPartition) -> None:
        super().__init__()
        self.late = list(late)

    def taken_back(self, stopping: int) -> TopicPartition | None:
        """Return the next one; None when there is none left."""
        del stopping
        return self.late.pop(0) if self.late else None


def test_before_alter_partition_a_late_fetch_brings_a_stopping_follower_back() -> None:
    """Its leader writes it into the ISR under the new epoch; once it is gone it leaves again."""
    cluster = cluster_of(
        CreateTopic("t", ((1, 0, 2),)), alter_partition=False, leader_recovery_supported=False
    )
    cluster.choices = LateFetch(T0, TopicPartition("unknown", 0))
    isrs = [
        json.loads(write.data)["isr"]
        for write in written_by(cluster, StopBroker(2))
        if isinstance(write, Changed) and write.path.endswith("/state")
    ]
    assert isrs == [[1, 0], [1, 0, 2], [1, 0]]
    assert state(cluster) == (1, [1, 0], 2, 3)


def test_a_late_fetch_brings_nobody_back_where_the_controller_writes() -> None:
    """Since 2.7 it refuses an ISR with a follower that shuts down."""
    cluster = cluster_of(CreateTopic("t", ((1, 0, 2),)))
    cluster.choices = LateFetch(T0)
    cluster.perform(StopBroker(2))
    assert state(cluster) == (1, [1, 0], 1, 1)


def test_before_alter_partition_a_state_watch_ends_a_reassignment() -> None:
    """The ISR that completes it is written by the leader, and the controller sees it change."""
    cluster = cluster_of(
        CreateTopic("t", ((1,),)), Reassign(((T0, (2, 1)),)), alter_partition=False
    )
    assert state(cluster)[:2] == (1, [1, 2])
    topic = json.loads(cluster.tree.data("/brokers/topics/t"))
    assert (topic["partitions"], topic["adding_replicas"]) == ({"0": [2, 1]}, {})


def test_a_leader_whose_state_moved_on_is_refused() -> None:
    """Its write carries a version; somebody else's write in between makes it fail."""
    cluster = cluster_of(CreateTopic("t", ((1, 2),)), alter_partition=False)
    path = "/brokers/topics/t/partitions/0/state"
    cluster.tree.write(SetZnode(path, cluster.tree.data(path)))
    cluster.perform(StallBroker(2, ("t",)))
    assert state(cluster) == (1, [1, 2], 0, 1)


T = CreateTopic("t", ((1, 2, 0),))
ISR_REQUESTS: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"isr": (1, 2, 0)}, None),
    ({"broker": 7}, "STALE_BROKER_EPOCH"),
    ({"partition": T1}, "UNKNOWN_TOPIC_OR_PARTITION"),
    ({"partition_epoch": 2}, "NOT_CONTROLLER"),
    ({"leader_epoch": 2}, "NOT_CONTROLLER"),
    ({"leader_epoch": 0}, "FENCED_LEADER_EPOCH"),
    ({"partition_epoch": 0}, "INVALID_UPDATE_VERSION"),
    ({"partition_epoch": 0, "isr": (1, 0)}, None),  # that is how it stands: idempotent
    ({"recovery": 1, "isr": (1,)}, "INVALID_REQUEST"),
    ({"recovery": 1}, "INVALID_REQUEST"),
    ({"isr": (1, 2)}, "INELIGIBLE_REPLICA"),
]


@pytest.mark.parametrize(("fields", "error"), ISR_REQUESTS)
def test_an_isr_is_written_or_refused_by_kafkas_rules(
    fields: dict[str, Any], error: str | None
) -> None:
    """Partition 0 stands at ISR [1, 0], leader epoch 1, version 1, and broker 2 is dead."""
    cluster = cluster_of(T, KillBroker(2))
    if error is None and fields.get("isr") == (1, 2, 0):
        cluster.perform(StartBroker(2))  # has joined by itself
        fields = {**fields, "partition_epoch": 2}
    isr = fields.get("isr", (1,))
    decided = LeaderAndIsr(1, isr, fields.get("leader_epoch", 1), fields.get("recovery", 0))
    answer = cluster.control(
        AlterPartition(
            fields.get("broker", 1),
            fields.get("partition", T0),
            decided,
            fields.get("partition_epoch", 1),
        )
    )
    if error is None:
        assert isinstance(answer, LeaderIsrAndControllerEpoch)
        assert answer.leader_and_isr == decided
        assert state(cluster)[1] == list(isr)
    else:
        assert answer == error
        assert state(cluster) == (1, [1, 0], 1, 1)


def test_a_recovering_leader_may_not_stay_so_with_others() -> None:
    """Its ISR may hold nobody else while it recovers; once it has recovered it may."""
    cluster = cluster_of(
        CreateTopic("t", ((1, 2),)), KillBroker(2), KillBroker(1), StartBroker(2), ElectUnclean()
    )
    assert state(cluster) == (2, [2], 3, 3)
    grown = AlterPartition(2, T0, LeaderAndIsr(2, (2, 0), 3, leader_recovery_state=1), 3)
    assert cluster.control(grown) == "INVALID_REQUEST"
    alone = AlterPartition(2, T0, LeaderAndIsr(2, (2,), 3, leader_recovery_state=0), 3)
    assert isinstance(cluster.control(alone), LeaderIsrAndControllerEpoch)
    assert state(cluster) == (2, [2], 3, 4)


# --- log directories ------------------------------------------------------------------------


def test_a_failed_log_directory_moves_its_leaders() -> None:
    """The broker tells of it; the controller asks it, elects others, and takes it out of the ISR."""
    cluster = cluster_of(CreateTopic("t", ((2, 1), (1, 2), (2, 0))))
    writes = written_by(cluster, FailLogDir(2, (T0, T1, TopicPartition("x", 0))))
    assert paths(writes)[:2] == [
        "Created /log_dir_event_notification/log_dir_event_0000000000",
        "Removed /log_dir_event_notification/log_dir_event_0000000000",
    ]
    assert isinstance(writes[0], Created)
    assert writes[0].data == '{"version":1,"broker":2,"event":1}'
    assert state(cluster, T0)[:3] == (1, [1], 1)
    assert state(cluster, T1)[:3] == (1, [1], 1)
    assert state(cluster, TopicPartition("t", 2)) == (2, [2, 0], 0, 0)


def test_a_failed_log_directory_halts_a_deletion() -> None:
    """The broker answers with an error; the topic stays until the broker is back with its disk."""
    cluster = cluster_of(CreateTopic("t", ((2, 1),)), FailLogDir(2, (T0,)), DeleteTopic("t"))
    assert cluster.tree.find("/admin/delete_topics/t") is not None
    cluster.perform(BounceBroker(2))
    assert cluster.tree.find("/brokers/topics/t") is None
    assert cluster.tree.find("/admin/delete_topics/t") is None


def test_a_failed_log_directory_is_told_once() -> None:
    """A second event about it changes nothing, and what works stays in service."""
    cluster = cluster_of(CreateTopic("t", ((2, 1), (2, 0))), FailLogDir(2, (T0,)))
    writes = written_by(cluster, FailLogDir(2, ()))
    assert len(writes) == 2
    assert state(cluster, T1) == (2, [2, 0], 0, 0)


def test_a_broker_that_cannot_delete_says_so() -> None:
    """The disk failed and nobody was told: the answer to StopReplica halts the deletion."""
    cluster = cluster_of(CreateTopic("t", ((2, 1),)))
    run = cluster.brokers[2]
    run.manager = fail_log_dir(run.manager, (T0,))
    cluster.perform(DeleteTopic("t"))
    assert cluster.tree.find("/brokers/topics/t") is not None
    cluster.perform(BounceBroker(2))
    assert cluster.tree.find("/brokers/topics/t") is None


# --- topics ---------------------------------------------------------------------------------


def test_a_topic_without_any_live_replica_waits_for_one() -> None:
    """It has no state until a replica's broker starts; then it gets its first one."""
    cluster = cluster_of(CreateTopic("t", ((7, 8),)))
    assert cluster.tree.find("/brokers/topics/t/partitions") is None
    cluster.perform(StartBroker(8))
    assert state(cluster) == (8, [8], 0, 0)


def test_deletion_can_be_forbidden() -> None:
    """Requests are refused; those that somebody writes by hand are deleted, by a new controller too."""
    cluster = cluster_of(TOPIC, delete_topic=False)
    assert cluster.perform(DeleteTopic("t")) == "TOPIC_DELETION_DISABLED"
    for operation in (ElectPreferred(), DeleteController()):
        cluster.tree.write(CreateZnode("/admin/delete_topics/t"))
        cluster.perform(operation)
        assert cluster.tree.find("/admin/delete_topics/t") is None
        assert cluster.tree.find("/brokers/topics/t") is not None


def test_a_request_to_delete_nothing_is_deleted() -> None:
    """An unknown topic under /admin/delete_topics goes."""
    cluster = cluster_of(TOPIC)
    cluster.tree.write(CreateZnode("/admin/delete_topics/x"))
    cluster.settle()
    assert cluster.tree.find("/admin/delete_topics/x") is None


def test_a_topic_that_is_reassigned_waits_to_be_deleted() -> None:
    """Not for the reassignment, but for a broker that comes back: Kafka then forgets why it waited.

    The reassignment is begun again, the topic is deleted under it, and the request stays behind.
    """
    cluster = cluster_of(TOPIC, KillBroker(2), ReassignByZnode(((T0, (2, 1)),)), DeleteTopic("t"))
    assert cluster.tree.find("/brokers/topics/t") is not None
    cluster.perform(StartBroker(2))
    assert cluster.tree.find("/brokers/topics/t") is None
    assert cluster.tree.find("/admin/reassign_partitions") is not None


def test_partitions_that_come_while_a_topic_is_deleted_are_taken_back() -> None:
    """The controller restores the assignment of those that have a container, and ignores less."""
    cluster = cluster_of(TOPIC, KillBroker(2), DeleteTopic("t"))
    before = cluster.tree.data("/brokers/topics/t")
    more = encode_topic({0: (0, 1), 1: (1, 2), 2: (0, 1)}, topic_id="000000000000000000001A")
    cluster.tree.write(SetZnode("/brokers/topics/t", more.decode()))
    cluster.settle()
    assert cluster.tree.data("/brokers/topics/t") == before
    assert cluster.tree.at("/brokers/topics/t").version == 2


def test_a_topic_that_vanishes_comes_back_with_the_next_controller_only() -> None:
    """Its znodes are deleted by hand: the controller keeps its partitions' states, as Kafka does.

    So a new topic of the name gets no leaders before another controller has read it afresh.
    """
    cluster = cluster_of(CreateTopic("t", ((1,),)))
    for path in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
        cluster.tree.write(DeleteZnode(f"/brokers/topics/t{path}"))
    cluster.settle()
    assert cluster.perform(CreateTopic("t", ((2,),))) is None
    assert cluster.tree.find("/brokers/topics/t/partitions") is None
    cluster.perform(DeleteController())
    assert state(cluster) == (2, [2], 0, 0)


# --- brokers --------------------------------------------------------------------------------


def test_a_restart_that_nobody_saw_is_a_bounce() -> None:
    """A larger czxid for the same id is a failure and a start: what it led is led by another."""
    cluster = cluster_of(CreateTopic("t", ((2, 1),)))
    run = cluster.brokers[2]
    cluster.tree.close_session(run.session)
    cluster.forget(run)
    cluster.perform(StartBroker(2))
    assert state(cluster) == (1, [1, 2], 1, 2)


def test_a_controller_that_was_replaced_behind_its_back_writes_nothing() -> None:
    """The epoch was raised by hand: its next write is refused, and it looks who it is."""
    cluster = cluster_of(TOPIC)
    cluster.tree.write(SetZnode("/controller_epoch", "9"))
    writes = written_by(cluster, Reassign(((T0, (2, 1)),)))
    assert writes == []
    assert cluster.controller is not None
    assert cluster.brokers[0].life.is_active


def test_a_broker_that_loses_its_session_registers_anew() -> None:
    """What it led is led by another, and it comes back under a new broker epoch without a start."""
    cluster = cluster_of(CreateTopic("t", ((2, 1), (1, 2))))
    before = cluster.tree.at("/brokers/ids/2").czxid
    writes = written_by(cluster, ExpireSession(2))
    assert paths(writes) == [
        "Removed /brokers/ids/2",
        "Changed /brokers/topics/t/partitions/0/state",
        "Changed /brokers/topics/t/partitions/1/state",
        "Created /brokers/ids/2",
        "Changed /brokers/ids/2",
        "Changed /brokers/topics/t/partitions/0/state",
        "Changed /brokers/topics/t/partitions/1/state",
    ]
    assert state(cluster, T0) == (1, [1, 2], 1, 2)
    assert state(cluster, T1) == (1, [1, 2], 1, 2)
    assert cluster.tree.at("/brokers/ids/2").czxid > before
    assert cluster.brokers[2].manager.broker_epoch == cluster.tree.at("/brokers/ids/2").czxid
    assert cluster.tree.data("/controller_epoch") == "1"


def test_a_controller_that_loses_its_session_is_replaced_before_it_wakes() -> None:
    """Another broker is elected, with the next epoch; the old one resigns and watches."""
    cluster = cluster_of(CreateTopic("t", ((0, 1),)))
    writes = written_by(cluster, ExpireSession(None))
    assert paths(writes)[:4] == [
        "Removed /brokers/ids/0",
        "Removed /controller",
        "Created /controller",
        "Changed /controller_epoch",
    ]
    assert cluster.controller is cluster.brokers[1]
    life = cluster.brokers[0].life
    assert (life.phase, life.active_controller_id, life.epoch) == (Phase.STANDBY, 1, 0)
    assert state(cluster) == (1, [1, 0], 2, 3)


def test_the_only_broker_is_elected_again_with_its_new_session() -> None:
    """While it is away there is no controller, so nobody writes that its partitions are offline."""
    cluster = cluster_of(CreateTopic("t", ((0,),)), brokers=1)
    assert cluster.perform(ExpireSession(0)) is None
    assert cluster.tree.data("/controller_epoch") == "2"
    assert cluster.brokers[0].life.phase is Phase.ACTIVE
    assert state(cluster) == (0, [0], 0, 0)
    cluster.perform(KillBroker(0))
    assert cluster.perform(ExpireSession(None)) == "there is no controller"


class Meddler(ZnodeTree):
    """An ensemble in which somebody raises the epoch while the first failover is under way."""

    def attempt(self, write: ZnodeWrite, *, session: int = 0) -> Commit | ZooKeeperCode:
        """Raise the epoch when /feature is made, the first thing that a failover writes."""
        answer = super().attempt(write, session=session)
        if isinstance(write, CreateZnode) and write.path == "/feature":
            self.write(SetZnode("/controller_epoch", "9"))
        return answer


def test_a_newer_epoch_stops_a_failover() -> None:
    """The next fenced write is refused; the broker still holds /controller, and is it half done."""
    cluster = Simulator(tree=Meddler())
    cluster.perform(StartBroker(0))
    life = cluster.brokers[0].life
    assert life.is_active
    assert FAILOVER_STEPS[life.steps_done] is ElectionStep.RESUME_PREFERRED_ELECTION
    assert cluster.tree.data("/controller_epoch") == "9"


def test_a_dead_process_gets_no_requests() -> None:
    """Until its session ends the controller takes it for live, and counts it in sync."""
    cluster = cluster_of()
    cluster.forget(cluster.brokers[2])
    cluster.perform(CreateTopic("t", ((2, 1),)))
    assert state(cluster) == (2, [2, 1], 0, 0)
    assert cluster.brokers[2].hosted == {}
    assert cluster.brokers[1].hosted.keys() == {T0}


def test_a_request_of_an_old_controller_is_refused_whole() -> None:
    """A broker that has heard of a newer epoch obeys no older one, and answers nothing of use."""
    cluster = cluster_of(CreateTopic("t", ((1, 2),)), DeleteController())
    run = cluster.brokers[1]
    hosted = dict(run.hosted)
    old = LeaderAndIsrRequest(1, run.manager.broker_epoch, 0, 1, (), {}, ())
    assert run.receive(old, deleting=frozenset()) is None
    stop = StopReplicaPartition(T0, 5, delete=True)
    late = StopReplicaRequest(1, run.manager.broker_epoch, 0, 1, (stop,))
    assert run.receive(late, deleting=frozenset({"t"})) == StopReplicaResponse(1, (T0,), (T0,))
    assert run.hosted == hosted


def test_a_failover_that_breaks_off_leaves_no_controller() -> None:
    """Each broker in turn meets what Kafka does not handle, and gives /controller away."""
    cluster = cluster_of(
        CreateTopic("t", ((7,),)), ReassignByZnode(((T0, (8, 7)),)), ElectPreferred()
    )
    before = int(cluster.tree.data("/controller_epoch"))
    cluster.perform(DeleteController())
    assert cluster.controller is None
    assert cluster.tree.find("/controller") is None
    assert int(cluster.tree.data("/controller_epoch")) == before + 6


def test_a_table_that_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever leads a broker where its table does not allow is at fault himself."""
    cluster = cluster_of()
    monkeypatch.setitem(TRANSITIONS[Phase.STANDBY], LifecycleEvent.EXPIRE, (Phase.ACTIVE,))
    run = cluster.brokers[1]
    with pytest.raises(ModelError, match="Expire led from standby to expired"):
        handle(run.life, LifecycleEvent.EXPIRE, cluster.tree, session=run.session)


def test_the_preferred_replica_of_nothing_breaks_a_rebalance_off() -> None:
    """A partition whose replicas were all taken away ends the event, and nothing else."""
    cluster = cluster_of(
        CreateTopic("a", ((0,),)), CreateTopic("t", ((1,),)), auto_leader_rebalance=True
    )
    run = cluster.controller
    assert run is not None
    assert run.controller is not None
    context = run.controller.controller.context
    context.assign(T0, context.assignment_of(T0).remove_replica(1))
    before = len(cluster.commits)
    cluster.settle()
    assert len(cluster.commits) == before
    assert cluster.controller is run


# --- a life by dice -------------------------------------------------------------------------


def life(seed: int, **settings: Any) -> tuple[Simulator, set[str]]:
    """Return a cluster that has lived, and the kinds of what happened to it."""
    dice = random.Random(seed).choice  # noqa: S311  # a play, not a secret
    cluster = Simulator(choices=RandomChoices(dice), settings=SimulatorSettings(**settings))
    operations = RandomOperations(dice)
    kinds = set()
    for _ in range(120):
        operation = operations.draw(cluster)
        kinds.add(type(operation).__name__)
        cluster.perform(operation)
    return cluster, kinds


def test_a_life_by_dice_knows_every_operation() -> None:
    """Each kind of operation is drawn, and the same dice give the same writes."""
    cluster, kinds = life(1)
    again, _ = life(1)
    other, more = life(2, alter_partition=False, auto_leader_rebalance=True)
    assert {type(o).__name__ for o in kinds_of_operations()} == kinds | more
    assert again.commits == cluster.commits
    assert other.commits != cluster.commits


def kinds_of_operations() -> list[Operation]:
    """Return one of each."""
    return [
        StartBroker(0), StopBroker(0), KillBroker(0), BounceBroker(0), StallBroker(0, ()),
        ExpireSession(0), CreateTopic("t", ()), CreatePartitions("t", ()), DeleteTopic("t"),
        AlterTopicConfig("t", {}), Reassign(()), ElectPreferred(), ElectUnclean(),
        ElectPreferredByZnode(()), ReassignByZnode(()), DeleteController(), FailLogDir(0, ()),
    ]  # fmt: skip
