"""The states of partitions and replicas, and which step from one to another is legal.

The rule: the table is total and maps a target to the states that it may be reached from, exactly
as Kafka's objects name their validPreviousStates; everything else asks it. The states live
in the controller's memory only: what ZooKeeper shows of a partition's state is derived by
`partition_state_of`, and of a replica's state it shows nothing that could be derived.

Partitions: New -> Online <-> Offline -> NonExistent, and whatever is New or Online may go Offline.
Replicas: New -> Online <-> Offline -> DeletionStarted -> DeletionSuccessful -> NonExistent; a
deletion that fails is DeletionIneligible until it is tried again by way of Offline.
Source (Kafka 3.9): kafka.controller.PartitionState and ReplicaState.
"""

import enum
from collections.abc import Collection
from typing import TypeAlias

from controller_model.kafka.errors import ModelError


class PartitionState(enum.StrEnum):
    """What the controller holds a partition for (kafka.controller.PartitionState)."""

    NEW = "NewPartition"
    """It has replicas, and no leader and ISR yet."""
    ONLINE = "OnlinePartition"
    """A leader was elected."""
    OFFLINE = "OfflinePartition"
    """Its leader died, and no other was elected."""
    NON_EXISTENT = "NonExistentPartition"
    """It was never created, or its deletion has started."""


class ReplicaState(enum.StrEnum):
    """What the controller holds a replica for (kafka.controller.ReplicaState)."""

    NEW = "NewReplica"
    """It may only become a follower."""
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    """Its broker, or its log directory, is down; or it was ordered to stop."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """Its deletion failed, or cannot be tried while its broker is down."""
    NON_EXISTENT = "NonExistentReplica"


_Before: TypeAlias = tuple[PartitionState, ...] | tuple[ReplicaState, ...]

_VALID_PREVIOUS_STATES: dict[str, _Before] = {
    PartitionState.NEW: (PartitionState.NON_EXISTENT,),
    PartitionState.ONLINE: (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.OFFLINE: (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.NON_EXISTENT: (PartitionState.OFFLINE,),
    ReplicaState.NEW: (ReplicaState.NON_EXISTENT,),
    ReplicaState.ONLINE: (
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    ),
    ReplicaState.OFFLINE: (
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    ),
    ReplicaState.DELETION_STARTED: (ReplicaState.OFFLINE,),
    ReplicaState.DELETION_SUCCESSFUL: (ReplicaState.DELETION_STARTED,),
    ReplicaState.DELETION_INELIGIBLE: (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED),
    ReplicaState.NON_EXISTENT: (ReplicaState.DELETION_SUCCESSFUL,),
}
"""By target, in the order of Kafka's own sets (validPreviousStates); a name finds its member."""


def is_valid(previous: str | None, target: str) -> bool:
    """Return whether a partition or a replica may go from one state to another, by their names.

    None = the controller has not heard of it before, which is the same as NonExistent. A
    partition's state never follows a replica's, nor the other way round. Raises ModelError for
    what is no state.

    >>> is_valid(PartitionState.NEW, "OnlinePartition")
    True
    >>> is_valid(None, ReplicaState.ONLINE)
    False
    """
    before = valid_previous_states(target)
    if previous is None:
        return PartitionState.NON_EXISTENT in before or ReplicaState.NON_EXISTENT in before
    valid_previous_states(previous)  # raises for what is no state
    return previous in before


def valid_previous_states(target: str) -> _Before:
    """Return the states from which this one may be reached, in Kafka's order.

    Raises ModelError for what is no state.
    """
    if target not in _VALID_PREVIOUS_STATES:
        raise ModelError(f"{target!r} is no state of a partition or a replica")
    return _VALID_PREVIOUS_STATES[target]


def partition_state_of(
    *, assigned: bool, leader: int | None, live: Collection[int]
) -> PartitionState:
    """Return the state that a new controller gives a partition by what ZooKeeper holds.

    `leader` is None without a state znode; `live` are the registered brokers. A leader of -1, or
    of -2 while the topic is deleted, is no live broker. Source:
    PartitionStateMachine.initializePartitionState.

    >>> str(partition_state_of(assigned=True, leader=-1, live={0}))
    'OfflinePartition'
    """
    if not assigned:
        return PartitionState.NON_EXISTENT
    if leader is None:
        return PartitionState.NEW
    return PartitionState.ONLINE if leader in live else PartitionState.OFFLINE
