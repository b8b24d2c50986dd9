"""Incidents, kept while the log is folded: what opens one, what belongs to it, when it is over.

The rule: the account follows from the events in the order in which replay tells them, and from
looks at the totals, which stand at places of the log: where a broker or /controller changes, at
the end of a resync that is proved, and at each heartbeat. So an incident does not depend on where
a batch ends. Nothing is done per change: looks are rare, and events are walked through once, after
they were told.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.changes import SessionState
from controller_model.records.completeness import LATE_MS
from controller_model.records.events import (
    AnyEvent,
    ControllerElected,
    ControllerVacated,
    Divergent,
    IncidentClosed,
    IncidentOpened,
    Incomplete,
    Verified,
)
from controller_model.records.incidents import (
    INCIDENTS_KEPT,
    LONGEST_MS,
    QUIET_MS,
    STANDING_MS,
    Incident,
    IncidentEnd,
    IncidentLedger,
    IncidentsSummary,
    LastIncident,
    Look,
    counted,
    sentence,
)
from controller_model.state import figures
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.tracking.incident_rules import RULES, Rule, opens

_TURNS = frozenset({ControllerElected, ControllerVacated, Incomplete, Divergent, Verified})
"""What the ledger itself takes note of."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Incident)


def look(state: ClusterState) -> None:
    """Count what is abnormal now, for `account`; not in a resync, which shows two times at once."""
    control = state.control
    log = control.log
    if not log.baseline:
        return
    if log.resync is not None:
        ledger = control.incidents
        if control.now - ledger.watched_at <= LATE_MS:
            ledger.watched_at = control.now
        return
    state.settle()
    state.look = _count(control)


def _count(control: ControlPlane) -> Look:
    counts = figures.counts(control)
    controller = control.controller
    is_vacant = controller.id == NO_CONTROLLER
    least_ms = most_ms = 0
    if is_vacant and controller.vacant_since is not None:
        held_until = controller.held_until
        least_ms = max(0, control.now - controller.vacant_since)
        most_ms = least_ms if held_until is None else max(least_ms, control.now - held_until)
    return Look(
        at=control.now,
        offline=counts.offline,
        under_replicated=counts.under_replicated,
        is_vacant=is_vacant,
        vacancy_min_ms=least_ms,
        vacancy_max_ms=most_ms,
        is_ghost=control.predictions.told,
        live=tuple(sorted(control.live_brokers())),
        unsure_since=_unsure_since(control),
    )


def _unsure_since(control: ControlPlane) -> int | None:
    log = control.log
    out_of_sight = None
    if log.session not in {None, SessionState.CONNECTED}:
        out_of_sight = control.now if log.session_since is None else log.session_since
    troubles = (out_of_sight, log.incomplete_since, log.divergent_since)
    return min((since for since in troubles if since is not None), default=None)


