"""The pending writes of the controller, tracked while the log is folded: at heartbeats, and during a failover.

ZooKeeper shows the work of a failover by the leaders that are gone. It begins with an election, or with the end
of a broker that explains one, and ends with the last pending leader write.

The rule: what is pending is computed from the totals, so it costs nothing per change. Time is the log's
and advances at its heartbeats, so that a replay finds the same zombies at the same positions. After
any time that was not watched (a hole, a lost session, a resync) the tracking starts again: silence
in such a time proves nothing.
"""

import itertools

import msgspec

from controller_model.facts.facts import ControllerHealthIs, FailoverIs
from controller_model.facts.stamp import Stamp
from controller_model.insight.pending_writes import is_reassignment_pending
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.changes import SessionState
from controller_model.records.completeness import LATE_MS
from controller_model.records.events import AnyEvent
from controller_model.records.pending_writes import (
    ControllerHealth,
    PendingWriteKind,
    PendingWrites,
    controller_health,
    write_timeout_ms,
)
from controller_model.records.views import Failover
from controller_model.sources.zookeeper.state import FailoverState, zookeeper_of
from controller_model.state import figures
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.source import Handle

REASSIGNING_TOPICS_LOOKED_AT = 100
"""Topics examined at a heartbeat: each must be loaded; further ones are examined when others end."""

_NOTIFICATIONS = ("/isr_change_notification/", "/log_dir_event_notification/")


