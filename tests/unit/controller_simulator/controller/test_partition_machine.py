"""The partition state machine: each case of Kafka's PartitionStateMachineTest, and some that it leaves out."""

from __future__ import annotations

import pytest

from controller_model.kafka.elections import RECOVERING, LeaderAndIsr, Strategy
from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import PartitionState, is_valid
from controller_simulator.controller.context import LeaderIsrAndControllerEpoch
from controller_simulator.controller.controller_io import TransitionFailure
from controller_simulator.zookeeper.transactions import (
    CheckZnode,
    ControllerMovedError,
    CreateZnode,
    Multi,
    SetZnode,
)
from tests.support.controllers import Play, in_short, offline_partition_count

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


def test_a_step_from_no_state_is_illegal() -> None:
    """A partition that was never new cannot come online."""
    controller = Play(5)
    controller.topic("t", (5,))
    assert online(controller) is None
    assert controller.take_transition().failed == [
        TransitionFailure(
            PARTITION,
            PartitionState.NON_EXISTENT,
            PartitionState.ONLINE,
            "IllegalStateException",
        ),
    ]


def test_only_transitions_to_online_write_and_send() -> None:
    """New, Offline and NonExistent are marks in the controller's memory."""
    controller = Play(5)
    controller.topic("t", (5,))
    for target in (
        PartitionState.NEW,
        PartitionState.OFFLINE,
        PartitionState.OFFLINE,
        PartitionState.NON_EXISTENT,
    ):
        assert controller.partitions.handle_state_changes([PARTITION], target) == {}
        assert state_of(controller) is target
    done = controller.take_transition()
    assert (done.writes, done.requests, done.failed) == ([], [], [])


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


def test_a_new_partition_without_live_replicas_stays_new() -> None:
    """Without a live replica nothing is written, and no request is sent."""
    controller = play(6, 7, state=PartitionState.NEW)
    controller.context.shutting_down.add(7)
    online(controller)
    done = controller.take_transition()
    assert (done.writes, done.requests) == ([], [])
    (failure,) = done.failed
    assert (failure.error, failure.previous) == ("StateChangeFailedException", PartitionState.NEW)
    assert state_of(controller) is PartitionState.NEW


def test_a_new_partition_with_a_state_stays_new() -> None:
    """Kafka's ErrorCodeFromCreateStates: an existing state is not overwritten."""
    controller = play(5, state=PartitionState.NEW)
    controller.state(PARTITION, 6, 6)
    online(controller)
    (failure,) = controller.take_transition().failed
    assert failure.error == "NodeExistsException"
    assert state_of(controller) is PartitionState.NEW
    assert controller.written(PARTITION) == (6, (6,), 0, 0)


def test_the_container_znodes_of_a_topic_are_created_once() -> None:
    """Containers first, a topic's once and then each partition's, then all the states."""
    controller = Play(5)
    partitions = controller.topic("t", (5,), (5,))
    controller.partitions.handle_state_changes(partitions, PartitionState.NEW)
    controller.partitions.handle_state_changes(partitions, PartitionState.ONLINE)
    paths = [
        write.writes[1].path
        for write in controller.take_transition().writes
        if isinstance(write, Multi)
    ]
    root = "/brokers/topics/t/partitions"
    assert paths == [root, f"{root}/0", f"{root}/1", f"{root}/0/state", f"{root}/1/state"]


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


def test_an_election_over_a_leader_that_leads_raises_the_epoch() -> None:
    """Kafka's OnlinePartitionToOnline: the preferred replica is elected although it leads."""
    controller = play(5, state=PartitionState.ONLINE)
    controller.state(PARTITION, 5, 5)
    assert online(controller, Strategy.PREFERRED) == LeaderAndIsr(5, (5,), 1)
    assert controller.take_transition().requests[0].broker == 5


def test_controlled_shutdown_sends_the_state_to_the_stopping_broker_too() -> None:
    """Kafka's OnlinePartitionToOnlineForControlledShutdown."""
    controller = play(5, 6, state=PartitionState.ONLINE, replicas=(5, 6))
    controller.context.shutting_down.add(5)
    controller.state(PARTITION, 5, 5, 6)
    assert online(controller, Strategy.CONTROLLED_SHUTDOWN) == LeaderAndIsr(6, (6,), 1)
    assert in_short(controller.take_transition().requests)[:2] == [
        "LeaderAndIsr to 5: t-0 leader 6 epoch 1 isr [6]",
        "LeaderAndIsr to 6: t-0 leader 6 epoch 1 isr [6]",
    ]


