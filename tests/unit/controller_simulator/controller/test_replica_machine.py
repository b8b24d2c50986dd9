"""The replica state machine: each case of Kafka's ReplicaStateMachineTest, and some that it leaves out."""

from __future__ import annotations

import pytest

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import ReplicaState, is_valid
from controller_simulator.controller.context import LeaderIsrAndControllerEpoch
from controller_simulator.controller.controller_io import TransitionFailure
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


def test_a_step_from_no_state_is_illegal() -> None:
    """A replica that never existed cannot go offline."""
    controller = Play(5)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.OFFLINE)
    (failure,) = controller.take_transition().failed
    assert failure.error == "IllegalStateException"
    assert state_of(controller) is ReplicaState.NON_EXISTENT


def test_a_step_without_replicas_does_nothing() -> None:
    """Nothing is asked for, so nothing is done."""
    controller = Play(5)
    controller.replicas.handle_state_changes([], ReplicaState.OFFLINE)
    done = controller.take_transition()
    assert (done.writes, done.requests, done.failed) == ([], [], [])


# --- new and online --------------------------------------------------------------------------


def test_a_new_replica_follows_the_leader() -> None:
    """NonExistent to New: the leader's state, marked as new, to the replica alone."""
    controller = play(5, 6, state=ReplicaState.NON_EXISTENT, replicas=(6, 5))
    controller.state(PARTITION, 6, 6, leader_epoch=2)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.NEW)
    assert in_short(controller.take_transition().requests) == [
        "LeaderAndIsr to 5: t-0 leader 6 epoch 2 isr [6] new",
        "UpdateMetadata to 5: ['t-0']",
        "UpdateMetadata to 6: ['t-0']",
    ]


def test_a_new_replica_without_a_leader_gets_no_request() -> None:
    """Without a leader no request is sent: the first election will send it."""
    controller = play(5, state=ReplicaState.NON_EXISTENT)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.NEW)
    assert controller.take_transition().requests == []
    assert state_of(controller) is ReplicaState.NEW


def test_a_replica_that_leads_cannot_become_new() -> None:
    """A replica that leads already cannot be new: it does not change."""
    controller = play(5, state=ReplicaState.NON_EXISTENT)
    controller.state(PARTITION, 5, 5)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.NEW)
    done = controller.take_transition()
    assert (done.writes, done.requests) == ([], [])
    assert done.failed == [
        TransitionFailure(
            REPLICA,
            ReplicaState.NON_EXISTENT,
            ReplicaState.NEW,
            "StateChangeFailedException",
        ),
    ]
    assert state_of(controller) is ReplicaState.NON_EXISTENT


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


@pytest.mark.parametrize(
    "previous", [ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE]
)
def test_a_replica_that_comes_online_is_sent_the_state(previous: ReplicaState) -> None:
    """Online, Offline or Ineligible to Online: it gets the state in memory, not marked as new."""
    controller = play(5, state=previous)
    controller.state(PARTITION, 5, 5, leader_epoch=3)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.ONLINE)
    assert in_short(controller.take_transition().requests) == [
        "LeaderAndIsr to 5: t-0 leader 5 epoch 3 isr [5]",
        "UpdateMetadata to 5: ['t-0']",
    ]


def test_a_replica_comes_online_without_a_leader_too() -> None:
    """A partition that never had a leader: the replica is online, and no request is sent."""
    controller = play(5, state=ReplicaState.OFFLINE)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.ONLINE)
    assert controller.take_transition().requests == []
    assert state_of(controller) is ReplicaState.ONLINE


def test_a_new_replica_that_comes_online_is_sent_nothing() -> None:
    """New to Online is a mark: the replica got the state when it was new."""
    controller = play(5, state=ReplicaState.NEW)
    controller.state(PARTITION, 5, 5)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.ONLINE)
    assert controller.take_transition().requests == []
    assert controller.context.replicas_of(PARTITION) == (5,)


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


def test_a_live_replica_that_goes_offline_is_sent_stop_replica() -> None:
    """StopReplica without delete is sent to a registered broker, after the requests to the others."""
    controller = play(5, 6, state=ReplicaState.ONLINE, replicas=(5, 6))
    controller.state(PARTITION, 6, 6, 5, leader_epoch=2)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.OFFLINE)
    assert in_short(controller.take_transition().requests) == [
        "LeaderAndIsr to 6: t-0 leader 6 epoch 3 isr [6]",
        "UpdateMetadata to 5: ['t-0']",
        "UpdateMetadata to 6: ['t-0']",
        "StopReplica to 5: t-0 epoch 2",
    ]
    assert controller.written(PARTITION) == (6, (6,), 3, 1)


def test_the_last_member_stays_in_the_isr() -> None:
    """A one-member ISR is never emptied: leader -1, ISR [the dead one], leader epoch + 1."""
    controller = play(6, state=ReplicaState.ONLINE, replicas=(5, 6))
    controller.state(PARTITION, 5, 5)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.OFFLINE)
    controller.take_transition()
    assert controller.written(PARTITION) == (-1, (5,), 1, 1)


