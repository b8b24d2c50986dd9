"""Incidents, kept while the log is folded: what opens one, what belongs to it, when it is over.

The rule: the account follows from the events in the order in which replay tells them, and from
looks at the totals, which stand at places of the log: where a broker or /controller changes, at
the end of a resync that is proved, and at each heartbeat. So an incident does not depend on where
a batch ends. Nothing is done per change: looks are rare, and events are walked through once, after
they were told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from controller_model import figures
from controller_model.changes import SessionState
from controller_model.cluster import ClusterState, ControlPlane
from controller_model.completeness import LATE_MS
from controller_model.events import (
    AnyEvent,
    BrokerStarted,
    BrokerStopped,
    ControllerElected,
    ControllerVacated,
    Divergent,
    ElectionCause,
    FailoverWork,
    IncidentClosed,
    IncidentOpened,
    Incomplete,
    IsrExpanded,
    IsrShrunk,
    LeaderElectionKind,
    LeadersElected,
    LogDirFailed,
    PartitionsOffline,
    PartitionsOnline,
    PredictionFailed,
    StaleControllerWrite,
)
from controller_model.ids import NO_CONTROLLER
from controller_model.incidents import (
    CONTROLLERS_KEPT,
    INCIDENTS_KEPT,
    LONGEST_MS,
    QUIET_MS,
    STANDING_MS,
    Incident,
    IncidentEnd,
    IncidentLedger,
    IncidentsSummary,
    Look,
    counted,
    sentence,
)

# Python 3.11 finds a member of an Enum, and its hash, by running Python code: a failover has
# thousands of events.
_OFFLINE, _UNCLEAN = LeaderElectionKind.OFFLINE, LeaderElectionKind.UNCLEAN
_SHUTDOWN = LeaderElectionKind.CONTROLLED_SHUTDOWN

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Incident)


def look(state: ClusterState) -> None:
    """Count what is abnormal now, for `account`; not in a resync, which shows two times at once."""
    control = state.control
    log = control.log
    if not log.baseline or log.resync is not None:
        return
    state.settle()
    state.look = _count(control)


def _count(control: ControlPlane) -> Look:
    log = control.log
    counts = figures.counts(control)
    connected = log.session in {None, SessionState.CONNECTED}
    return Look(
        at=control.now,
        offline=counts.offline,
        under_replicated=counts.under_replicated,
        is_vacant=control.controller.id == NO_CONTROLLER,
        is_ghost=control.predictions.told,
        resyncs=log.resyncs,
        is_sure=connected and log.incomplete_since is None and log.divergent_since is None,
    )


def account(state: ClusterState, events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """Take what replay has told, and then the look of the last change; tell what that opens or ends."""
    ledger = state.control.incidents
    rules = _RULES
    told: list[AnyEvent] = []
    for event in events:
        rule = rules.get(type(event))
        if rule is None or (ledger.open is None and not _opens(event)):
            continue
        incident = ledger.open
        if incident is None:
            incident = ledger.open = _begin(ledger, event)
            told.append(_opened(incident, event))
        ledger.revision += 1
        if rule(incident, event):
            incident.last_abnormal_at = max(incident.last_abnormal_at, event.at)
            # A watcher's clock may be set back; the fold's time is that of the last look at least.
            ledger.moved_at = max(ledger.moved_at, event.at, ledger.looked_at)
            ledger.abnormal_at = max(ledger.abnormal_at, ledger.moved_at)
    if state.look is not None:
        told += _take_look(state.control, state.look)
    return told


def summary(control: ControlPlane) -> IncidentsSummary:
    """Return what the cluster's view says of its incidents."""
    ledger = control.incidents
    incident = ledger.open
    return IncidentsSummary(
        total=ledger.total,
        open=incident.number if incident else None,
        open_since=incident.started_at if incident else None,
        opened_by=incident.opened_by if incident else None,
        last_started_at=ledger.last_started_at,
        last_closed_at=ledger.last_closed_at,
        total_ms=ledger.total_ms,
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
        _note(shown, _count(control))
    shown.summary = sentence(shown)
    return (shown, *closed)


def _opens(event: AnyEvent) -> bool:
    match event:
        case LeadersElected():
            return _is_by_failure(event.election)
        case ControllerElected():
            return event.cause is not ElectionCause.FIRST
    return type(event) in _OPENERS


def _is_by_failure(election: LeaderElectionKind) -> bool:
    """Tell whether a failure or a stop made it; others move leaders because somebody wants it."""
    return election is _OFFLINE or election is _SHUTDOWN or election is _UNCLEAN


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
    before, ledger.looked_at = ledger.looked_at, seen.at
    resyncs, ledger.resyncs = ledger.resyncs, seen.resyncs
    unwatched = before > 0 and (seen.at - before > LATE_MS or resyncs != seen.resyncs)
    is_sure = seen.is_sure and not unwatched
    incident = ledger.open
    if not is_sure:
        ledger.unsure_until = seen.at
    if incident is None:
        if seen.is_sure:
            ledger.offline_before = seen.offline
            ledger.under_replicated_before = seen.under_replicated
        return []
    ledger.revision += 1
    incident.complete = incident.complete and is_sure
    _note(incident, seen)
    if incident.still:
        incident.last_abnormal_at = max(incident.last_abnormal_at, seen.at)
        ledger.abnormal_at = seen.at
    end = _end(ledger, incident, seen)
    return [] if end is None else [_close(control, incident, seen, end)]


def _note(incident: Incident, seen: Look) -> None:
    """Put what was counted into an incident."""
    incident.offline_last = seen.offline
    incident.offline_peak = max(incident.offline_peak, seen.offline)
    incident.under_replicated_last = seen.under_replicated
    incident.under_replicated_peak = max(incident.under_replicated_peak, seen.under_replicated)
    incident.still = _still(incident, seen)


def _still(incident: Incident, seen: Look) -> tuple[str, ...]:
    """Return what is abnormal that was not before the incident."""
    found = ["nobody holds /controller"] if seen.is_vacant else []
    if seen.is_ghost:
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
    ledger.offline_before = seen.offline
    ledger.under_replicated_before = seen.under_replicated
    return IncidentClosed(at=seen.at, position=control.log.position, incident=incident)


Rule = Callable[[Incident, Any], bool]
"""Adds an event to an incident; tells whether something was abnormal up to it."""


def _broker_stopped(incident: Incident, event: BrokerStopped) -> bool:
    broker = event.broker
    if broker not in incident.brokers_lost:
        incident.brokers_lost += (broker,)
    incident.brokers_back = tuple(b for b in incident.brokers_back if b != broker)
    ends, end = incident.broker_ends, str(event.end)
    ends[end] = ends.get(end, 0) + 1
    return True


def _broker_started(incident: Incident, event: BrokerStarted) -> bool:
    if event.broker not in incident.missing:
        return False
    incident.brokers_back += (event.broker,)
    return True


def _controller_vacated(incident: Incident, event: ControllerVacated) -> bool:
    _hold(incident, event.from_broker)
    return True


def _controller_elected(incident: Incident, event: ControllerElected) -> bool:
    if event.from_broker != NO_CONTROLLER and not incident.controllers:
        _hold(incident, event.from_broker)
    incident.controllers += (event.to_broker,)
    incident.controllers = incident.controllers[-CONTROLLERS_KEPT:]
    incident.controller_elections += 1 + event.missed_elections
    incident.vacancy_min_ms += event.vacancy_min_ms or 0
    incident.vacancy_max_ms += event.vacancy_max_ms or 0
    return True


def _hold(incident: Incident, broker: int) -> None:
    if not incident.controllers:
        incident.controllers = (broker,)


def _failover_work(incident: Incident, event: FailoverWork) -> bool:
    incident.failover_ms += event.took_ms
    # Its end may show at the end of a batch only: the writes themselves tell when work was done.
    return False


def _leaders_elected(incident: Incident, event: LeadersElected) -> bool:
    count = len(event.partitions)
    incident.leaders_moved += count
    election = event.election
    kinds, kind = incident.leader_elections, str(election)
    kinds[kind] = kinds.get(kind, 0) + count
    if election is _UNCLEAN:
        incident.unclean_elections += count
    return _is_by_failure(election)


def _partitions_offline(incident: Incident, event: PartitionsOffline) -> bool:
    incident.leaderless += len(event.partitions)
    return True


def _isr_shrunk(incident: Incident, event: IsrShrunk) -> bool:
    incident.isr_shrinks += len(event.partitions)
    # A leader that drops a slow replica may do so for days: the looks tell whether it matters.
    return event.by_controller


def _isr_expanded(incident: Incident, event: IsrExpanded) -> bool:
    incident.isr_expands += len(event.partitions)
    return not set(event.who).isdisjoint(incident.brokers_lost)


def _log_dir_failed(incident: Incident, _event: LogDirFailed) -> bool:
    incident.log_dir_failures += 1
    return True


def _ghost(incident: Incident, _event: PredictionFailed) -> bool:
    incident.ghost = True
    return True


def _stale_write(incident: Incident, event: StaleControllerWrite) -> bool:
    incident.stale_writes += len(event.partitions)
    return True


def _not_whole(incident: Incident, _event: Incomplete | Divergent) -> bool:
    incident.complete = False
    return False


_RULES: dict[type[Any], Rule] = {
    BrokerStopped: _broker_stopped,
    BrokerStarted: _broker_started,
    ControllerVacated: _controller_vacated,
    ControllerElected: _controller_elected,
    FailoverWork: _failover_work,
    LeadersElected: _leaders_elected,
    PartitionsOffline: _partitions_offline,
    PartitionsOnline: lambda _incident, _event: True,
    IsrShrunk: _isr_shrunk,
    IsrExpanded: _isr_expanded,
    LogDirFailed: _log_dir_failed,
    PredictionFailed: _ghost,
    StaleControllerWrite: _stale_write,
    Incomplete: _not_whole,
    Divergent: _not_whole,
}
_OPENERS = frozenset(
    {
        BrokerStopped,
        ControllerVacated,
        PartitionsOffline,
        LogDirFailed,
        PredictionFailed,
        StaleControllerWrite,
    }
)
"""What opens an incident whatever it says; of elections it depends on which (`_opens`)."""
