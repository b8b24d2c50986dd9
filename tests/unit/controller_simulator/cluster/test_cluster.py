"""Leaders change ISRs by the protocol of their version, and events are handled in turn."""

from __future__ import annotations

import json

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.operations import StopBroker
from controller_simulator.cluster.settings import Choices
from controller_simulator.zookeeper.transactions import Changed, SetZnode
from tests.support.scripted_operations import (
    CreateTopic,
    StallBroker,
)
from tests.support.scripted_simulator import served
from tests.support.simulated_cluster import T0, T1, cluster_of, state, written_by


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
