"""Who the controller is, since when, for how long there was none, and the work of its failover.

The rule: a source states elections and their number; where it can state the epoch of an election only
later, the election waits for that, so that one event holds both. The number of elections never falls.
"""

import msgspec

from controller_model.facts.facts import (
    ControllerConfirmed,
    ControllerEpochIs,
    ControllerGone,
    ControllerHealthIs,
    ControllerIs,
    CountingStarts,
    ElectionCauseIs,
    ElectionConfirmed,
    ElectionsAre,
    FailoverIs,
    KraftMigrationIs,
)
from controller_model.facts.stamp import where
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.events import (
    AnyEvent,
    Baseline,
    ControllerElected,
    ControllerVacated,
    ControllerZombie,
    FailoverWork,
)
from controller_model.records.recent import note_election
from controller_model.records.views import Failover
from controller_model.state.cluster import ClusterState
from controller_model.state.controller_state import ControllerState


def start_counting(state: ClusterState, fact: CountingStarts) -> list[AnyEvent]:
    """Start counting: a controller that is there counts as one election."""
    log, controller = state.control.log, state.control.controller
    view = controller.view
    log.baseline = True
    view.elections = int(view.id != NO_CONTROLLER)
    if view.elected_at is not None:
        view.recent_elections = ((view.elected_at, 1),)
    controller.pending_election = None
    if fact.is_vacant:
        view.vacant_since = fact.stamp.at
    return [
        Baseline(
            **where(fact.stamp),
            znodes=fact.entries,
            controller=view.id,
            epoch=view.epoch,
            elected_at=view.elected_at,
        )
    ]


def apply_controller(state: ClusterState, fact: ControllerIs) -> list[AnyEvent]:
    """Apply that a broker is the controller; report its election unless its epoch follows."""
    controller, stamp = state.control.controller, fact.stamp
    view = controller.view
    if fact.is_same or not state.control.log.baseline:
        _store_controller(controller, fact)
        return []
    before = controller.last_known_id
    if fact.vacant_since is not None:
        view.vacant_since = fact.vacant_since
    vacancy_ms = _close_vacancy(state, stamp.at)
    controller.last_id = before
    view.id_changes += before not in {NO_CONTROLLER, fact.broker}
    at = stamp.at if fact.elected_at is None else fact.elected_at
    view.recent_elections = note_election(view.recent_elections, at)
    _store_controller(controller, fact)
    elected = ControllerElected(
        **where(stamp),
        of_quorum=state.control.quorum is not None,
        from_broker=before,
        to_broker=fact.broker,
        epoch=fact.epoch,
        vacancy_ms=vacancy_ms,
        vacancy_min_ms=view.vacancy_last_min_ms,
        vacancy_max_ms=view.vacancy_last_max_ms,
        cause=fact.cause,
        elected_at=at,
    )
    if fact.epoch_follows:
        controller.pending_election = elected
        return []
    view.epoch = fact.epoch
    if fact.epoch is not None:
        state.set_counted_epoch(fact.epoch)
    view.elections += 1
    return [elected]


def _store_controller(controller: ControllerState, fact: ControllerIs) -> None:
    view = controller.view
    view.id = fact.broker
    view.elected_at = fact.elected_at
    if not fact.is_same:
        view.vacant_since = None
        confirm_holder(controller, fact.stamp.at)


def _close_vacancy(state: ClusterState, at: int) -> int | None:
    """Add the vacancy that an election ends; return its length if both its ends were seen."""
    controller = state.control.controller
    view = controller.view
    seen_live = view.vacant_since is not None and not state.control.log.view.resync_under_way
    # The minimum is the time in which it was seen to be vacant; the maximum, the time since it was
    # last known to be held. They are equal if both ends were seen live. If it began before anybody
    # watched, the maximum is not known, and the sums contain only the watched time.
    known_ms = 0 if view.vacant_since is None else max(0, at - view.vacant_since)
    held_until = controller.held_until
    max_ms = None if held_until is None else max(0, at - held_until)
    counted_ms = known_ms if max_ms is None else max_ms
    min_ms = min(counted_ms, known_ms) if seen_live else 0
    view.vacancy_last_min_ms = min_ms
    view.vacancy_last_max_ms = max_ms
    view.vacancy_total_min_ms += min_ms
    view.vacancy_total_max_ms += counted_ms
    return max_ms if seen_live and min_ms == max_ms else None


