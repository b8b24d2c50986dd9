"""Writes that the controller owes now, and its health by them: working, slow or a zombie.

The rule: a write is due only where Kafka's controller would make it whatever its settings are. A
controller is a zombie (`ghost` in records and metrics) only after nobody has written anything under
its epoch for longer than a write timeout that grows with the cluster. A trickle is slow, not a
zombie; what cannot be judged (nobody holds /controller, a migration to KRaft, figures that may lack
changes) is unknown.
"""

import enum
from collections.abc import Collection

import msgspec

WRITE_TIMEOUT_MS = 45_000
"""Longer than replica.lag.time.max.ms (30 s), within which a leader drops a dead follower itself
where an old controller does not, plus a heartbeat of the log."""

WRITE_TIMEOUT_PER_PARTITION_MS = 1
"""Measured: a new controller's first write came 7 to 14 s after its election at 10,000 partitions
on two busy cores; real failovers take up to 60 s at 200,000."""


class Due(enum.StrEnum):
    """What a controller owes."""

    NEW_LEADER = "new_leader"
    """Partitions whose leader is gone: another one, or none (onReplicasBecomeOffline)."""
    ISR_REMOVAL = "isr_removal"
    """Members of an ISR that are gone while the leader lives (ReplicaStateMachine)."""
    LEADER_BACK = "leader_back"
    """Partitions without a leader, a member of whose ISR has registered since that was written
    (onBrokerStartup)."""
    FIRST_STATE = "first_state"
    """New partitions, all brokers being there (onNewPartitionCreation)."""
    REASSIGNMENT = "reassignment"
    """Reassignments whose target replicas are all in the ISR (onPartitionReassignment, phase B)."""
    TOPIC_DELETION = "topic_deletion"
    """Partitions of topics to be deleted that are still led (TopicDeletionManager)."""
    PREFERRED_ELECTION = "preferred_election"
    """/admin/preferred_replica_election stands: the controller takes it away when it is done."""
    NOTIFICATIONS = "notifications"
    """ISR and log directory notifications, which the controller takes away when it has read them."""


class ControllerHealth(enum.StrEnum):
    """How well the holder of /controller does its work."""

    NOT_NEEDED = "not_needed"
    """No write is due."""
    WORKING = "working"
    """Writes are due, and not for long."""
    SLOW = "slow"
    """One has been due for longer than the write timeout, while others are made."""
    GHOST = "ghost"
    """Writes are due, and nobody has written under the epoch for longer than the write timeout."""
    UNKNOWN = "unknown"


class WritesDue(msgspec.Struct, frozen=True, kw_only=True):
    """The writes that are due, and the controller's health, by the log's clock."""

    counts: dict[str, int] = {}
    """How many of each kind (`Due`); kinds of which there are none are absent."""
    oldest_at: int | None = None
    """When the oldest became due, where the end of a broker shows it; None where nothing does."""
    owed_since: int | None = None
    """Since when something has been due at every heartbeat, under this controller, in sight."""
    last_write_at: int | None = None
    """The heartbeat at which work was last seen to have been done under the epoch."""
    known_since: int | None = None
    """Since when the health can be judged; None: it cannot be now."""
    patience_ms: int = WRITE_TIMEOUT_MS
    """The write timeout."""
    verdict: ControllerHealth = ControllerHealth.UNKNOWN


def write_timeout_ms(partitions: int) -> int:
    """Return how long a due write may wait in a cluster of this size.

    >>> write_timeout_ms(10), write_timeout_ms(200_000)
    (45010, 245000)
    """
    return WRITE_TIMEOUT_MS + partitions * WRITE_TIMEOUT_PER_PARTITION_MS


def is_reassignment_due(
    replicas: Collection[int],
    *,
    adding: Collection[int],
    removing: Collection[int],
    leader: int,
    isr: Collection[int],
    live: Collection[int],
    leader_epoch: int,
) -> bool:
    """Return whether a reassignment can go on to its end (KafkaController.isReassignmentComplete).

    All target replicas are in the ISR. One that is not live leaves the ISR first, and a partition
    whose leader is gone gets another one first. A reassignment that waits for its replicas begins with a new leader
    epoch; under the first one nothing is sure, since the partition may have been reassigned before it had a state, and
    only a change of the state makes the controller look again, not its creation.
    """
    if not leader_epoch:
        return False
    target = [replica for replica in replicas if replica not in removing]
    return (
        bool(adding or removing)
        and bool(target)
        and leader in live
        and all(replica in isr and replica in live for replica in target)
    )


def controller_health(due: WritesDue, now: int) -> ControllerHealth:
    """Return the health that these writes show at `now`, by the clock of the log."""
    if due.known_since is None:
        return ControllerHealth.UNKNOWN
    if not due.counts:
        return ControllerHealth.NOT_NEEDED
    owed_since = now if due.owed_since is None else due.owed_since
    last_write_at = owed_since - 1 if due.last_write_at is None else due.last_write_at
    if now - max(owed_since, last_write_at) > due.patience_ms:
        return ControllerHealth.GHOST
    if due.oldest_at is None or last_write_at < owed_since:
        return ControllerHealth.WORKING
    late = now - max(due.oldest_at, due.known_since) > due.patience_ms
    return ControllerHealth.SLOW if late else ControllerHealth.WORKING
