"""Reassignments, phase by phase: what is written, what is sent, and in which order."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import ReplicaState
from controller_simulator.controller.controller_io import AbortedEventError
from controller_simulator.zookeeper.transactions import DeleteZnode, SetZnode
from tests.support.controllers import Play, in_short, replica, unfenced

TOPIC = "/brokers/topics/t"
STATE = f"{TOPIC}/partitions/0/state"
OTHER = TopicPartition("gone", 0)


def cluster(*replicas: int, isr: tuple[int, ...] | None = None) -> tuple[Play, TopicPartition]:
    """Return a controller of brokers 1 to 6, and a partition that its first replica leads."""
    controller = Play(1, 2, 3, 4, 5, 6)
    (partition,) = controller.topic("t", replicas)
    in_sync = isr or replicas
    controller.state(partition, in_sync[0], *in_sync, leader_epoch=10)
    controller.replicas.startup()
    controller.partitions.startup()
    controller.take_transition()
    return controller, partition


def writes(controller: Play) -> list[str]:
    """Make the writes; return each in short: the state's leader, epoch and ISR, or the path."""
    return [_named(unfenced(write)[0]) for write in controller.take_transition().writes]


def _named(part: object) -> str:
    if isinstance(part, DeleteZnode):
        return f"delete {part.path}"
    assert isinstance(part, SetZnode)
    if part.path == STATE:
        return part.data.split('"leader":')[1]
    return "topic" if part.path == TOPIC else f"set {part.path}"


def catch_up(controller: Play, partition: TopicPartition, *isr: int) -> None:
    """Let the ISR grow, as the leader asks for it: no new leader epoch."""
    leader, _, leader_epoch, version = controller.written(partition)
    controller.state(partition, leader, *isr, leader_epoch=leader_epoch, version=version + 1)


def test_a_clean_reassignment_takes_three_leader_epochs() -> None:
    """Kafka's own example, {1,2,3} to {4,5,6}, along its table: each step's assignment and state."""
    controller, partition = cluster(1, 2, 3)
    assert controller.reassignments.alter({partition: (4, 5, 6)}) == {partition: None}
    begun = controller.take_transition()
    moving = ReplicaAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    assert controller.assignment("t") == {0: moving}
    assert controller.context.assignment_of(partition) == moving
    assert controller.written(partition) == (1, (1, 2, 3), 11, 1)
    assert [unfenced(write)[0].path for write in begun.writes] == [TOPIC, STATE]
    leader_and_isr = [line for line in in_short(begun.requests) if line.startswith("LeaderAndIsr")]
    state = "t-0 leader 1 epoch 11 isr [1, 2, 3]"
    assert leader_and_isr == [
        *(f"LeaderAndIsr to {broker}: {state}" for broker in (1, 2, 3)),
        *(f"LeaderAndIsr to {broker}: {state} new" for broker in (4, 5, 6)),
        *(f"LeaderAndIsr to {broker}: {state} new" for broker in (4, 5, 6)),
    ]
    assert controller.context.replica_states[replica(partition, 4)] is ReplicaState.NEW
    assert list(controller.context.being_reassigned) == [partition]

    catch_up(controller, partition, 1, 2, 3, 4, 5)
    controller.reassignments.maybe_complete(partition)
    assert controller.take_transition().writes == []

    catch_up(controller, partition, 1, 2, 3, 4, 5, 6)
    controller.reassignments.maybe_complete(partition)
    assert writes(controller) == [
        '4,"version":1,"leader_epoch":12,"isr":[1,2,3,4,5,6]}',
        '4,"version":1,"leader_epoch":13,"isr":[2,3,4,5,6]}',
        '4,"version":1,"leader_epoch":14,"isr":[3,4,5,6]}',
        '4,"version":1,"leader_epoch":15,"isr":[4,5,6]}',
        "topic",
    ]
    assert controller.assignment("t") == {0: ReplicaAssignment((4, 5, 6))}
    assert controller.context.assignment_of(partition) == ReplicaAssignment((4, 5, 6))
    assert controller.written(partition) == (4, (4, 5, 6), 15, 7)
    assert controller.context.being_reassigned == {}
    states = controller.context.replica_states
    assert {one.replica: str(state) for one, state in states.items()} == {
        4: "OnlineReplica",
        5: "OnlineReplica",
        6: "OnlineReplica",
    }


