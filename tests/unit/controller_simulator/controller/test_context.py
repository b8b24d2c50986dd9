"""The controller's memory: online replicas, assignments, leaders, and the gauges computed from them."""

from __future__ import annotations

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.ids import PartitionAndReplica, TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import PartitionState
from controller_simulator.controller.context import ControllerContext, LeaderIsrAndControllerEpoch
from tests.support.controllers import offline_partition_count, preferred_replica_imbalance_count

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


def test_live_brokers_are_registered_and_not_shutting_down() -> None:
    """A broker that is shutting down is registered but not live; the order of registration is kept."""
    memory = context()
    assert memory.live_brokers == (3, 1)
    assert memory.live_or_shutting_down_brokers == (3, 1, 2)


def test_a_replica_is_online_on_a_live_broker_with_a_working_log_directory() -> None:
    """It is registered, not shutting down unless that is asked for, and its log directory works."""
    memory = context()
    memory.replicas_on_offline_dirs = {1: {T0}, 2: {T1}}
    assert [memory.is_replica_online(b, T0) for b in (1, 2, 3, 4)] == [False, False, True, False]
    assert [memory.is_replica_online(b, T1) for b in (1, 2, 3)] == [True, False, True]
    both = [memory.is_replica_online(2, p, include_shutting_down=True) for p in (T0, T1)]
    assert both == [True, False]


def test_assigned_replicas_by_topic_partition_and_broker() -> None:
    """Partitions and replicas by topic, by partition and by broker; nothing for what is unknown."""
    memory = context()
    assert list(memory.all_partitions()) == [T0, T1, U0]
    assert memory.partitions_of("t") == (T0, T1)
    assert memory.partitions_of("unknown") == ()
    assert memory.replicas_of(T1) == (2, 4, 3)
    assert memory.replicas_of(TopicPartition("t", 9)) == ()
    assert memory.replicas_of(TopicPartition("unknown", 0)) == ()
    assert memory.replicas_of_topic("u") == (PartitionAndReplica("u", 0, 1),)
    assert memory.replicas_of_topic("unknown") == ()
    assert memory.replicas_of_partitions([T1, U0]) == (
        PartitionAndReplica("t", 1, 2),
        PartitionAndReplica("t", 1, 4),
        PartitionAndReplica("t", 1, 3),
        PartitionAndReplica("u", 0, 1),
    )
    assert memory.replicas_on({1, 4}) == (
        PartitionAndReplica("t", 0, 1),
        PartitionAndReplica("t", 1, 4),
        PartitionAndReplica("u", 0, 1),
    )


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


def test_the_epoch_of_stop_replica_requests() -> None:
    """The leader epoch; -1 without a leader; -2 for a topic that is deleted."""
    memory = context()
    memory.leadership = {T0: state(1, 1, epoch=7)}
    assert [memory.leader_epoch_for_stop(p) for p in (T0, T1)] == [7, -1]
    memory.topics_to_be_deleted["t"] = None
    assert [memory.leader_epoch_for_stop(p) for p in (T0, T1)] == [-2, -2]


def test_a_topic_is_forgotten_as_kafka_forgets_it() -> None:
    """All is removed except its partitions' states and that it was ineligible (removeTopic)."""
    memory = context()
    memory.topic_ids = {"t": "a", "u": "b"}
    memory.leadership = {T0: state(1, 1), U0: state(1, 1)}
    memory.topics_to_be_deleted["t"] = None
    memory.topics_with_deletion_started.add("t")
    memory.topics_ineligible_for_deletion.add("t")
    memory.partition_states[T0] = PartitionState.NON_EXISTENT
    memory.remove_topic("t")
    memory.remove_topic("unknown")
    assert (list(memory.topics), memory.topic_ids, list(memory.assignments)) == (
        ["u"],
        {"u": "b"},
        ["u"],
    )
    assert list(memory.leadership) == [U0]
    assert not memory.is_queued_for_deletion("t")
    assert memory.topics_with_deletion_started == set()
    assert memory.topics_ineligible_for_deletion == {"t"}
    assert list(memory.partition_states) == [T0]


def test_the_gauge_of_offline_partitions() -> None:
    """Offline ones, including those of queued topics until their deletion has begun."""
    memory = context()
    memory.partition_states = {T0: PartitionState.OFFLINE, T1: PartitionState.ONLINE}
    memory.partition_states[U0] = PartitionState.OFFLINE
    memory.topics_to_be_deleted["u"] = None
    assert offline_partition_count(memory) == 2
    memory.topics_with_deletion_started.add("u")
    assert offline_partition_count(memory) == 1
    memory.remove_topic("t")
    assert offline_partition_count(memory) == 0


def test_the_gauge_of_preferred_replica_imbalance() -> None:
    """Partitions with a state whose leader is not the first replica, without topics being deleted."""
    memory = context()
    memory.leadership = {T0: state(2, 2), T1: state(2, 2), U0: state(-1, 1)}
    assert preferred_replica_imbalance_count(memory) == 2
    memory.topics_to_be_deleted["u"] = None
    assert preferred_replica_imbalance_count(memory) == 1
