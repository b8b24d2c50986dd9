"""Incidents, kept while the log is folded: what opens one, what belongs to it, when it is over.

The rule: incidents depend on the events, in the order in which replay reports them, and on health
samples. Samples are taken at given positions of the log: where a broker or /controller changes, at
the end of a resync that is proved, and at each heartbeat. So an incident does not depend on where a
batch ends. Nothing is done per change: samples are rare, and events are processed once, after they
were reported.
"""

from collections.abc import Sequence

import msgspec

from controller_model.insight.incident_sentence import sentence
from controller_model.insight.wording import counted
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.completeness import LATE_MS
from controller_model.records.events import (
    Anomaly,
    AnyEvent,
    ControllerElected,
    ControllerVacated,
    Divergent,
    IncidentClosed,
    IncidentOpened,
    Incomplete,
    Verified,
)
from controller_model.records.foreign_writes import FOREIGN_WRITE_WORDS
from controller_model.records.incidents import (
    INCIDENTS_KEPT,
    LONGEST_MS,
    QUIET_MS,
    STANDING_MS,
    Incident,
    IncidentEnd,
    LastIncident,
)
from controller_model.records.views import Capability
from controller_model.records.visibility import HEALTH
from controller_model.state import figures
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.incident_state import HealthSample, IncidentState
from controller_model.tracking.incident_rules import RULES, Rule, opens