def test_replacing_one_replica_takes_three_leader_epochs() -> None:
    """{1,2} to {3,2}: A1, B3 and B4 raise the leader epoch by one each."""
    controller, partition = cluster(1, 2)
    controller.reassignments.alter({partition: (3, 2)})
    controller.take_transition()
    catch_up(controller, partition, 1, 2, 3)
    controller.reassignments.maybe_complete(partition)
    done = controller.take_transition()
    assert controller.written(partition)[:3] == (3, (2, 3), 13)
    assert [line for line in in_short(done.requests) if "to 1:" in line] == [
        "UpdateMetadata to 1: ['t-0']",
        "UpdateMetadata to 1: ['t-0']",
        "StopReplica to 1: t-0 epoch 12",
        "StopReplica to 1: t-0 epoch 13 delete",
        "UpdateMetadata to 1: ['t-0']",
    ]


def test_a_leader_that_stays_gets_a_new_epoch() -> None:
    """The leader is in the target and live: B3 keeps it, and the new assignment is sent."""
    controller, partition = cluster(1, 2, 3)
    controller.reassignments.alter({partition: (2, 1)})
    done = controller.take_transition()
    assert controller.assignment("t") == {0: ReplicaAssignment((2, 1))}
    assert controller.written(partition)[:3] == (1, (1, 2), 12)
    assert in_short(done.requests)[:2] == [
        "LeaderAndIsr to 2: t-0 leader 1 epoch 11 isr [1, 2, 3]",
        "LeaderAndIsr to 1: t-0 leader 1 epoch 11 isr [1, 2, 3]",
    ]


def test_a_new_preferred_replica_takes_one_leader_epoch() -> None:
    """The same replicas in another order: done at once, with the same leader and ISR."""
    controller, partition = cluster(1, 2, 3)
    controller.reassignments.alter({partition: (3, 1, 2)})
    assert writes(controller) == [
        "topic",
        '1,"version":1,"leader_epoch":11,"isr":[1,2,3]}',
        "topic",
    ]
    assert controller.context.replicas_of(partition) == (3, 1, 2)
    assert controller.context.being_reassigned == {}


def test_the_same_assignment_is_written_once() -> None:
    """Nothing changes, so U1 is left out; B3 and B6 are done all the same."""
    controller, partition = cluster(1, 2)
    controller.reassignments.alter({partition: (1, 2)})
    assert writes(controller) == ['1,"version":1,"leader_epoch":11,"isr":[1,2]}', "topic"]


def test_a_dead_leader_in_the_target_is_replaced() -> None:
    """The leader is in the target and dead: B3 elects one from the target."""
    controller, partition = cluster(1, 2, 3)
    del controller.context.live_broker_epochs[1]
    controller.reassignments.alter({partition: (1, 2)})
    controller.take_transition()
    assert controller.written(partition)[:3] == (2, (1, 2), 12)


def test_a_replaced_reassignment_stops_and_deletes_its_adding_replicas() -> None:
    """Kafka's phase U3: replicas that only the first target wanted are stopped and deleted."""
    controller, partition = cluster(1, 2)
    controller.reassignments.alter({partition: (3, 2)})
    controller.take_transition()
    controller.reassignments.alter({partition: (4, 2)})
    done = controller.take_transition()
    assert controller.assignment("t") == {0: ReplicaAssignment((4, 2, 1), (4,), (1,))}
    assert [line for line in in_short(done.requests) if "StopReplica" in line] == [
        "StopReplica to 3: t-0 epoch 11",
        "StopReplica to 3: t-0 epoch 11 delete",
    ]
    assert replica(partition, 3) not in controller.context.replica_states


def test_a_cancelled_reassignment_goes_back() -> None:
    """None cancels: the target is the previous assignment, which is in sync, so it is done."""
    controller, partition = cluster(1, 2)
    controller.reassignments.alter({partition: (3, 2)})
    controller.take_transition()
    assert controller.reassignments.alter({partition: None}) == {partition: None}
    controller.take_transition()
    # The order is not restored: the target is listed first while a replica is being added.
    assert controller.assignment("t") == {0: ReplicaAssignment((2, 1))}
    assert controller.context.being_reassigned == {}