def test_an_unclean_leader_by_request() -> None:
    """Kafka's OfflinePartitionToUncleanOnline: allowed by the requester, marked as recovering."""
    controller = play(5, state=PartitionState.OFFLINE, replicas=(6, 5))
    controller.state(PARTITION, 6, 6)
    assert online(controller, allow_unclean=True) == LeaderAndIsr(5, (5,), 1, RECOVERING)
    assert [r.broker for r in controller.take_transition().requests] == [5, 5]
    assert '"leader_recovery_state":1' in controller.zookeeper.znodes[STATE][0]


def test_an_unclean_leader_by_the_topics_configuration() -> None:
    """unclean.leader.election.enable is read when the election is held."""
    controller = play(5, state=PartitionState.OFFLINE, replicas=(6, 5))
    controller.state(PARTITION, 6, 6)
    assert isinstance(online(controller), TransitionFailure)
    controller.zookeeper.unclean.add("t")
    assert online(controller) == LeaderAndIsr(5, (5,), 1, RECOVERING)


def test_a_configuration_makes_no_other_election_unclean() -> None:
    """A preferred election in a topic that allows unclean ones is clean or fails."""
    controller = play(5, 6, state=PartitionState.ONLINE, replicas=(5, 6))
    controller.zookeeper.unclean.add("t")
    controller.state(PARTITION, 6, 6)
    assert isinstance(online(controller, Strategy.PREFERRED), TransitionFailure)


def test_leader_recovery_is_not_marked_before_3_2() -> None:
    """Below inter.broker.protocol 3.2 neither znode nor request mark an unclean leader."""
    controller = Play(5, leader_recovery_supported=False)
    controller.topic("t", (6, 5))
    controller.context.partition_states[PARTITION] = PartitionState.OFFLINE
    controller.state(PARTITION, 6, 6)
    assert online(controller, allow_unclean=True) == LeaderAndIsr(5, (5,), 1)


def test_a_replica_in_a_failed_log_directory_is_not_elected() -> None:
    """A live broker that holds the partition in a failed log directory is not elected."""
    controller = play(5, 6, state=PartitionState.OFFLINE, replicas=(5, 6))
    controller.context.replicas_on_offline_dirs[5] = {PARTITION}
    controller.state(PARTITION, 5, 5, 6)
    assert online(controller) == LeaderAndIsr(6, (6,), 1)
    metadata = controller.take_transition().requests[-1]
    assert metadata.partitions[0].offline_replicas == (5,)  # type: ignore[union-attr] # UpdateMetadata


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


def test_a_newer_controllers_state_is_left_alone() -> None:
    """A state under epoch 51 is not overwritten by the controller of epoch 50."""
    controller = play(5, state=PartitionState.OFFLINE)
    controller.state(PARTITION, -1, 5, controller_epoch=51)
    result = online(controller)
    assert isinstance(result, TransitionFailure)
    assert result.error == "StateChangeFailedException"
    assert controller.take_transition().writes == []


def test_a_state_of_the_same_controller_epoch_is_overwritten() -> None:
    """The controller's own epoch is not a newer one."""
    controller = play(5, state=PartitionState.OFFLINE)
    controller.state(PARTITION, -1, 5, controller_epoch=50)
    assert online(controller) == LeaderAndIsr(5, (5,), 1)


def test_an_election_without_a_state_fails() -> None:
    """Kafka's ErrorCodeFromStateLookup: ZooKeeper counts, not memory."""
    controller = play(5, state=PartitionState.OFFLINE)
    controller.context.leadership[PARTITION] = LeaderIsrAndControllerEpoch(
        LeaderAndIsr(-1, (5,)), 50
    )
    result = online(controller)
    assert isinstance(result, TransitionFailure)
    assert result.error == "StateChangeFailedException"
    assert state_of(controller) is PartitionState.OFFLINE


def test_an_election_reads_zookeeper_again() -> None:
    """The ISR counts that a leader has shrunk in the meantime, not the one in memory."""
    controller = play(5, 6, state=PartitionState.OFFLINE, replicas=(5, 6))
    controller.state(PARTITION, 5, 6, version=4)
    controller.context.leadership[PARTITION] = LeaderIsrAndControllerEpoch(
        LeaderAndIsr(5, (5, 6)), 50, 3
    )
    assert online(controller) == LeaderAndIsr(6, (6,), 1)


