"""Reassignments, phase by phase: what is written, what is sent, and in which order."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import ReplicaState
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


def test_the_same_assignment_is_written_once() -> None:
    """Nothing changes, so U1 is left out; B3 and B6 are done all the same."""
    controller, partition = cluster(1, 2)
    controller.reassignments.alter({partition: (1, 2)})
    assert writes(controller) == ['1,"version":1,"leader_epoch":11,"isr":[1,2]}', "topic"]


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


# --- /admin/reassign_partitions --------------------------------------------------------------


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
