"""The partition state machine: each case of Kafka's PartitionStateMachineTest, and some that it leaves out."""

from __future__ import annotations

import pytest

from controller_model.kafka.elections import LeaderAndIsr, Strategy
from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import PartitionState, is_valid
from controller_simulator.controller.controller_io import TransitionFailure
from controller_simulator.zookeeper.transactions import (
    CheckZnode,
    CreateZnode,
    Multi,
    SetZnode,
)
from tests.support.controllers import Play, in_short

PARTITION = TopicPartition("t", 0)
STATE = "/brokers/topics/t/partitions/0/state"
FENCE = CheckZnode("/controller_epoch", 49)


def play(*live: int, state: PartitionState, replicas: tuple[int, ...] = (5,)) -> Play:
    """Return a controller that holds one partition in a state."""
    controller = Play(*live)
    controller.topic("t", replicas)
    controller.context.partition_states[PARTITION] = state
    return controller


def online(controller: Play, strategy: Strategy = Strategy.OFFLINE, **how: bool) -> object:
    """Move the partition online; return what the election gave, None without one."""
    results = controller.partitions.handle_state_changes(
        [PARTITION], PartitionState.ONLINE, strategy, **how
    )
    return results.get(PARTITION)


def state_of(controller: Play) -> PartitionState:
    """Return the partition's state."""
    return controller.context.partition_states.get(PARTITION, PartitionState.NON_EXISTENT)


@pytest.mark.parametrize("previous", PartitionState)
@pytest.mark.parametrize("target", PartitionState)
def test_every_step_changes_the_state_or_is_reported(
    previous: PartitionState, target: PartitionState
) -> None:
    """A legal step ends in its target; an illegal one changes, writes and sends nothing."""
    controller = play(5, state=previous)
    if previous is not PartitionState.NEW:
        controller.state(PARTITION, 5, 5)
    controller.partitions.handle_state_changes([PARTITION], target, Strategy.OFFLINE)
    done = controller.take_transition()
    if is_valid(previous, target):
        assert (state_of(controller), done.failed) == (target, [])
        return
    assert (state_of(controller), done.writes, done.requests) == (previous, [], [])
    assert [(f.subject, f.previous, f.target, f.error) for f in done.failed] == [
        (PARTITION, previous, target, "IllegalStateException")
    ]


# --- new partitions --------------------------------------------------------------------------


def test_a_new_partition_gets_its_first_live_replica_as_leader() -> None:
    """initializeLeaderAndIsr: first live replica leads, ISR = live replicas, all new."""
    controller = play(7, 6, 5, state=PartitionState.NEW, replicas=(4, 6, 5))
    assert online(controller) is None
    done = controller.take_transition()
    assert done.writes == [
        Multi((FENCE, CreateZnode("/brokers/topics/t/partitions"))),
        Multi((FENCE, CreateZnode("/brokers/topics/t/partitions/0"))),
        Multi(
            (
                FENCE,
                CreateZnode(
                    STATE,
                    '{"controller_epoch":50,"leader":6,"version":1,"leader_epoch":0,"isr":[6,5]}',
                ),
            )
        ),
    ]
    assert in_short(done.requests) == [
        "LeaderAndIsr to 6: t-0 leader 6 epoch 0 isr [6, 5] new",
        "LeaderAndIsr to 5: t-0 leader 6 epoch 0 isr [6, 5] new",
        "UpdateMetadata to 7: ['t-0']",
        "UpdateMetadata to 6: ['t-0']",
        "UpdateMetadata to 5: ['t-0']",
    ]
    assert state_of(controller) is PartitionState.ONLINE
    assert controller.written(PARTITION) == (6, (6, 5), 0, 0)


def test_a_new_partition_with_a_state_stays_new() -> None:
    """Kafka's ErrorCodeFromCreateStates: an existing state is not overwritten."""
    controller = play(5, state=PartitionState.NEW)
    controller.state(PARTITION, 6, 6)
    online(controller)
    (failure,) = controller.take_transition().failed
    assert failure.error == "NodeExistsException"
    assert state_of(controller) is PartitionState.NEW
    assert controller.written(PARTITION) == (6, (6,), 0, 0)


# --- elections -------------------------------------------------------------------------------