def account(state: ClusterState, events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """Take what replay has told, and then the look of the last change; tell what that opens or ends."""
    ledger = state.control.incidents
    rules = RULES
    told: list[AnyEvent] = []
    for event in events:
        kind = type(event)
        rule = rules.get(kind)
        if rule is not None:
            incident = ledger.open
            if incident is None and opens(ledger, event):
                incident = ledger.open = _begin(ledger, event)
                told.append(_opened(incident, event))
            if incident is not None:
                _add(ledger, incident, rule, event)
        if kind in _TURNS:
            _turn(ledger, event)
    if state.look is not None:
        told += _take_look(state.control, state.look)
    return told


def summary(control: ControlPlane) -> IncidentsSummary:
    """Return what the cluster's view says of its incidents."""
    ledger = control.incidents
    incident = ledger.open
    last = _decoder.decode(ledger.closed[-1]) if ledger.closed else None
    latest = incident or last
    return IncidentsSummary(
        total=ledger.total,
        open=incident.number if incident else None,
        open_since=incident.started_at if incident else None,
        opened_by=incident.opened_by if incident else None,
        last_started_at=ledger.last_started_at,
        last_abnormal_at=latest.last_abnormal_at if latest else None,
        last_closed_at=ledger.last_closed_at,
        total_ms=ledger.total_ms,
        last_closed=_in_short(last) if last else None,
    )


def _in_short(incident: Incident) -> LastIncident:
    return LastIncident(
        number=incident.number,
        opened_by=incident.opened_by,
        end=incident.end,
        last_abnormal_at=incident.last_abnormal_at,
        lasted_ms=incident.lasted_ms,
        brokers_lost=len(incident.brokers_lost),
        controller_elections=incident.controller_elections,
        leaders_moved=incident.leaders_moved,
        offline=incident.offline,
    )


def newest(control: ControlPlane) -> tuple[Incident, ...]:
    """Return the incidents that are kept, the newest first, the open one, as it is now, in front.

    The totals must be settled.
    """
    ledger = control.incidents
    closed = [_decoder.decode(data) for data in reversed(ledger.closed)]
    if ledger.open is None:
        return tuple(closed)
    # The account itself moves at its looks only; what is shown is no older than the view.
    shown = msgspec.structs.replace(ledger.open)
    if control.log.resync is None:
        _note(ledger, shown, _count(control))
    else:
        shown.unsure_since = _unsure_since(control)
    shown.summary = sentence(shown)
    return (shown, *closed)


def _add(ledger: IncidentLedger, incident: Incident, rule: Rule, event: AnyEvent) -> None:
    ledger.revision += 1
    if rule(ledger, incident, event):
        incident.last_abnormal_at = max(incident.last_abnormal_at, event.at)
        # A watcher's clock may be set back; the fold's time is that of the last look at least.
        ledger.moved_at = max(ledger.moved_at, event.at, ledger.looked_at)
        ledger.abnormal_at = max(ledger.abnormal_at, ledger.moved_at)


def _turn(ledger: IncidentLedger, event: AnyEvent) -> None:
    """Note what is another way from here on, whether or not an incident is open."""
    match event:
        case ControllerElected() | ControllerVacated():
            ledger.vacant_before = False
            ledger.vacancy_min_ms = ledger.vacancy_max_ms = 0
        case Verified():
            ledger.is_unsure = False
            ledger.unsure_until = max(ledger.unsure_until, event.at, ledger.looked_at)
        case _:
            ledger.is_unsure = True


def _begin(ledger: IncidentLedger, event: AnyEvent) -> Incident:
    ledger.total += 1
    ledger.last_started_at = event.at
    ledger.began_at = max(event.at, ledger.looked_at)
    ledger.moved_at = ledger.abnormal_at = ledger.began_at
    return Incident(
        number=ledger.total,
        started_at=event.at,
        last_abnormal_at=event.at,
        opened_by=type(event).__name__,
        complete=not ledger.is_unsure,
        offline_before=ledger.offline_before,
        offline_peak=ledger.offline_before,
        offline_last=ledger.offline_before,
        under_replicated_before=ledger.under_replicated_before,
        under_replicated_peak=ledger.under_replicated_before,
        under_replicated_last=ledger.under_replicated_before,
    )


def _opened(incident: Incident, event: AnyEvent) -> IncidentOpened:
    return IncidentOpened(
        at=event.at,
        position=event.position,
        zxid=event.zxid,
        number=incident.number,
        opened_by=incident.opened_by,
    )


def _take_look(control: ControlPlane, seen: Look) -> list[AnyEvent]:
    ledger = control.incidents
    unwatched = ledger.watched_at > 0 and seen.at - ledger.watched_at > LATE_MS
    ledger.looked_at = ledger.watched_at = seen.at
    ledger.live = seen.live
    is_sure = seen.is_sure and not unwatched
    incident = ledger.open
    if not is_sure:
        ledger.unsure_until = seen.at
    if incident is None:
        _remember_vacancy(ledger, seen)
        if seen.is_sure:
            _remember(ledger, seen)
        return []
    ledger.revision += 1
    incident.complete = incident.complete and is_sure
    ledger.ghost_before = ledger.ghost_before and seen.is_ghost
    _note(ledger, incident, seen)
    _count_vacancy(ledger, seen)
    if incident.still:
        incident.last_abnormal_at = max(incident.last_abnormal_at, seen.at)
        ledger.abnormal_at = seen.at
    end = _end(ledger, incident, seen)
    return [] if end is None else [_close(control, incident, seen, end)]


def _remember(ledger: IncidentLedger, seen: Look) -> None:
    """Keep what is wrong while no incident is open, to compare with."""
    ledger.offline_before = seen.offline
    ledger.under_replicated_before = seen.under_replicated
    ledger.ghost_before = seen.is_ghost


def _remember_vacancy(ledger: IncidentLedger, seen: Look) -> None:
    """Keep that nobody holds /controller, although no incident is open that began with it.

    An election that is seen and not told yet ends it as it is told.
    """
    ledger.vacant_before = ledger.vacant_before or seen.is_vacant


def _note(ledger: IncidentLedger, incident: Incident, seen: Look) -> None:
    """Put what was counted into an incident."""
    incident.offline_last = seen.offline
    incident.offline_peak = max(incident.offline_peak, seen.offline)
    incident.under_replicated_last = seen.under_replicated
    incident.under_replicated_peak = max(incident.under_replicated_peak, seen.under_replicated)
    incident.unsure_since = seen.unsure_since
    incident.still = _still(ledger, incident, seen)
    if not ledger.vacant_before:
        least_ms, most_ms = _uncounted(ledger, seen)
        incident.vacancy_min_ms += least_ms
        incident.vacancy_max_ms += most_ms


def _uncounted(ledger: IncidentLedger, seen: Look) -> tuple[int, int]:
    """Return by how much the vacancy under way has grown; what nobody saw may be none."""
    least_ms = max(0, seen.vacancy_min_ms - ledger.vacancy_min_ms) if seen.is_sure else 0
    return least_ms, max(0, seen.vacancy_max_ms - ledger.vacancy_max_ms)


def _count_vacancy(ledger: IncidentLedger, seen: Look) -> None:
    least_ms, most_ms = _uncounted(ledger, seen)
    ledger.vacancy_min_ms += least_ms
    ledger.vacancy_max_ms += most_ms


def _still(ledger: IncidentLedger, incident: Incident, seen: Look) -> tuple[str, ...]:
    """Return what is abnormal that was not before the incident."""
    is_vacant = seen.is_vacant and not ledger.vacant_before
    found = ["nobody holds /controller"] if is_vacant else []
    if seen.is_ghost and not ledger.ghost_before:
        found.append("the controller does not do its work")
    found += [f"broker {broker} is gone" for broker in incident.missing]
    offline = seen.offline - incident.offline_before
    if offline > 0:
        found.append(f"{counted(offline, 'partition')} offline")
    behind = seen.under_replicated - incident.under_replicated_before
    if behind > 0:
        found.append(f"{counted(behind, 'partition')} under-replicated")
    return tuple(found)


def _end(ledger: IncidentLedger, incident: Incident, seen: Look) -> IncidentEnd | None:
    well_since = max(ledger.abnormal_at, ledger.unsure_until)
    if not incident.still and seen.at - well_since >= QUIET_MS:
        return IncidentEnd.RECOVERED
    if seen.at - ledger.began_at >= LONGEST_MS:
        return IncidentEnd.CUT
    if incident.still and seen.at - ledger.moved_at >= STANDING_MS:
        return IncidentEnd.STANDING
    return None


def _close(
    control: ControlPlane, incident: Incident, seen: Look, end: IncidentEnd
) -> IncidentClosed:
    ledger = control.incidents
    incident.closed_at = seen.at
    incident.end = end
    incident.summary = sentence(incident)
    ledger.open = None
    ledger.closed.append(_encoder.encode(incident))
    del ledger.closed[:-INCIDENTS_KEPT]
    ledger.last_closed_at = seen.at
    ledger.total_ms += incident.lasted_ms
    _remember(ledger, seen)
    _remember_vacancy(ledger, seen)
    return IncidentClosed(at=seen.at, position=control.log.position, incident=incident)