def apply_vacancy(state: ClusterState, fact: ControllerGone) -> list[AnyEvent]:
    """Apply that nobody is the controller."""
    controller, at = state.control.controller, fact.stamp.at
    view = controller.view
    gone = view.id
    controller.last_id = gone
    view.id = NO_CONTROLLER
    view.elected_at = None
    view.failover = Failover.UNKNOWN
    if not state.control.log.baseline:
        return []
    view.vacant_since = at
    if fact.was_seen:
        confirm_holder(controller, at)  # otherwise it may have ended at any time since
    return [
        ControllerVacated(
            **where(fact.stamp),
            of_quorum=state.control.quorum is not None,
            from_broker=gone,
            epoch=view.epoch,
            held_until=None if fact.was_seen else controller.held_until,
        )
    ]


def confirm_controller(state: ClusterState, fact: ControllerConfirmed) -> list[AnyEvent]:
    """Apply that the controller still is the controller."""
    confirm_holder(state.control.controller, fact.stamp.at)
    return []


def confirm_holder(controller: ControllerState, at: int) -> None:
    """Store that the controller is the controller at this time.

    What a KRaft controller wrote stays when it is gone, so that it never shows until when one was there.
    """
    controller.held_until = None if controller.view.migrating_to_kraft else at


def apply_epoch(state: ClusterState, fact: ControllerEpochIs) -> list[AnyEvent]:
    """Apply the controller epoch."""
    state.control.controller.view.epoch = fact.epoch
    state.set_counted_epoch(fact.epoch)
    return []


def apply_elections(state: ClusterState, fact: ElectionsAre) -> list[AnyEvent]:
    """Apply the number of elections; those that nobody saw count at the last time before which they were not."""
    view = state.control.controller.view
    view.elections = max(view.elections, fact.elections)
    view.possible_elections = fact.possible
    more = fact.missed - view.missed_elections
    if more > 0:
        view.missed_elections = fact.missed
        if view.vacant_since is not None:
            view.vacant_since = fact.stamp.at  # somebody was the controller in between
        if fact.missed_since is not None:
            view.recent_elections = note_election(view.recent_elections, fact.missed_since, more)
    return []


def report_election(state: ClusterState, fact: ElectionConfirmed) -> list[AnyEvent]:
    """Report the election that waits for its epoch, if there is one."""
    controller = state.control.controller
    election, controller.pending_election = controller.pending_election, None
    if election is None:
        return []
    return [msgspec.structs.replace(election, epoch=fact.epoch, missed_elections=fact.missed)]


def apply_cause(state: ClusterState, fact: ElectionCauseIs) -> list[AnyEvent]:
    """Apply why the election took place that waits for its epoch."""
    controller = state.control.controller
    if controller.pending_election is not None:
        controller.pending_election = msgspec.structs.replace(
            controller.pending_election, cause=fact.cause
        )
    return []


def apply_failover(state: ClusterState, fact: FailoverIs) -> list[AnyEvent]:
    """Apply how far the work of a failover is; report its end."""
    view = state.control.controller.view
    view.failover = fact.state
    view.failover_since = fact.since
    if fact.state is not Failover.DONE:
        return []
    took_ms = fact.took_ms or 0
    view.failover_last_ms = took_ms
    work = FailoverWork(
        at=fact.stamp.at,
        position=fact.stamp.position,
        controller=view.id,
        epoch=view.epoch,
        took_ms=took_ms,
        partitions=fact.partitions,
    )
    return [work]


def apply_health(state: ClusterState, fact: ControllerHealthIs) -> list[AnyEvent]:
    """Apply the controller's health; report one that has become a zombie."""
    controller, writes = state.control.controller, fact.writes
    was_zombie, controller.is_zombie = controller.is_zombie, fact.is_zombie
    if was_zombie or not fact.is_zombie:
        return []
    zombie = ControllerZombie(
        **where(fact.stamp),
        controller=controller.view.id,
        epoch=controller.view.epoch,
        pending=writes.counts or {},
        pending_since=writes.pending_since,
        last_write_at=writes.last_write_at,
        write_timeout_ms=writes.write_timeout_ms,
    )
    return [zombie]


def apply_migration(state: ClusterState, fact: KraftMigrationIs) -> list[AnyEvent]:
    """Apply whether a KRaft controller is the controller of a cluster that migrates."""
    state.control.controller.view.migrating_to_kraft = fact.under_way
    return []