_OF_STATE = frozenset({ControllerElected, ControllerVacated, Incomplete, Divergent, Verified})
"""Events that change the state whether or not an incident is open."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Incident)


def take_sample(state: ClusterState) -> HealthSample | None:
    """Count what is abnormal now, for `track`; None in a resync, which mixes two points in time."""
    control = state.control
    log = control.log
    if not log.baseline:
        return None
    if log.view.resync_under_way:
        incidents = control.incidents
        if control.now - incidents.watched_at <= LATE_MS:
            incidents.watched_at = control.now
        return None
    return _sample(control)


def _sample(control: ControlPlane) -> HealthSample:
    counts = figures.counts(control)
    controller, unseen = control.controller, control.log.view.unseen
    is_vacant = controller.view.id == NO_CONTROLLER and Capability.CONTROLLER not in unseen
    vacant_since = controller.view.vacant_since
    least_ms = most_ms = 0
    if is_vacant and vacant_since is not None:
        held_until = controller.held_until
        least_ms = max(0, control.now - vacant_since)
        most_ms = least_ms if held_until is None else max(least_ms, control.now - held_until)
    return HealthSample(
        at=control.now,
        offline=counts.offline or 0,
        under_replicated=counts.under_replicated or 0,
        is_vacant=is_vacant,
        vacancy_min_ms=least_ms,
        vacancy_max_ms=most_ms,
        is_zombie=controller.is_zombie,
        foreign=tuple(control.foreign_writes),
        live=tuple(sorted(control.live_brokers)),
        unsure_since=_unsure_since(control),
        is_hidden=_is_hidden(control),
    )


def _is_hidden(control: ControlPlane) -> bool:
    return not HEALTH.isdisjoint(control.log.view.unseen)


def _unsure_since(control: ControlPlane) -> int | None:
    log = control.log.view
    out_of_sight = None
    if not log.is_followed:
        out_of_sight = control.now if log.session_since is None else log.session_since
    out_of_sight = control.now if _is_hidden(control) else out_of_sight
    quorum = control.quorum
    silent = () if quorum is None else (quorum.unreachable_since, quorum.leader_silent_since)
    troubles = (out_of_sight, *silent, log.incomplete_since, log.divergent_since)
    return min((since for since in troubles if since is not None), default=None)


def track(
    state: ClusterState, events: Sequence[AnyEvent], sample: HealthSample | None
) -> list[AnyEvent]:
    """Process events, and then the sample after the last change; return the incidents opened or closed."""
    incidents = state.control.incidents
    rules = RULES
    reported: list[AnyEvent] = []
    for event in events:
        kind = type(event)
        rule = rules.get(kind)
        if rule is not None:
            incident = incidents.open
            if incident is None and opens(incidents, event):
                incident = incidents.open = _begin(incidents, event)
                opened = IncidentOpened(
                    at=event.at,
                    position=event.position,
                    source_number=event.source_number,
                    number=incident.number,
                    opened_by=incident.opened_by,
                )
                reported.append(opened)
            if incident is not None:
                _add(incidents, incident, rule, event)
        if kind in _OF_STATE:
            _apply_event(incidents, event)
    if sample is not None:
        reported += _handle_sample(state.control, sample)
    return reported


def newest(control: ControlPlane) -> tuple[Incident, ...]:
    """Return the stored incidents, the newest first; an open one, as it is now, is the first."""
    incidents = control.incidents
    closed = [_decoder.decode(data) for data in reversed(incidents.closed)]
    if incidents.open is None:
        return tuple(closed)
    # The stored incident changes only at samples; what is shown is as recent as the view.
    shown = msgspec.structs.replace(incidents.open)
    if _is_hidden(control):
        shown.still, shown.unsure_since = (), incidents.sampled_at
    elif not control.log.view.resync_under_way:
        _note(incidents, shown, _sample(control))
    else:
        shown.unsure_since = _unsure_since(control)
    shown.summary = sentence(shown)
    return (shown, *closed)


def _add(incidents: IncidentState, incident: Incident, rule: Rule, event: AnyEvent) -> None:
    if isinstance(event, Anomaly) and event.foreign is None:
        return  # odd, but nothing of the cluster's
    incidents.revision += 1
    if rule(incidents, incident, event):
        _mark_abnormal(incidents, incident, event.at)
        # A watcher's clock may be set back; the fold's time is at least that of the last sample.
        incidents.moved_at = max(incidents.moved_at, event.at, incidents.sampled_at)
        incidents.abnormal_at = max(incidents.abnormal_at, incidents.moved_at)


def _mark_abnormal(incidents: IncidentState, incident: Incident, at: int) -> None:
    incident.last_abnormal_at = max(incident.last_abnormal_at, at)
    incidents.summary.last_abnormal_at = incident.last_abnormal_at


def _apply_event(incidents: IncidentState, event: AnyEvent) -> None:
    """Apply an event that changes the state whether or not an incident is open."""
    match event:
        case ControllerElected() | ControllerVacated():
            incidents.vacant_before = False
            incidents.vacancy_min_ms = incidents.vacancy_max_ms = 0
        case Verified():
            incidents.is_unsure = False
            incidents.unsure_until = max(incidents.unsure_until, event.at, incidents.sampled_at)
        case _:
            incidents.is_unsure = True


def _begin(incidents: IncidentState, event: AnyEvent) -> Incident:
    summary = incidents.summary
    summary.total += 1
    summary.open = summary.total
    summary.open_since = summary.last_started_at = summary.last_abnormal_at = event.at
    summary.opened_by = type(event).__name__
    incidents.began_at = max(event.at, incidents.sampled_at)
    incidents.moved_at = incidents.abnormal_at = incidents.began_at
    return Incident(
        number=summary.total,
        started_at=event.at,
        last_abnormal_at=event.at,
        opened_by=summary.opened_by,
        complete=not incidents.is_unsure,
        offline_before=incidents.offline_before,
        offline_peak=incidents.offline_before,
        offline_last=incidents.offline_before,
        under_replicated_before=incidents.under_replicated_before,
        under_replicated_peak=incidents.under_replicated_before,
        under_replicated_last=incidents.under_replicated_before,
    )


def _handle_sample(control: ControlPlane, seen: HealthSample) -> list[AnyEvent]:
    incidents = control.incidents
    unwatched = incidents.watched_at > 0 and seen.at - incidents.watched_at > LATE_MS
    incidents.sampled_at = incidents.watched_at = seen.at
    incidents.live = seen.live
    is_sure = seen.is_sure and not unwatched
    incident = incidents.open
    if not is_sure:
        incidents.unsure_until = seen.at
    if incident is None:
        _remember_vacancy(incidents, seen)
        if seen.is_sure:
            _remember(incidents, seen)
        return []
    incidents.revision += 1
    incident.complete = incident.complete and is_sure
    if seen.is_hidden:
        incident.still, incident.unsure_since = (), seen.unsure_since
        end = _end(incidents, incident, seen)
        return [] if end is None else [_close(control, incident, seen, end)]
    incidents.zombie_before = incidents.zombie_before and seen.is_zombie
    incidents.foreign_before = tuple(k for k in incidents.foreign_before if k in seen.foreign)
    _note(incidents, incident, seen)
    least_ms, most_ms = _uncounted(incidents, seen)
    incidents.vacancy_min_ms += least_ms
    incidents.vacancy_max_ms += most_ms
    if incident.still:
        _mark_abnormal(incidents, incident, seen.at)
        incidents.abnormal_at = seen.at
    end = _end(incidents, incident, seen)
    return [] if end is None else [_close(control, incident, seen, end)]


def _remember(incidents: IncidentState, seen: HealthSample) -> None:
    """Store what is abnormal while no incident is open, to compare with it later."""
    incidents.offline_before = seen.offline
    incidents.under_replicated_before = seen.under_replicated
    incidents.zombie_before = seen.is_zombie
    incidents.foreign_before = seen.foreign


def _remember_vacancy(incidents: IncidentState, seen: HealthSample) -> None:
    """Store that nobody holds /controller, although no open incident began with that.

    An election that was seen and is not reported yet ends this when it is reported.
    """
    incidents.vacant_before = incidents.vacant_before or seen.is_vacant


def _note(incidents: IncidentState, incident: Incident, seen: HealthSample) -> None:
    """Copy the figures of a sample into an incident."""
    incident.offline_last = seen.offline
    incident.offline_peak = max(incident.offline_peak, seen.offline)
    incident.under_replicated_last = seen.under_replicated
    incident.under_replicated_peak = max(incident.under_replicated_peak, seen.under_replicated)
    incident.unsure_since = seen.unsure_since
    incident.still = _still(incidents, incident, seen)
    if not incidents.vacant_before:
        least_ms, most_ms = _uncounted(incidents, seen)
        incident.vacancy_min_ms += least_ms
        incident.vacancy_max_ms += most_ms


def _uncounted(incidents: IncidentState, seen: HealthSample) -> tuple[int, int]:
    """Return by how much the current vacancy has grown; unseen time may have been none."""
    least_ms = max(0, seen.vacancy_min_ms - incidents.vacancy_min_ms) if seen.is_sure else 0
    return least_ms, max(0, seen.vacancy_max_ms - incidents.vacancy_max_ms)


def _still(incidents: IncidentState, incident: Incident, seen: HealthSample) -> tuple[str, ...]:
    """Return what is abnormal and was not before the incident."""
    is_vacant = seen.is_vacant and not incidents.vacant_before
    found = ["nobody holds /controller"] if is_vacant else []
    if seen.is_zombie and not incidents.zombie_before:
        found.append("the controller does not do its work")
    found += [
        FOREIGN_WRITE_WORDS[kind] for kind in seen.foreign if kind not in incidents.foreign_before
    ]
    found += [f"broker {broker} is gone" for broker in incident.missing]
    offline = seen.offline - incident.offline_before
    if offline > 0:
        found.append(f"{counted(offline, 'partition')} offline")
    behind = seen.under_replicated - incident.under_replicated_before
    if behind > 0:
        found.append(f"{counted(behind, 'partition')} under-replicated")
    return tuple(found)


def _end(incidents: IncidentState, incident: Incident, seen: HealthSample) -> IncidentEnd | None:
    well_since = max(incidents.abnormal_at, incidents.unsure_until)
    if not incident.still and seen.at - well_since >= QUIET_MS:
        return IncidentEnd.RECOVERED
    if seen.at - incidents.began_at >= LONGEST_MS:
        return IncidentEnd.CUT
    if (incident.still or seen.is_hidden) and seen.at - incidents.moved_at >= STANDING_MS:
        return IncidentEnd.STANDING
    return None


def _close(
    control: ControlPlane, incident: Incident, seen: HealthSample, end: IncidentEnd
) -> IncidentClosed:
    incidents = control.incidents
    incident.closed_at = seen.at
    incident.end = end
    incident.summary = sentence(incident)
    incidents.open = None
    incidents.closed.append(_encoder.encode(incident))
    del incidents.closed[:-INCIDENTS_KEPT]
    summary = incidents.summary
    summary.open = summary.open_since = summary.opened_by = None
    summary.last_closed_at = seen.at
    summary.total_ms += incident.lasted_ms
    summary.last_closed = LastIncident(
        number=incident.number,
        opened_by=incident.opened_by,
        end=end,
        last_abnormal_at=incident.last_abnormal_at,
        lasted_ms=incident.lasted_ms,
        brokers_lost=len(incident.brokers_lost),
        controller_elections=incident.controller_elections,
        leaders_moved=incident.leaders_moved,
        offline=incident.offline,
    )
    if not seen.is_hidden:
        _remember(incidents, seen)
    _remember_vacancy(incidents, seen)
    return IncidentClosed(at=seen.at, position=control.log.position, incident=incident)
