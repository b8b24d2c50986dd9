"""Leaders change ISRs by the protocol of their version, and events are handled in turn."""

from __future__ import annotations

import json

import pytest

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.broker import SimulatedBroker
from controller_simulator.cluster.events import ControllerEvent
from controller_simulator.cluster.operations import KillBroker, Reassign, StopBroker
from controller_simulator.cluster.settings import Choices
from controller_simulator.controller.controller_io import Transition
from controller_simulator.controller.phases import (
    FAILOVER_STEPS,
    ElectionStep,
    LifecycleEvent,
    Phase,
)
from controller_simulator.zookeeper.transactions import Changed, SetZnode
from tests.support.scripted_operations import (
    BounceBroker,
    CreateTopic,
    ScriptedOperation,
    StallBroker,
)
from tests.support.scripted_simulator import served
from tests.support.simulated_cluster import T0, T1, cluster_of, paths, state, written_by


def test_a_stalled_follower_leaves_and_comes_back() -> None:
    """The leader writes twice and keeps its epoch; partitions that the follower leads do not change."""
    cluster = cluster_of(CreateTopic("t", ((0, 2), (2, 0))), CreateTopic("other", ((0, 2),)))
    writes = written_by(cluster, StallBroker(2, ("t",)))
    assert paths(writes) == ["Changed /brokers/topics/t/partitions/0/state"] * 2
    assert state(cluster) == (0, [0, 2], 0, 2)
    assert state(cluster, T1) == (2, [2, 0], 0, 0)


class SlowFollowers(Choices):
    """Choices that let followers fall behind, once for each given partition."""

    def __init__(self, *slow: tuple[TopicPartition, tuple[int, ...]]) -> None:
        super().__init__()
        self.slow = list(slow)

    def falls_behind(self) -> tuple[TopicPartition, tuple[int, ...]] | None:
        """Return the next ones; None when there are none left."""
        return self.slow.pop(0) if self.slow else None


def test_a_slow_follower_is_dropped_and_catches_up() -> None:
    """Its leader writes twice under the same epoch; without a leader a slow follower does not matter."""
    cluster = cluster_of(CreateTopic("t", ((1, 2, 0),)))
    cluster.choices = SlowFollowers((T0, (2,)), (T1, (2,)))
    cluster.run_until_quiet()
    assert state(cluster) == (1, [1, 0, 2], 0, 2)


@pytest.mark.parametrize("operation", [KillBroker(2), BounceBroker(2)])
def test_a_leader_may_miss_a_dead_follower_before_zookeeper_does(
    operation: ScriptedOperation,
) -> None:
    """A follower that died before it fetched from a new leader is dropped before its session ends."""
    cluster = cluster_of(CreateTopic("t", ((1, 2, 0),)))
    cluster.choices = SlowFollowers((T0, (2,)))
    assert paths(written_by(cluster, operation))[:2] == [
        "Changed /brokers/topics/t/partitions/0/state",
        "Removed /brokers/ids/2",
    ]


def test_no_isr_is_altered_while_the_controller_is_stalled() -> None:
    """Since 2.7 the controller writes it, so a stalled controller remains in the ISR."""
    cluster = cluster_of(CreateTopic("t", ((1, 0),)))
    assert written_by(cluster, StallBroker(0, ("t",))) == []


def test_before_alter_partition_leaders_write_their_isr() -> None:
    """They write under the controller's epoch, in their own session, and notify the controller later."""
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


class LateFetch(Choices):
    """Choices in which a fetch is in progress when a follower shuts down, for each of these partitions."""

    def __init__(self, *late: TopicPartition) -> None:
        super().__init__()
        self.late = list(late)

    def taken_back(self, stopping: int) -> TopicPartition | None:
        """Return the next one; None when there is none left."""
        del stopping
        return self.late.pop(0) if self.late else None


def test_before_alter_partition_a_late_fetch_brings_a_stopping_follower_back() -> None:
    """Its leader writes it into the ISR under the new epoch; when it has ended it is removed again."""
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


def test_with_alter_partition_a_late_fetch_does_not_restore_a_stopping_follower() -> None:
    """Since 2.7 it refuses an ISR with a follower that shuts down."""
    cluster = cluster_of(CreateTopic("t", ((1, 0, 2),)))
    cluster.choices = LateFetch(T0)
    cluster.perform(StopBroker(2))
    assert state(cluster) == (1, [1, 0], 1, 1)


def test_before_alter_partition_a_state_watch_ends_a_reassignment() -> None:
    """The leader writes the ISR that completes the reassignment, and the controller sees the change."""
    cluster = cluster_of(
        CreateTopic("t", ((1,),)), Reassign(((T0, (2, 1)),)), alter_partition=False
    )
    assert state(cluster)[:2] == (1, [1, 2])
    topic = json.loads(cluster.tree.data("/brokers/topics/t"))
    assert (topic["partitions"], topic["adding_replicas"]) == ({"0": [2, 1]}, {})


def test_an_isr_write_with_an_outdated_version_is_refused() -> None:
    """Its write carries a version; another write in between makes it fail."""
    cluster = cluster_of(CreateTopic("t", ((1, 2),)), alter_partition=False)
    path = "/brokers/topics/t/partitions/0/state"
    cluster.tree.write(SetZnode(path, cluster.tree.data(path)))
    cluster.perform(StallBroker(2, ("t",)))
    assert state(cluster) == (1, [1, 2], 0, 1)


def test_a_dead_process_gets_no_requests() -> None:
    """Until its session ends the controller takes it for live, and counts it as in sync."""
    cluster = cluster_of()
    cluster.forget(cluster.brokers[2])
    cluster.perform(CreateTopic("t", ((2, 1),)))
    assert state(cluster) == (2, [2, 1], 0, 0)
    assert served(cluster.brokers[2]) == {}
    assert served(cluster.brokers[1]).keys() == {T0}


def test_events_wait_for_the_end_of_a_failover() -> None:
    """The event thread is busy: what arrives in between is handled when the last step is done."""
    cluster = cluster_of()
    done: list[ControllerEvent | ElectionStep] = []

    def observe(run: SimulatedBroker, cause: ControllerEvent | ElectionStep, _: Transition) -> None:
        done.append(cause)
        if cause is FAILOVER_STEPS[0]:
            cluster.notify(run, LifecycleEvent.EXPIRE)
        if cause in FAILOVER_STEPS:
            assert run.life.phase is Phase.FAILOVER

    cluster.on_transition = observe
    assert cluster.perform(KillBroker(0)) is None
    assert tuple(done[: len(FAILOVER_STEPS)]) == FAILOVER_STEPS
    assert cluster.brokers[1].life.phase is Phase.EXPIRED
