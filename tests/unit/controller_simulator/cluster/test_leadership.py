"""Elections, ISRs and brokers' answers, as the controller handles them."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.events import AlterPartition, ControllerSignal
from controller_simulator.cluster.operations import (
    DeleteTopic,
    ElectPreferred,
    ElectUnclean,
    KillBroker,
    StartBroker,
    StopBroker,
)
from controller_simulator.controller.context import LeaderIsrAndControllerEpoch
from tests.support.scripted_operations import (
    AlterTopicConfig,
    BounceBroker,
    CreateTopic,
    FailLogDir,
)
from tests.support.scripted_simulator import fail_log_dir
from tests.support.simulated_cluster import T0, T1, UNCLEAN, cluster_of, paths, state, written_by


def test_an_unclean_leader_recovers_with_its_next_isr() -> None:
    """The state has the mark 1 until the first follower joins; below 3.2 it never has."""
    story = (KillBroker(2), KillBroker(1), StartBroker(2), AlterTopicConfig("t", UNCLEAN))
    cluster = cluster_of(CreateTopic("t", ((1, 2),)), *story)
    assert '"leader_recovery_state":1' in cluster.tree.data("/brokers/topics/t/partitions/0/state")
    assert state(cluster) == (2, [2], 3, 3)
    cluster.perform(StartBroker(1))
    assert "recovery" not in cluster.tree.data("/brokers/topics/t/partitions/0/state")
    old = cluster_of(CreateTopic("t", ((1, 2),)), *story, leader_recovery_supported=False)
    assert "recovery" not in old.tree.data("/brokers/topics/t/partitions/0/state")
    assert state(old) == (2, [2], 3, 3)


X, DEAD = TopicPartition("x", 0), TopicPartition("dead", 0)


def test_each_refused_election_has_kafkas_error() -> None:
    """The others are held; who asks for all is not told of those that need none."""
    cluster = cluster_of(CreateTopic("t", ((1, 2), (2, 1))), StopBroker(1), StartBroker(1))
    cluster.perform(CreateTopic("held", ((1, 2),)))
    cluster.perform(KillBroker(2))
    held = TopicPartition("held", 0)
    asked = (T0, T1, X, held)
    refused = cluster.perform(ElectPreferred(asked))
    assert refused is not None
    assert set(refused.split(", ")) == {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "ELECTION_NOT_NEEDED",
        "PREFERRED_LEADER_NOT_AVAILABLE",
    }
    assert state(cluster)[0] == state(cluster, T1)[0] == 1
    assert cluster.perform(ElectPreferred((T0,))) == "ELECTION_NOT_NEEDED"
    assert cluster.perform(ElectPreferred()) == "PREFERRED_LEADER_NOT_AVAILABLE"
    cluster.perform(DeleteTopic("held"))  # its dead replica keeps it
    assert cluster.perform(ElectPreferred((held,))) == "INVALID_TOPIC_EXCEPTION"
    unclean = cluster_of(CreateTopic("t", ((1, 2),)), KillBroker(2), KillBroker(1))
    assert unclean.perform(ElectUnclean((T0,))) == "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    unclean.perform(StartBroker(2))
    assert unclean.perform(ElectUnclean((T0,))) is None


def test_a_partition_without_a_state_aborts_the_election_of_all() -> None:
    """It is read by Option.get; who asks for all partitions does not name it."""
    cluster = cluster_of(CreateTopic("t", ((1, 2), (2, 1))), StopBroker(1), StartBroker(1))
    cluster.perform(CreateTopic("dead", ((7,),)))
    before = len(cluster.commits)
    assert cluster.perform(ElectPreferred((T0, DEAD))) == "REQUEST_TIMED_OUT"
    assert len(cluster.commits) == before
    writes = written_by(cluster, ElectPreferred())
    assert paths(writes) == ["Changed /brokers/topics/t/partitions/0/state"]
    assert state(cluster) == (1, [2, 1], 2, 3)


def test_a_request_deleted_before_its_event_has_no_effect() -> None:
    """The event holds no request: the znode is read when the event is handled."""
    cluster = cluster_of(CreateTopic("t", ((1, 2),)), StopBroker(1), StartBroker(1))
    before = len(cluster.commits)
    cluster.control(ControllerSignal.ZK_PREFERRED_ELECTION)
    assert len(cluster.commits) == before
    assert state(cluster)[0] == 2


def test_auto_leader_rebalance_elects_above_the_allowed_imbalance_ratio() -> None:
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
    ({"partition_epoch": 0, "isr": (1, 0)}, None),  # the current state: idempotent
    ({"recovery": 1, "isr": (1,)}, "INVALID_REQUEST"),
    ({"recovery": 1}, "INVALID_REQUEST"),
    ({"isr": (1, 2)}, "INELIGIBLE_REPLICA"),
]


@pytest.mark.parametrize(("fields", "error"), ISR_REQUESTS)
def test_an_isr_is_written_or_refused_by_kafkas_rules(
    fields: dict[str, Any], error: str | None
) -> None:
    """Partition 0 has ISR [1, 0], leader epoch 1 and version 1, and broker 2 is dead."""
    cluster = cluster_of(T, KillBroker(2))
    if error is None and fields.get("isr") == (1, 2, 0):
        cluster.perform(StartBroker(2))  # joins by itself
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


def test_a_failed_log_directory_halts_a_deletion() -> None:
    """The broker answers with an error; the topic is kept until the broker is back with its disk."""
    cluster = cluster_of(CreateTopic("t", ((2, 1),)), FailLogDir(2, (T0,)), DeleteTopic("t"))
    assert cluster.tree.find("/admin/delete_topics/t") is not None
    cluster.perform(BounceBroker(2))
    assert cluster.tree.find("/brokers/topics/t") is None
    assert cluster.tree.find("/admin/delete_topics/t") is None


def test_a_stop_replica_error_halts_a_deletion() -> None:
    """The disk failed without an announcement: the answer to StopReplica halts the deletion."""
    cluster = cluster_of(CreateTopic("t", ((2, 1),)))
    run = cluster.brokers[2]
    fail_log_dir(run.manager, (T0,))
    cluster.perform(DeleteTopic("t"))
    assert cluster.tree.find("/brokers/topics/t") is not None
    cluster.perform(BounceBroker(2))
    assert cluster.tree.find("/brokers/topics/t") is None


def test_a_partition_without_replicas_aborts_a_rebalance() -> None:
    """A partition whose replicas were all removed ends the event, and nothing else."""
    cluster = cluster_of(
        CreateTopic("a", ((0,),)), CreateTopic("t", ((1,),)), auto_leader_rebalance=True
    )
    run = cluster.controller
    assert run is not None
    assert run.controller is not None
    context = run.controller.context
    context.assign(T0, context.assignment_of(T0).remove_replica(1))
    before = len(cluster.commits)
    cluster.run_until_quiet()
    assert len(cluster.commits) == before
    assert cluster.controller is run


def test_replicas_that_cannot_lead_are_not_rebalanced() -> None:
    """A preferred replica that is dead, or whose topic is being deleted, is not elected."""
    cluster = cluster_of(CreateTopic("t", ((1, 2),)), KillBroker(1), auto_leader_rebalance=True)
    assert state(cluster) == (2, [2], 1, 1)
    cluster.perform(DeleteTopic("t"))
    before = len(cluster.commits)
    cluster.run_until_quiet()
    assert len(cluster.commits) == before
