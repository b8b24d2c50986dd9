"""The tables of states: every pair, written by hand from Kafka's state machines."""

from __future__ import annotations

import itertools

import pytest

from controller_model.kafka.errors import ModelError
from controller_model.kafka.states import (
    PartitionState,
    ReplicaState,
    is_valid,
    partition_state_of,
    valid_previous_states,
)

# A row is the previous state, a column the target: New, Online, Offline, NonExistent.
PARTITIONS = """
NewPartition         . x x .
OnlinePartition      . x x .
OfflinePartition     . x x x
NonExistentPartition x . . .
"""

# New, Online, Offline, DeletionStarted, DeletionSuccessful, DeletionIneligible, NonExistent.
REPLICAS = """
NewReplica                . x x . . . .
OnlineReplica             . x x . . . .
OfflineReplica            . x x x . x .
ReplicaDeletionStarted    . . . . x x .
ReplicaDeletionSuccessful . . . . . . x
ReplicaDeletionIneligible . x x . . . .
NonExistentReplica        x . . . . . .
"""


def steps(table: str) -> dict[tuple[str, str], bool]:
    """Read a table: (previous state, target) -> valid."""
    rows = [line.split() for line in table.strip().splitlines()]
    names = [row[0] for row in rows]
    return {
        (row[0], name): mark == "x"
        for row in rows
        for name, mark in zip(names, row[1:], strict=True)
    }


def test_every_step_of_a_partition() -> None:
    """All 16 pairs of partition states are valid or not as in the table."""
    table = steps(PARTITIONS)
    assert len(table) == 16
    for (previous, target), legal in table.items():
        assert is_valid(PartitionState(previous), PartitionState(target)) is legal


def test_every_step_of_a_replica() -> None:
    """All 49 pairs of replica states are valid or not as in the table."""
    table = steps(REPLICAS)
    assert len(table) == 49
    for (previous, target), legal in table.items():
        assert is_valid(ReplicaState(previous), ReplicaState(target)) is legal


def test_an_unknown_state_counts_as_non_existent() -> None:
    """None stands for NonExistent: only New can follow."""
    assert [is_valid(None, target) for target in PartitionState] == [True, False, False, False]
    assert [target for target in ReplicaState if is_valid(None, target)] == [ReplicaState.NEW]


def test_partition_states_never_follow_replica_states() -> None:
    """A state of the one kind never follows a state of the other."""
    for partition, replica in itertools.product(PartitionState, ReplicaState):
        assert not is_valid(partition, replica)
        assert not is_valid(replica, partition)


def test_state_names_are_accepted_like_members() -> None:
    """Every pair of names, and of a name and a member, gives the same as the pair of members."""
    states: list[PartitionState | ReplicaState] = [*PartitionState, *ReplicaState]
    for previous, target in itertools.product(states, states):
        legal = is_valid(previous, target)
        assert is_valid(previous.value, target.value) is legal
        assert is_valid(previous.value, target) is legal
        assert is_valid(previous, target.value) is legal
        assert valid_previous_states(target.value) == valid_previous_states(target)
    assert is_valid(None, "NewReplica")
    assert not is_valid(None, "OnlinePartition")


@pytest.mark.parametrize("name", ["", "Online", "ONLINE", "onlinepartition", "NewPartition "])
def test_an_unknown_state_name_raises(name: str) -> None:
    """Neither as the previous state nor as the target: the error names it, and it is not an invalid step."""
    message = f"{name!r} is no state of a partition or a replica"
    for pair in ((name, "NewPartition"), ("NewPartition", name), (None, name)):
        with pytest.raises(ModelError) as raised:
            is_valid(*pair)
        assert str(raised.value) == message


def test_the_values_are_kafkas_names() -> None:
    """Kafka's case objects print as these words."""
    assert [str(state) for state in PartitionState] == [
        "NewPartition",
        "OnlinePartition",
        "OfflinePartition",
        "NonExistentPartition",
    ]
    assert [str(state) for state in ReplicaState] == [
        "NewReplica",
        "OnlineReplica",
        "OfflineReplica",
        "ReplicaDeletionStarted",
        "ReplicaDeletionSuccessful",
        "ReplicaDeletionIneligible",
        "NonExistentReplica",
    ]


def test_previous_states_are_listed_in_kafkas_order() -> None:
    """Kafka's messages list them in this order."""
    assert ",".join(valid_previous_states(ReplicaState.DELETION_INELIGIBLE)) == (
        "OfflineReplica,ReplicaDeletionStarted"
    )
    assert ",".join(valid_previous_states(PartitionState.OFFLINE)) == (
        "NewPartition,OnlinePartition,OfflinePartition"
    )


@pytest.mark.parametrize(
    ("leader", "expected"),
    [
        (None, "NewPartition"),
        (0, "OnlinePartition"),
        (1, "OnlinePartition"),
        (2, "OfflinePartition"),
        (-1, "OfflinePartition"),
        (-2, "OfflinePartition"),
    ],
)
def test_a_partitions_state_by_what_zookeeper_holds(leader: int | None, expected: str) -> None:
    """Brokers 0 and 1 live: without a state it is New, with a live leader Online, else Offline."""
    assert partition_state_of(leader, {0, 1}) == expected