def test_an_offline_partition_gets_a_leader() -> None:
    """Kafka's OfflinePartitionToOnlinePartition: leader epoch + 1 over the version that was read."""
    controller = play(5, state=PartitionState.OFFLINE)
    controller.state(PARTITION, -1, 5, leader_epoch=3, version=7)
    assert online(controller) == LeaderAndIsr(5, (5,), 4)
    done = controller.take_transition()
    assert done.writes == [
        Multi(
            (
                FENCE,
                SetZnode(
                    STATE,
                    '{"controller_epoch":50,"leader":5,"version":1,"leader_epoch":4,"isr":[5]}',
                    7,
                ),
            )
        ),
    ]
    assert in_short(done.requests) == [
        "LeaderAndIsr to 5: t-0 leader 5 epoch 4 isr [5]",
        "UpdateMetadata to 5: ['t-0']",
    ]
    assert controller.written(PARTITION) == (5, (5,), 4, 8)
    assert state_of(controller) is PartitionState.ONLINE


@pytest.mark.parametrize("strategy", list(Strategy))
def test_an_election_without_a_candidate_fails(strategy: Strategy) -> None:
    """No replica can lead: the state does not change, and nothing is written."""
    controller = play(6, state=PartitionState.OFFLINE)
    controller.state(PARTITION, 5, 5)
    result = online(controller, strategy)
    done = controller.take_transition()
    assert (done.writes, done.requests, done.failed) == ([], [], [result])
    assert isinstance(result, TransitionFailure)
    assert (result.error, result.previous, result.target) == (
        "StateChangeFailedException",
        PartitionState.OFFLINE,
        PartitionState.ONLINE,
    )
    assert state_of(controller) is PartitionState.OFFLINE


def test_leader_and_isr_recipients_depend_on_the_election_strategy() -> None:
    """Offline: live replicas; preferred: all; reassign: the target, dead or alive."""
    expected = {Strategy.OFFLINE: [5, 7], Strategy.PREFERRED: [5, 6, 7], Strategy.REASSIGN: [5, 6]}
    for strategy, recipients in expected.items():
        controller = play(5, 7, state=PartitionState.ONLINE, replicas=(5, 6, 7))
        controller.context.assign(PARTITION, ReplicaAssignment((5, 6, 7), (), (7,)))
        controller.context.live_broker_epochs[6] = 106
        controller.context.replicas_on_offline_dirs[6] = {PARTITION}
        controller.state(PARTITION, 7, 5, 7)
        online(controller, strategy)
        sent = [
            line
            for line in in_short(controller.take_transition().requests)
            if line.startswith("Leader")
        ]
        assert [int(line.split()[2][:-1]) for line in sent] == recipients


def test_an_election_needs_a_strategy() -> None:
    """Without a strategy only new partitions can go online; asking for more is a bug."""
    controller = play(5, state=PartitionState.OFFLINE)
    controller.state(PARTITION, -1, 5)
    with pytest.raises(ModelError, match="Election strategy is a required field"):
        controller.partitions.handle_state_changes([PARTITION], PartitionState.ONLINE)
    assert controller.take_transition().writes == []


# --- startup and triggers --------------------------------------------------------------------


def test_startup_gives_every_partition_its_state() -> None:
    """No state: New, then Online. A live leader: Online. Any other: Offline, then an election."""
    controller = Play(5, 6)
    new, led, dead, failed, stuck = controller.topic("t", (5,), (5,), (7, 6), (5, 6), (7,))
    controller.state(led, 5, 5)
    controller.state(dead, 7, 7, 6)
    controller.state(failed, 5, 5, 6)
    controller.state(stuck, 7, 7)
    controller.context.replicas_on_offline_dirs[5] = {failed}
    results = controller.partitions.startup()
    states = controller.context.partition_states
    assert {p.partition: str(states[p]) for p in states} == {
        0: "OnlinePartition",
        1: "OnlinePartition",
        2: "OnlinePartition",
        3: "OnlinePartition",
        4: "OfflinePartition",
    }
    assert [(p.partition, isinstance(r, TransitionFailure)) for p, r in results.items()] == [
        (2, False),
        (3, False),
        (4, True),
    ]
    controller.take_transition()
    assert controller.written(new) == (5, (5,), 0, 0)
    assert controller.written(dead) == (6, (6,), 1, 1)
    assert controller.written(led) == (5, (5,), 0, 0)