def test_the_isr_keeps_its_order() -> None:
    """The remaining members keep their places."""
    controller = play(6, 7, state=ReplicaState.ONLINE, replicas=(5, 6, 7))
    controller.state(PARTITION, 6, 7, 5, 6)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.OFFLINE)
    controller.take_transition()
    assert controller.written(PARTITION) == (6, (7, 6), 1, 1)


def test_a_replica_outside_the_isr_goes_offline_without_a_write() -> None:
    """Nothing is written; the state in memory counts as this controller's, and is sent as such."""
    controller = play(6, state=ReplicaState.ONLINE, replicas=(5, 6))
    controller.state(PARTITION, 6, 6, leader_epoch=2, controller_epoch=49, version=8)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.OFFLINE)
    done = controller.take_transition()
    assert done.writes == []
    assert in_short(done.requests)[0] == "LeaderAndIsr to 6: t-0 leader 6 epoch 2 isr [6]"
    assert controller.context.leadership[PARTITION] == LeaderIsrAndControllerEpoch(
        LeaderAndIsr(6, (6,), 2), 50, 8
    )
    assert state_of(controller) is ReplicaState.OFFLINE


def test_the_isr_is_read_from_zookeeper() -> None:
    """What its leader has written since counts: in it, the replica has left the ISR already."""
    controller = play(6, state=ReplicaState.ONLINE, replicas=(5, 6))
    controller.state(PARTITION, 6, 6, version=4)
    controller.context.leadership[PARTITION] = LeaderIsrAndControllerEpoch(
        LeaderAndIsr(6, (6, 5)), 50, 3
    )
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.OFFLINE)
    assert controller.take_transition().writes == []
    assert controller.written(PARTITION) == (6, (6,), 0, 4)


def test_a_replica_without_a_leader_goes_offline_quietly() -> None:
    """Kafka's NewReplicaToOfflineReplica: StopReplica, and metadata without the partition."""
    controller = play(5, state=ReplicaState.NEW)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.OFFLINE)
    done = controller.take_transition()
    assert (done.writes, in_short(done.requests)) == (
        [],
        ["UpdateMetadata to 5: []", "StopReplica to 5: t-0 epoch -1"],
    )
    assert state_of(controller) is ReplicaState.OFFLINE


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


def test_a_newer_controllers_state_is_left_alone() -> None:
    """Under epoch 51 the controller of epoch 50 does not write the ISR, whether the replica is in it or not."""
    for isr in ((6, 5), (6,)):
        controller = play(6, state=ReplicaState.ONLINE, replicas=(5, 6))
        controller.state(PARTITION, 6, *isr, controller_epoch=51)
        controller.replicas.handle_state_changes([REPLICA], ReplicaState.OFFLINE)
        done = controller.take_transition()
        assert (done.writes, state_of(controller)) == ([], ReplicaState.ONLINE)
        assert [failure.error for failure in done.failed] == ["StateChangeFailedException"]


def test_no_leader_and_isr_is_sent_for_a_topic_under_deletion() -> None:
    """The ISR is written, but no LeaderAndIsr is sent: the topic is being deleted."""
    controller = play(5, 6, state=ReplicaState.ONLINE, replicas=(5, 6))
    controller.context.topics_to_be_deleted["t"] = None
    controller.state(PARTITION, 5, 5, 6)
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.OFFLINE)
    assert in_short(controller.take_transition().requests) == ["StopReplica to 5: t-0 epoch -2"]
    assert controller.written(PARTITION) == (-1, (6,), 1, 1)
    assert state_of(controller) is ReplicaState.OFFLINE


def test_replicas_of_several_brokers_leave_one_after_the_other() -> None:
    """Two brokers die: two writes for the partition, broker by broker, the second over the first."""
    controller = Play(7)
    (partition,) = controller.topic("t", (5, 6, 7))
    controller.state(partition, 7, 5, 6, 7)
    both = [replica(partition, 5), replica(partition, 6)]
    for one in both:
        controller.context.replica_states[one] = ReplicaState.ONLINE
    controller.replicas.handle_state_changes(both, ReplicaState.OFFLINE)
    assert len(controller.take_transition().writes) == 2
    assert controller.written(partition) == (7, (7,), 2, 2)


# --- deletion --------------------------------------------------------------------------------


def test_a_deletion_that_starts_stops_and_deletes() -> None:
    """Offline to DeletionStarted: StopReplica with delete, under the deletion's epoch."""
    controller = play(5, state=ReplicaState.OFFLINE)
    controller.context.topics_to_be_deleted["t"] = None
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.DELETION_STARTED)
    assert in_short(controller.take_transition().requests) == [
        "StopReplica to 5: t-0 epoch -2 delete"
    ]


def test_a_replica_that_is_gone_is_forgotten() -> None:
    """Kafka's ReplicaDeletionSuccessfulToNonexistent: removed from the assignment and from the states."""
    controller = play(5, state=ReplicaState.DELETION_SUCCESSFUL, replicas=(6, 5))
    controller.replicas.handle_state_changes([REPLICA], ReplicaState.NON_EXISTENT)
    assert controller.context.replicas_of(PARTITION) == (6,)
    assert REPLICA not in controller.context.replica_states
    assert controller.take_transition().requests == []


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
