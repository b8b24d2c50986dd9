"""The replica state machine: each case of Kafka's ReplicaStateMachineTest, and some that it leaves out."""

from __future__ import annotations

import pytest

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import ReplicaState, is_valid
from controller_simulator.controller.context import LeaderIsrAndControllerEpoch
from controller_simulator.zookeeper.transactions import CheckZnode, Multi, SetZnode
from tests.support.controllers import Play, in_short, replica

PARTITION = TopicPartition("t", 0)
STATE = "/brokers/topics/t/partitions/0/state"
REPLICA = replica(PARTITION, 5)


def play(*live: int, state: ReplicaState, replicas: tuple[int, ...] = (5,)) -> Play:
    """Return a controller that holds broker 5's replica in a state."""
    controller = Play(*live)
    controller.topic("t", replicas)
    controller.context.replica_states[REPLICA] = state
    return controller


def state_of(controller: Play) -> ReplicaState:
    """Return the replica's state."""
    return controller.context.replica_states.get(REPLICA, ReplicaState.NON_EXISTENT)


@pytest.mark.parametrize("previous", ReplicaState)
@pytest.mark.parametrize("target", ReplicaState)
def test_every_step_changes_the_state_or_is_reported(
    previous: ReplicaState, target: ReplicaState
) -> None:
    """A legal step ends in its target; an illegal one changes, writes and sends nothing."""
    controller = play(5, 6, state=previous, replicas=(5, 6))
    controller.state(PARTITION, 6, 6, 5)
    controller.replicas.handle_state_changes([REPLICA], target)
    done = controller.take_transition()
    if is_valid(previous, target):
        assert (state_of(controller), done.failed) == (target, [])
        return
    assert (state_of(controller), done.writes, done.requests) == (previous, [], [])
    assert [(f.subject, f.previous, f.target, f.error) for f in done.failed] == [
        (REPLICA, previous, target, "IllegalStateException")
    ]


# --- new and online --------------------------------------------------------------------------


def test_a_refused_new_replica_does_not_stop_other_replicas() -> None:
    """Each replica makes its step independently."""
    controller = Play(5)
    first, second = controller.topic("t", (5,), (5,))
    controller.state(first, 5, 5)
    controller.replicas.handle_state_changes(
        [replica(first, 5), replica(second, 5)], ReplicaState.NEW
    )
    states = controller.context.replica_states
    assert states[replica(second, 5)] is ReplicaState.NEW
    assert states[replica(first, 5)] is ReplicaState.NON_EXISTENT


def test_a_new_replica_outside_the_assignment_is_added_to_it() -> None:
    """New to Online: a replica outside the assignment is added at its end, in memory."""
    controller = play(5, state=ReplicaState.NEW)
    controller.context.assign(PARTITION, ReplicaAssignment((6, 7), (7,), (6,)))
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.ONLINE)
    assert controller.context.assignment_of(PARTITION) == ReplicaAssignment((6, 7, 5), (7,), (6,))


# --- offline ---------------------------------------------------------------------------------


def test_a_leader_that_goes_offline_leaves_no_leader() -> None:
    """Kafka's OnlineReplicaToOfflineReplica: leader -1, ISR without it, requests to the others."""
    controller = play(6, state=ReplicaState.ONLINE, replicas=(5, 6))
    controller.state(PARTITION, 5, 5, 6, version=3)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.OFFLINE)
    done = controller.take_transition()
    assert done.writes == [
        Multi(
            (
                CheckZnode("/controller_epoch", 49),
                SetZnode(
                    STATE,
                    '{"controller_epoch":50,"leader":-1,"version":1,"leader_epoch":1,"isr":[6]}',
                    3,
                ),
            )
        ),
    ]
    assert in_short(done.requests) == [
        "LeaderAndIsr to 6: t-0 leader -1 epoch 1 isr [6]",
        "UpdateMetadata to 6: ['t-0']",
    ]
    assert controller.written(PARTITION) == (-1, (6,), 1, 4)


def test_a_replica_of_a_topic_under_deletion_without_a_state_is_skipped() -> None:
    """For a topic that is being deleted no failure is recorded, and the replica does not change."""
    controller = play(6, state=ReplicaState.ONLINE)
    controller.context.topics_to_be_deleted["t"] = None
    controller.context.leadership[PARTITION] = LeaderIsrAndControllerEpoch(
        LeaderAndIsr(5, (5,)), 50
    )
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.OFFLINE)
    assert controller.take_transition().failed == []
    assert state_of(controller) is ReplicaState.ONLINE


# --- startup ---------------------------------------------------------------------------------


def test_startup_takes_dead_replicas_out_of_the_isr() -> None:
    """Kafka's startup cases: live replicas come online, dead ones go offline and leave the ISR."""
    controller = Play(5)
    led, leaderless, failed = controller.topic("t", (5, 6), (6,), (5,))
    controller.context.replicas_on_offline_dirs[5] = {failed}
    controller.state(led, 6, 6, 5)
    controller.replicas.startup()
    done = controller.take_transition()
    states = controller.context.replica_states
    assert {tuple(one[1:]): str(state) for one, state in states.items()} == {
        (0, 5): "OnlineReplica",
        (0, 6): "OfflineReplica",
        (1, 6): "OfflineReplica",
        (2, 5): "OfflineReplica",
    }
    assert controller.written(led) == (-1, (5,), 1, 1)
    assert leaderless not in controller.context.leadership
    assert in_short(done.requests)[:2] == [
        "LeaderAndIsr to 5: t-0 leader 6 epoch 0 isr [6, 5]",
        "UpdateMetadata to 5: ['t-0']",
    ]
    assert done.failed == []


def test_a_state_that_is_gone_fails_the_step() -> None:
    """Memory holds a leader, ZooKeeper no state: the replica stays online."""
    controller = play(6, state=ReplicaState.ONLINE)
    controller.context.leadership[PARTITION] = LeaderIsrAndControllerEpoch(
        LeaderAndIsr(5, (5,)), 50
    )
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.OFFLINE)
    (failure,) = controller.take_transition().failed
    assert (failure.error, failure.target) == (
        "StateChangeFailedException",
        ReplicaState.OFFLINE,
    )
    assert state_of(controller) is ReplicaState.ONLINE
