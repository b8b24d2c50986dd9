"""Pending writes from the controller, and its health by them: working, slow or a zombie.

The rule: a write is due only where Kafka's controller would make it under any settings. A
controller is a zombie (`zombie` in records and metrics) only if nobody has written anything under
its epoch for longer than the write timeout, which grows with the cluster. A controller that still
makes some writes is slow, not a zombie. The health is unknown where it cannot be judged: nobody
holds /controller, a migration to KRaft runs, or the figures may lack changes.
"""

import enum

import msgspec

WRITE_TIMEOUT_MS = 45_000
"""Longer than replica.lag.time.max.ms (30 s) plus a heartbeat of the log. Within that time a leader
removes a dead follower from the ISR itself where an old controller does not."""

WRITE_TIMEOUT_PER_PARTITION_MS = 1
"""Measured: on two busy cores, a new controller's first write came 7 to 14 s after its election at
10,000 partitions; real failovers take up to 60 s at 200,000."""


class PendingWriteKind(enum.StrEnum):
    """The kinds of writes that can be due from a controller."""

    NEW_LEADER = "new_leader"
    """Partitions whose leader is gone get another one, or none (onReplicasBecomeOffline)."""
    ISR_REMOVAL = "isr_removal"
    """Members that are gone are removed from an ISR whose leader lives (ReplicaStateMachine)."""
    LEADER_BACK = "leader_back"
    """Partitions without a leader, where at least two members of the ISR live, because the controller leaves one in it
    (ReplicaStateMachine), or where the one that lives has registered since that was written (onBrokerStartup)."""
    FIRST_STATE = "first_state"
    """New partitions of which a replica lives (onNewPartitionCreation)."""
    REASSIGNMENT = "reassignment"
    """Reassignments whose target replicas are all in the ISR (onPartitionReassignment, phase B)."""
    TOPIC_DELETION = "topic_deletion"
    """Partitions that still have a leader although their topic is to be deleted (TopicDeletionManager)."""
    PREFERRED_ELECTION = "preferred_election"
    """/admin/preferred_replica_election exists: the controller deletes it when it is done."""
    NOTIFICATIONS = "notifications"
    """ISR and log directory notifications, which the controller deletes when it has read them."""


class ControllerHealth(enum.StrEnum):
    """How well the holder of /controller does its work."""

    NOT_NEEDED = "not_needed"
    """No write is pending."""
    WORKING = "working"
    """Writes are pending, but not for long."""
    SLOW = "slow"
    """A write has been pending for longer than the write timeout, while others are made."""
    ZOMBIE = "zombie"
    """Writes were pending for longer than the write timeout, and the controller has made none since."""
    UNKNOWN = "unknown"


class PendingWrites(msgspec.Struct, frozen=True, kw_only=True):
    """The pending writes, and the controller's health, by the log's clock."""

    counts: dict[str, int] | None = {}
    """The number of writes of each kind (`PendingWriteKind`); kinds without any are absent. None: not known."""
    oldest_at: int | None = None
    """When the oldest became due, if the end of a broker shows it; None otherwise."""
    pending_since: int | None = None
    """Since when every heartbeat has shown a pending write; a new controller or a gap in the log restarts it."""
    last_write_at: int | None = None
    """The last heartbeat that showed a write of this controller."""
    zombie_since: int | None = None
    """Since when the controller has been a zombie by writes of partitions; None: it is not known to be one."""
    known_since: int | None = None
    """Since when the health can be judged; None if it cannot be judged now."""
    write_timeout_ms: int = WRITE_TIMEOUT_MS
    """The write timeout."""
    health: ControllerHealth = ControllerHealth.UNKNOWN


def write_timeout_ms(partitions: int) -> int:
    """Return for how many ms a write may be due in a cluster with so many partitions.

    >>> write_timeout_ms(10), write_timeout_ms(200_000)
    (45010, 245000)
    """
    return WRITE_TIMEOUT_MS + partitions * WRITE_TIMEOUT_PER_PARTITION_MS


def is_silent(pending_since: int, last_write_at: int | None, now: int, timeout_ms: int) -> bool:
    """Return whether no write came for longer than the write timeout, although one was pending all the time."""
    return now - max(pending_since, last_write_at or 0) > timeout_ms


def controller_health(due: PendingWrites, now: int) -> ControllerHealth:
    """Return the controller's health at `now`, by the clock of the log."""
    if due.known_since is None:
        return ControllerHealth.UNKNOWN
    if due.zombie_since is not None:
        return ControllerHealth.ZOMBIE
    if not due.counts:
        return ControllerHealth.NOT_NEEDED
    pending_since = now if due.pending_since is None else due.pending_since
    if is_silent(pending_since, due.last_write_at, now, due.write_timeout_ms):
        return ControllerHealth.ZOMBIE
    if due.oldest_at is None or due.last_write_at is None or due.last_write_at < pending_since:
        return ControllerHealth.WORKING
    late = now - max(due.oldest_at, due.known_since) > due.write_timeout_ms
    return ControllerHealth.SLOW if late else ControllerHealth.WORKING
