"""The controller's memory: online replicas, assignments, leaders, and the gauges computed from them."""

from __future__ import annotations

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_simulator.controller.context import ControllerContext, LeaderIsrAndControllerEpoch

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def context() -> ControllerContext:
    """Return a controller of brokers 1, 2 (shutting down) and 3, with topics t and u."""
    memory = ControllerContext(live_broker_epochs={3: 30, 1: 10, 2: 20}, shutting_down={2})
    memory.topics = {"t": None, "u": None}
    memory.assign(T0, ReplicaAssignment((1, 2)))
    memory.assign(T1, ReplicaAssignment((2, 4, 3)))
    memory.assign(U0, ReplicaAssignment((1,)))
    return memory


def state(leader: int, *isr: int, epoch: int = 0) -> LeaderIsrAndControllerEpoch:
    """Return a state under controller epoch 5."""
    return LeaderIsrAndControllerEpoch(LeaderAndIsr(leader, isr, epoch), 5)


def test_partitions_with_leaders_and_with_offline_leaders() -> None:
    """Leaders that are offline, or on a given broker, except of topics to be deleted; a lone replica cannot move."""
    memory = context()
    memory.leadership = {T0: state(2, 2), T1: state(4, 4), U0: state(1, 1)}
    assert memory.partitions_with_leaders() == (T0, T1, U0)
    assert memory.partitions_with_offline_leader() == (T0, T1)
    assert memory.partition_leaders_on(2) == (T0,)
    assert memory.partition_leaders_on(1) == ()
    memory.topics_to_be_deleted["t"] = None
    assert memory.partitions_with_leaders() == (U0,)
    assert memory.partitions_with_offline_leader() == ()
    assert memory.partition_leaders_on(2) == ()