def test_cancelling_without_a_reassignment_is_refused() -> None:
    """NO_REASSIGNMENT_IN_PROGRESS, also for an unknown partition."""
    controller, partition = cluster(1, 2)
    assert controller.reassignments.alter({partition: None, OTHER: None}) == {
        partition: "NO_REASSIGNMENT_IN_PROGRESS",
        OTHER: "NO_REASSIGNMENT_IN_PROGRESS",
    }
    assert controller.take_transition().writes == []


@pytest.mark.parametrize(
    ("target", "valid"),
    [
        ((), False),
        ((1, 1), False),
        ((1, -1), False),
        ((0, 1), False),
        ((1, 7), False),
        ((1, 6), False),
        ((2, 5), True),
        ((3, 5), True),
        ((2, 1), True),
    ],
)
def test_reassignment_targets_are_validated(target: tuple[int, ...], *, valid: bool) -> None:
    """Not empty, no id twice or below 0, *new* replicas live and not shutting down."""
    controller, partition = cluster(1, 2, 3)
    del controller.context.live_broker_epochs[3]
    controller.context.shutting_down.add(6)
    assert controller.reassignments.is_valid_target(partition, target) is valid
    error = controller.reassignments.alter({partition: target})[partition]
    assert (error is None) is valid
    assert error in {None, "INVALID_REPLICA_ASSIGNMENT"}


def test_a_target_of_only_new_live_replicas_is_valid() -> None:
    """One live replica in the target is enough."""
    controller, partition = cluster(1, 2)
    controller.context.live_broker_epochs = {3: 103}
    assert controller.reassignments.is_valid_target(partition, (3,))
    assert not controller.reassignments.is_valid_target(partition, (3, 4))