def handle_heartbeat(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    """Update what is pending at a heartbeat, and state how well the controller does its work."""
    control = state.control
    held, now = zookeeper_of(control).writes, control.now
    before, held.at = held.at, now
    if not can_judge(control):
        held.known_since = held.pending_since = held.last_write_at = None
        held.reassignments = 0
    else:
        held.reassignments = _reassignments(state)
        counts = pending_counts(control)
        holder = zookeeper_of(control).controller.czxid
        was_unwatched = before is not None and now - before > LATE_MS
        if held.known_since is None or held.holder != holder or was_unwatched:
            held.known_since = now
            held.pending_since = held.last_write_at = None
            held.holder = holder
        elif held.written or any(counts.get(kind, 0) < n for kind, n in held.counts.items()):
            # Any write under the epoch counts, also a leader's own: its writer has heard from this controller.
            held.last_write_at = now
        held.written = False
        held.counts = counts
        if not counts:
            held.pending_since = None
        elif held.pending_since is None:
            held.pending_since = now
    writes = pending_writes(control)
    is_zombie = writes.health is ControllerHealth.ZOMBIE
    return handle(state, ControllerHealthIs(stamp, writes, is_zombie))


def begin_failover(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    """Begin the work, if a leader is gone; during a migration ZooKeeper does not show it."""
    control = state.control
    pending = figures.pending_leader_writes(control)
    zookeeper_of(control).failover = FailoverState(partitions=pending, pending=pending)
    if control.controller.view.migrating_to_kraft:
        begun = Failover.UNKNOWN
    else:
        begun = Failover.UNDER_WAY if pending else Failover.NOT_NEEDED
    return handle(state, FailoverIs(stamp, begun, since=stamp.at))


def count_writes(state: ClusterState, stamp: Stamp, by: int, handle: Handle) -> list[AnyEvent]:
    """Count leader writes that a partition's state made pending (`by` > 0) or did (`by` < 0)."""
    failover = zookeeper_of(state.control).failover
    if state.control.controller.view.failover is not Failover.UNDER_WAY or not by:
        return []
    failover.pending += by
    if by < 0:
        failover.last_write_at = stamp.at
    return [] if failover.pending > 0 else finish_failover(state, stamp, handle)


def finish_failover(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    """End the work if no leader write is pending any more, by a new count of them."""
    control = state.control
    view = control.controller.view
    if view.failover is not Failover.UNDER_WAY:
        return []
    failover = zookeeper_of(control).failover
    failover.pending = figures.pending_leader_writes(control)
    if failover.pending:
        return []
    ended_at = failover.last_write_at or stamp.at
    done = FailoverIs(
        stamp,
        Failover.DONE,
        since=view.failover_since,
        took_ms=max(0, ended_at - (view.failover_since or ended_at)),
        partitions=failover.partitions,
    )
    return handle(state, done)


def pending_writes(control: ControlPlane) -> PendingWrites:
    """Return what is pending now, with the controller's health."""
    held = zookeeper_of(control).writes
    counts = pending_counts(control)
    writes = PendingWrites(
        counts=counts,
        oldest_at=_oldest_at(control) if counts else None,
        pending_since=held.pending_since if counts else None,
        last_write_at=held.last_write_at,
        known_since=held.known_since if can_judge(control) else None,
        write_timeout_ms=write_timeout_ms(control.totals.partitions),
    )
    return msgspec.structs.replace(writes, health=controller_health(writes, control.now))


def can_judge(control: ControlPlane) -> bool:
    """Return whether a broker holds /controller under ZooKeeper's rules, and no changes are missing."""
    log, controller = control.log.view, control.controller.view
    return (
        controller.id != NO_CONTROLLER
        and controller.epoch is not None
        and not controller.migrating_to_kraft
        and log.session is SessionState.CONNECTED
        and not log.resync_under_way
        and log.incomplete_since is None
        and log.divergent_since is None
    )


def notifications(control: ControlPlane) -> int:
    """Return how many ISR and log directory notifications the controller has yet to process."""
    return sum(path.startswith(_NOTIFICATIONS) for path in zookeeper_of(control).stats)


def pending_counts(control: ControlPlane) -> dict[str, int]:
    """Return how many writes of each kind are pending, as far as totals show.

    Reassignments are those of the last heartbeat: totals do not hold which replicas are in the ISR.
    """
    gone, totals = _gone(control), control.totals
    counts = {
        PendingWriteKind.NEW_LEADER: figures.pending_leader_writes(control),
        PendingWriteKind.ISR_REMOVAL: sum(n for _, n in figures.pending_removals(control, gone)),
        PendingWriteKind.LEADER_BACK: _leaders_back(control),
        PendingWriteKind.FIRST_STATE: 0,
        PendingWriteKind.REASSIGNMENT: zookeeper_of(control).writes.reassignments,
        PendingWriteKind.TOPIC_DELETION: 0,
        PendingWriteKind.PREFERRED_ELECTION: int(control.pending.preferred_election),
        PendingWriteKind.NOTIFICATIONS: notifications(control),
    }
    if totals.reassigning or not totals.replicas.keys() <= control.live_brokers:
        # A dead replica or a reassignment halts a deletion (TopicDeletionManager). New partitions are counted
        # only if all brokers are there, as totals do not hold whose replicas they are, and nothing is reassigned:
        # a partition that is reassigned before it has a state never gets one.
        pass
    elif control.deleting:
        led = sum(totals.leaders.values())
        still = led - sum(n for shape, n in totals.shapes.items() if shape.leader >= 0)
        counts[PendingWriteKind.TOPIC_DELETION] = still
    else:
        without_replicas = sum(n for (factor, _), n in totals.sizes.items() if factor == 0)
        counts[PendingWriteKind.FIRST_STATE] = max(0, totals.without_state - without_replicas)
    return {kind.value: count for kind, count in counts.items() if count}


def _leaders_back(control: ControlPlane) -> int:
    # A replica in a failed log directory cannot lead although its broker lives; its partition was
    # written leaderless after the broker registered. So only a later registration makes a write pending.
    written = zookeeper_of(control).writes.leaderless_zxid
    if not written:
        return 0
    back = {
        broker
        for broker, held in control.brokers.items()
        if held.record.live and held.record.epoch is not None and held.record.epoch > written
    }
    members = control.totals.members
    return sum(
        count
        for broker in back & members.keys()
        for membership, count in members[broker].items()
        if membership.leader < 0 and membership.isr == 1
    )


def _reassignments(state: ClusterState) -> int:
    control = state.control
    live = control.live_brokers
    pending = 0
    for name in itertools.islice(control.reassigning, REASSIGNING_TOPICS_LOOKED_AT):
        if name in control.deleting:
            continue
        topic = state.topic(name)
        pending += sum(
            is_reassignment_pending(topic.facts(partition, record), live)
            for partition, record in topic.partitions.items()
        )
    return pending


def _oldest_at(control: ControlPlane) -> int | None:
    """Return the earliest end of a broker that made a write pending; None if none is known."""
    gone = _gone(control)
    brokers = {shape.leader for shape in control.totals.shapes if shape.leader in gone}
    brokers.update(broker for broker, _ in figures.pending_removals(control, gone))
    ends = (control.brokers[broker].record.since for broker in brokers if broker in control.brokers)
    return min((end for end in ends if end is not None), default=None)


def _gone(control: ControlPlane) -> set[int]:
    """Return the brokers that lead or are assigned something but are not registered."""
    return (control.totals.replicas.keys() | control.totals.leaders.keys()) - control.live_brokers
