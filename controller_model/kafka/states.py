"""The states of partitions and replicas, and the valid transitions between them.

The rule: one table maps every target state to the states from which it can be reached, as the
validPreviousStates of Kafka's objects do; all other code asks this table. The states exist only
in the controller's memory. `partition_state_of` derives a partition's state from what ZooKeeper
holds; of a replica's state, ZooKeeper holds nothing.

Partitions: New -> Online <-> Offline -> NonExistent; a New partition can also become Offline.
Replicas: New -> Online <-> Offline -> DeletionStarted -> DeletionSuccessful -> NonExistent; after a
failed deletion a replica is DeletionIneligible, and becomes Offline before the deletion is retried.
Source (Kafka 3.9): kafka.controller.PartitionState and ReplicaState.
"""

import enum
from collections.abc import Collection
from typing import TypeAlias

from controller_model.kafka.errors import ModelError


class PartitionState(enum.StrEnum):
    """The state of a partition in the controller's memory (kafka.controller.PartitionState)."""

    NEW = "NewPartition"
    """It has replicas, and no leader and ISR yet."""
    ONLINE = "OnlinePartition"
    """A leader was elected."""
    OFFLINE = "OfflinePartition"
    """Its leader died, and no other was elected."""
    NON_EXISTENT = "NonExistentPartition"
    """It was never created, or its deletion has started."""


class ReplicaState(enum.StrEnum):
    """The state of a replica in the controller's memory (kafka.controller.ReplicaState)."""

    NEW = "NewReplica"
    """It may only become a follower."""
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    """Its broker or its log directory is down, or its broker was ordered to stop it."""
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
"""The valid previous states of each target, in the order of Kafka's own sets (validPreviousStates).

A state's plain name finds its entry too, because the keys are StrEnum members."""


def is_valid(previous: str | None, target: str) -> bool:
    """Return whether Kafka allows a partition or a replica to change from one state to another.

    Both states are given by name. None means that the controller does not know the partition or
    replica yet, which is the same as NonExistent. A transition between a partition's state and a
    replica's is never valid. Raises ModelError for a name that is not a state.

    >>> is_valid(PartitionState.NEW, "OnlinePartition")
    True
    >>> is_valid(None, ReplicaState.ONLINE)
    False
    """
    before = valid_previous_states(target)
    if previous is None:
        return PartitionState.NON_EXISTENT in before or ReplicaState.NON_EXISTENT in before
    valid_previous_states(previous)  # raises if it is not a state
    return previous in before


def valid_previous_states(target: str) -> _Before:
    """Return the states from which a target can be reached, in Kafka's order.

    Raises ModelError if the target is not a state.
    """
    if target not in _VALID_PREVIOUS_STATES:
        raise ModelError(f"{target!r} is no state of a partition or a replica")
    return _VALID_PREVIOUS_STATES[target]


def partition_state_of(leader: int | None, live: Collection[int]) -> PartitionState:
    """Return the state that a new controller gives an assigned partition, from what ZooKeeper holds.

    `leader` is None if there is no state znode; `live` holds the registered brokers. A leader of
    -1, or of -2 while the topic is deleted, is not a live broker. Source:
    PartitionStateMachine.initializePartitionState.

    >>> str(partition_state_of(-1, {0}))
    'OfflinePartition'
    """
    if leader is None:
        return PartitionState.NEW
    return PartitionState.ONLINE if leader in live else PartitionState.OFFLINE