def test_unknown_and_deleted_partitions_are_refused() -> None:
    """UNKNOWN_TOPIC_OR_PARTITION; a deletion has precedence over a later reassignment."""
    controller, partition = cluster(1, 2)
    controller.context.topics_to_be_deleted["t"] = None
    assert controller.reassignments.alter({partition: (3,), OTHER: (3,)}) == {
        partition: "UNKNOWN_TOPIC_OR_PARTITION",
        OTHER: "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert controller.take_transition().writes == []


@pytest.mark.parametrize("trouble", ["no state", "newer epoch", "no leadership"])
def test_a_reassignment_that_fails_leaves_its_assignment_written(trouble: str) -> None:
    """UNKNOWN_SERVER_ERROR: the assignment is written (U1), and a new controller will continue."""
    controller, partition = cluster(1, 2)
    target = (3, 2)
    if trouble == "no state":
        del controller.zookeeper.znodes[STATE]
    elif trouble == "newer epoch":
        controller.state(partition, 1, 1, 2, controller_epoch=51)
    else:
        del controller.context.leadership[partition]
        target = (2, 1)
    assert controller.reassignments.alter({partition: target}) == {
        partition: "UNKNOWN_SERVER_ERROR"
    }
    assert writes(controller) == ["topic"]
    assert partition in controller.context.being_reassigned


def test_resuming_over_a_newer_controller_epoch_aborts_the_event() -> None:
    """A newer controller epoch in the state aborts the event, with the reason."""
    controller, partition = cluster(1, 2)
    controller.reassignments.alter({partition: (3, 2)})
    controller.take_transition()
    controller.state(partition, 1, 1, 2, controller_epoch=51)
    with controller.io.event():
        controller.reassignments.resume(lambda *_: True)
    assert controller.take_transition().aborted == (
        "Leader and isr path of t-0 written by another controller, with epoch 51"
    )
    with pytest.raises(AbortedEventError):
        controller.reassignments.resume(lambda *_: True)


def test_a_new_controller_resumes_reassignments() -> None:
    """Resumed by the caller's choice: A1 again, or B when the target is in sync."""
    controller, partition = cluster(1, 2)
    controller.reassignments.alter({partition: (3, 2)})
    controller.take_transition()
    controller.reassignments.resume(lambda *_: False)
    assert controller.take_transition().writes == []
    controller.reassignments.resume(lambda one, where: one == partition and 3 in where.adding)
    assert writes(controller) == ['1,"version":1,"leader_epoch":12,"isr":[1,2]}']
    catch_up(controller, partition, 1, 2, 3)
    controller.reassignments.resume(lambda *_: True)
    controller.take_transition()
    assert controller.assignment("t") == {0: ReplicaAssignment((3, 2))}


def test_a_partition_that_does_not_move_is_never_completed() -> None:
    """A change of the ISR of any other partition starts nothing."""
    controller, partition = cluster(1, 2)
    controller.reassignments.maybe_complete(partition)
    assert controller.take_transition().writes == []


def test_a_reassignment_halts_a_deletion_until_it_is_through() -> None:
    """Queued first, reassigned meanwhile: ineligible until B8, then the deletion begins."""
    controller, partition = cluster(1, 2)
    controller.reassignments.alter({partition: (3, 2)})
    controller.context.topics_to_be_deleted["t"] = None
    controller.deletion.mark_ineligible(["t"])
    controller.take_transition()
    catch_up(controller, partition, 1, 2, 3)
    controller.reassignments.maybe_complete(partition)
    controller.take_transition()
    assert controller.context.topics_ineligible_for_deletion == set()
    states = controller.context.replica_states
    assert set(states.values()) == {ReplicaState.DELETION_STARTED}


def test_a_reassignment_makes_a_queued_topic_ineligible() -> None:
    """In every phase, before anything else (markTopicIneligibleForDeletion)."""
    controller, partition = cluster(1, 2)
    controller.reassignments.alter({partition: (3, 2)})
    controller.context.topics_to_be_deleted["t"] = None
    controller.reassignments.resume(lambda *_: True)
    assert controller.context.topics_ineligible_for_deletion == {"t"}


# --- /admin/reassign_partitions --------------------------------------------------------------


def test_a_completed_reassignment_request_is_removed_from_its_znode() -> None:
    """Done at once: B7 removes the partition from the znode, and an empty znode is deleted."""
    controller, partition = cluster(1, 2)
    controller.zookeeper.reassignments = {partition: (2, 1)}
    assert controller.reassignments.process_znode() == {partition: None}
    assert writes(controller)[-2:] == ["topic", "delete /admin/reassign_partitions"]


def test_incomplete_reassignment_requests_stay_in_the_znode() -> None:
    """Only the partition whose target was reached is removed; one with another target is kept."""
    controller = Play(1, 2, 3)
    first, second = controller.topic("t", (1, 2), (1, 2))
    for partition in (first, second):
        controller.state(partition, 1, 1, 2)
    controller.replicas.startup()
    controller.partitions.startup()
    controller.take_transition()
    controller.zookeeper.reassignments = {first: (2, 1), second: (3, 2)}
    controller.reassignments.process_znode()
    (left,) = [
        part
        for write in controller.take_transition().writes
        for part in unfenced(write)
        if part.path == "/admin/reassign_partitions"
    ]
    assert isinstance(left, SetZnode)
    assert left.data == (
        '{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[3,2]}]}'
    )


def test_failed_reassignment_requests_are_removed_from_the_znode() -> None:
    """Unknown partitions are removed; the result of the same step is read, not the old znode."""
    controller, partition = cluster(1, 2)
    controller.zookeeper.reassignments = {partition: (2, 1), OTHER: (1,)}
    assert controller.reassignments.process_znode() == {
        partition: None,
        OTHER: "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert writes(controller)[-2:] == [
        "set /admin/reassign_partitions",
        "delete /admin/reassign_partitions",
    ]
    assert controller.io.reassign_partitions() is None


def test_the_admin_api_removes_its_partitions_from_the_znode() -> None:
    """A partition that the API reassigns is removed from the znode first; without a znode nothing is set."""
    controller, partition = cluster(1, 2)
    controller.zookeeper.reassignments = {partition: (3, 1)}
    controller.reassignments.alter({partition: (3, 2)})
    assert writes(controller)[0] == "delete /admin/reassign_partitions"
    controller.zookeeper.reassignments = None
    assert controller.reassignments.process_znode() == {}
    controller.reassignments.alter({partition: (4, 2)})
    assert not any("reassign_partitions" in line for line in writes(controller))
