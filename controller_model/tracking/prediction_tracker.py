"""The writes that are due from the controller, tracked while the log is folded.

The rule: what is due is computed from the totals, so it costs nothing per change. Time is the log's
and advances at its heartbeats, so that a replay finds the same zombies at the same positions. After
any time that was not watched (a hole, a lost session, a resync) the tracking starts again: silence
in such a time proves nothing.
"""

import itertools

import msgspec

from controller_model.insights.writes_due import is_reassignment_due
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.changes import SessionState, ZnodeChange
from controller_model.records.completeness import LATE_MS
from controller_model.records.events import AnyEvent, PredictionFailed, where
from controller_model.records.predictions import (
    ControllerHealth,
    Due,
    WritesDue,
    controller_health,
    write_timeout_ms,
)
from controller_model.state import figures
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.znodes.znode_kinds import ZnodeKind

REASSIGNING_TOPICS_LOOKED_AT = 100
"""Topics examined at a heartbeat: each must be loaded; further ones are examined when others end."""


def heartbeat(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    """Update what is due at a heartbeat; report a controller that has become a zombie."""
    control = state.control
    predictions = control.predictions
    _move(state)
    due = writes_due(control)
    reported = predictions.ghost_reported
    predictions.ghost_reported = due.verdict is ControllerHealth.GHOST
    if reported or not predictions.ghost_reported:
        return []
    return [
        PredictionFailed(
            **where(change),
            controller=control.controller.id,
            epoch=control.controller.epoch,
            due=due.counts,
            owed_since=due.owed_since,
            last_write_at=due.last_write_at,
            patience_ms=due.patience_ms,
        )
    ]


def _move(state: ClusterState) -> None:
    control = state.control
    predictions, now = control.predictions, control.now
    before, predictions.at = predictions.at, now
    if not can_judge(control):
        predictions.known_since = predictions.owed_since = predictions.last_write_at = None
        predictions.reassignments = 0
        return
    predictions.reassignments = _reassignments(state)
    asleep = before is not None and now - before > LATE_MS
    if predictions.known_since is None or predictions.holder != control.controller.czxid or asleep:
        predictions.known_since = now
        predictions.owed_since = predictions.last_write_at = None
        predictions.holder = control.controller.czxid
    elif _has_worked(control):
        predictions.last_write_at = now
    predictions.written = False
    predictions.counts = counts_due(control)
    if not predictions.counts:
        predictions.owed_since = None
    elif predictions.owed_since is None:
        predictions.owed_since = now


def writes_due(control: ControlPlane) -> WritesDue:
    """Return what is due now, with the controller's health."""
    predictions = control.predictions
    counts = counts_due(control)
    due = WritesDue(
        counts=counts,
        oldest_at=_oldest_at(control) if counts else None,
        owed_since=predictions.owed_since if counts else None,
        last_write_at=predictions.last_write_at,
        known_since=predictions.known_since if can_judge(control) else None,
        patience_ms=write_timeout_ms(control.totals.partitions),
    )
    return msgspec.structs.replace(due, verdict=controller_health(due, control.now))


def can_judge(control: ControlPlane) -> bool:
    """Return whether a broker holds /controller under ZooKeeper's rules, and no changes are missing."""
    log, holder = control.log, control.controller
    return (
        holder.id != NO_CONTROLLER
        and holder.epoch is not None
        and not holder.migrating
        and log.session is SessionState.CONNECTED
        and log.resync is None
        and log.incomplete_since is None
        and log.divergent_since is None
    )


def counts_due(control: ControlPlane) -> dict[str, int]:
    """Return how many writes of each kind are due, as far as totals show.

    Reassignments are those of the last heartbeat: totals do not hold which replicas are in the ISR.
    """
    gone = _gone(control)
    counts = {
        Due.NEW_LEADER: figures.leader_writes_due(control),
        Due.ISR_REMOVAL: sum(n for _, n in figures.removals_due(control, gone)),
        Due.LEADER_BACK: _leaders_back(control),
        Due.FIRST_STATE: _first_states(control),
        Due.REASSIGNMENT: control.predictions.reassignments,
        Due.TOPIC_DELETION: _deletions(control),
        Due.PREFERRED_ELECTION: int(ZnodeKind.PREFERRED_ELECTION.value in control.stats),
        Due.NOTIFICATIONS: figures.notifications(control),
    }
    return {kind.value: count for kind, count in counts.items() if count}


def _leaders_back(control: ControlPlane) -> int:
    # A replica in a failed log directory cannot lead although its broker lives; its partition was
    # written leaderless after the broker registered. So only a later registration makes a write due.
    written = control.predictions.leaderless_zxid
    if not written:
        return 0
    back = {
        broker
        for broker, record in control.brokers.items()
        if record.live and record.epoch is not None and record.epoch > written
    }
    members = control.totals.members
    return sum(
        count
        for broker in back & members.keys()
        for membership, count in members[broker].items()
        if membership.leader < 0 and membership.isr == 1
    )


def _first_states(control: ControlPlane) -> int:
    # Totals do not hold whose replicas they are. The count is certain only if all brokers are there and
    # nothing is reassigned (a partition that is reassigned before it has a state never gets one).
    if control.deleting or control.totals.reassigning or not _all_are_live(control):
        return 0
    without_replicas = sum(n for (factor, _), n in control.totals.sizes.items() if factor == 0)
    return max(0, control.totals.without_state - without_replicas)


def _deletions(control: ControlPlane) -> int:
    # A dead replica or a reassignment halts a deletion (TopicDeletionManager).
    if not control.deleting or control.totals.reassigning or not _all_are_live(control):
        return 0
    led = sum(control.totals.leaders.values())
    return led - sum(n for shape, n in control.totals.shapes.items() if shape.leader >= 0)


def _reassignments(state: ClusterState) -> int:
    control = state.control
    live = control.live_brokers()
    due = 0
    for name in itertools.islice(control.reassigning, REASSIGNING_TOPICS_LOOKED_AT):
        if name in control.deleting:
            continue
        topic = state.topic(name)
        due += sum(
            is_reassignment_due(topic.facts(partition, record), live)
            for partition, record in topic.partitions.items()
        )
    return due


def _all_are_live(control: ControlPlane) -> bool:
    return control.totals.replicas.keys() <= control.live_brokers()


def _oldest_at(control: ControlPlane) -> int | None:
    """Return the earliest end of a broker that made a write due; None if none is known."""
    gone = _gone(control)
    owed = {shape.leader for shape in control.totals.shapes if shape.leader in gone}
    owed.update(broker for broker, _ in figures.removals_due(control, gone))
    ends = (control.brokers[broker].since for broker in owed if broker in control.brokers)
    return min((end for end in ends if end is not None), default=None)


def _gone(control: ControlPlane) -> set[int]:
    """Return the brokers that lead or are assigned something but are not registered."""
    return (control.totals.replicas.keys() | control.totals.leaders.keys()) - control.live_brokers()


def _has_worked(control: ControlPlane) -> bool:
    """Return whether a state was written, or something due was done, since the last heartbeat.

    Any write under the epoch counts, also a leader's own: its writer has heard from this controller.
    """
    predictions = control.predictions
    now = counts_due(control)
    return predictions.written or any(
        now.get(kind, 0) < n for kind, n in predictions.counts.items()
    )