def test_an_election_reads_the_state_written_in_the_same_step() -> None:
    """Two elections in one step: the second starts from the state that the first one wrote."""
    controller = play(5, state=PartitionState.OFFLINE)
    controller.state(PARTITION, -1, 5, version=7)
    assert online(controller) == LeaderAndIsr(5, (5,), 1)
    assert online(controller, Strategy.PREFERRED) == LeaderAndIsr(5, (5,), 2)
    assert len(controller.take_transition().writes) == 2
    assert controller.written(PARTITION) == (5, (5,), 2, 9)


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


def test_a_controller_that_was_replaced_writes_nothing() -> None:
    """/controller_epoch has another version: ControllerMovedException, and no write."""
    controller = play(5, state=PartitionState.OFFLINE)
    controller.state(PARTITION, -1, 5)
    controller.zookeeper.epoch_version = 50
    with pytest.raises(ControllerMovedError, match="expected 49, found 50"):
        online(controller)
    assert controller.take_transition().writes == []
    assert state_of(controller) is PartitionState.OFFLINE


def test_a_step_without_partitions_does_nothing() -> None:
    """Nothing is asked for, so nothing is done."""
    controller = Play(5)
    assert controller.partitions.handle_state_changes([], PartitionState.ONLINE) == {}
    assert controller.take_transition().requests == []


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


def test_trigger_online_skips_topics_to_be_deleted() -> None:
    """triggerOnlinePartitionStateChange: new and offline partitions, but not those of queued topics."""
    controller = Play(5)
    (kept,) = controller.topic("kept", (5,))
    (going,) = controller.topic("going", (5,))
    controller.context.topics_to_be_deleted["going"] = None
    for partition in (kept, going):
        controller.context.partition_states[partition] = PartitionState.NEW
    controller.partitions.trigger_online()
    assert controller.context.partition_states[kept] is PartitionState.ONLINE
    assert controller.context.partition_states[going] is PartitionState.NEW


def test_trigger_online_for_one_topic_skips_others() -> None:
    """Only the topic's own new and offline partitions."""
    controller = Play(5)
    first, second = controller.topic("t", (5,), (5,))
    (other,) = controller.topic("other", (5,))
    for partition in (first, other):
        controller.context.partition_states[partition] = PartitionState.NEW
    controller.context.partition_states[second] = PartitionState.OFFLINE
    controller.state(second, -1, 5)
    assert list(controller.partitions.trigger_online("t")) == [second]
    states = controller.context.partition_states
    assert [str(states[p]) for p in (first, second, other)] == [
        "OnlinePartition",
        "OnlinePartition",
        "NewPartition",
    ]


# --- the gauge -------------------------------------------------------------------------------


def test_the_gauge_follows_partitions_down_and_up() -> None:
    """Kafka's testUpdatingOfflinePartitionsCount: four go offline, and an election brings them back."""
    controller = Play(5)
    partitions = controller.topic("t", *[(5,)] * 4)
    controller.partitions.handle_state_changes(partitions, PartitionState.NEW)
    controller.partitions.handle_state_changes(partitions, PartitionState.OFFLINE)
    assert offline_partition_count(controller.context) == 4
    for partition in partitions:
        controller.state(partition, 5, 5)
    controller.partitions.handle_state_changes(partitions, PartitionState.ONLINE, Strategy.OFFLINE)
    assert offline_partition_count(controller.context) == 0


def test_the_gauge_leaves_out_topics_that_are_deleted() -> None:
    """Kafka's testNoOfflinePartitionsChangeForTopicsBeingDeleted, and ...DuringTopicDeletion."""
    controller = Play(5)
    partitions = controller.created("t", *[(5,)] * 4)
    controller.partitions.handle_state_changes(partitions, PartitionState.OFFLINE)
    assert offline_partition_count(controller.context) == 4
    controller.deletion.enqueue(["t"])
    assert offline_partition_count(controller.context) == 0
    assert set(controller.context.partition_states.values()) == {PartitionState.NON_EXISTENT}


def test_a_broker_that_comes_back_after_an_unclean_election_is_still_recovering() -> None:
    """Kafka's testBrokerBounceAfterUncleanElection: a clean election keeps the mark."""
    controller = play(6, state=PartitionState.ONLINE, replicas=(6, 5))
    controller.state(PARTITION, 6, 6)
    controller.zookeeper.znodes[STATE] = (
        (
            '{"controller_epoch":50,"leader":6,"version":1,"leader_recovery_state":1,'
            '"leader_epoch":0,"isr":[6]}'
        ),
        0,
    )
    controller.context.live_broker_epochs.clear()
    controller.partitions.handle_state_changes([PARTITION], PartitionState.OFFLINE)
    controller.context.live_broker_epochs[6] = 200
    assert online(controller, allow_unclean=True) == LeaderAndIsr(6, (6,), 1, RECOVERING)
