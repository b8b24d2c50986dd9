"""What an event means for an incident: whether it opens one, and what it adds to one.

Each kind of event has one entry here. It adds the event to the incident, and returns
whether something was abnormal until then. Only the event, the incident and the values of the last
sample are read, so that the same log gives the same incidents.
"""

from collections.abc import Callable
from typing import Any

from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.events import (
    Anomaly,
    AnyEvent,
    BrokerStarted,
    BrokerStopped,
    ControllerElected,
    ControllerVacated,
    ControllerZombie,
    Divergent,
    FailoverWork,
    Incomplete,
    IsrExpanded,
    IsrShrunk,
    LeaderElectionKind,
    LeadersElected,
    LogDirFailed,
    PartitionsOffline,
    PartitionsOnline,
    StaleControllerWrite,
)
from controller_model.records.incidents import CONTROLLERS_KEPT, Incident
from controller_model.state.incident_state import IncidentState

# Python 3.11 looks up a member of an Enum in Python code, and a failover has thousands of events.
_OFFLINE, _UNCLEAN = LeaderElectionKind.OFFLINE, LeaderElectionKind.UNCLEAN
_BY_FAILURE = frozenset({_OFFLINE, _UNCLEAN, LeaderElectionKind.CONTROLLED_SHUTDOWN})
"""Elections that a failure or a stop caused; others move leaders because somebody wants that."""


def opens(incidents: IncidentState, event: AnyEvent) -> bool:
    """Return whether an event opens an incident; the end of an earlier problem opens none."""
    if isinstance(event, LeadersElected):
        if event.election is _OFFLINE:
            # Otherwise the former leader was known to be gone, and the partition gets a leader again.
            return event.from_broker in incidents.live
        return event.election in _BY_FAILURE
    if isinstance(event, ControllerElected):
        # Without a former holder it is the first election that is known.
        return event.from_broker != NO_CONTROLLER and not incidents.vacant_before
    if isinstance(event, Anomaly):
        return event.foreign is not None
    return type(event) in _OPENERS


Rule = Callable[[IncidentState, Incident, Any], bool]
"""Adds an event to an incident; returns whether something was abnormal until then."""


def _broker_stopped(_incidents: IncidentState, incident: Incident, event: BrokerStopped) -> bool:
    broker = event.broker
    if broker not in incident.brokers_lost:
        incident.brokers_lost += (broker,)
    incident.brokers_back = tuple(b for b in incident.brokers_back if b != broker)
    ends, end = incident.broker_ends, str(event.end)
    ends[end] = ends.get(end, 0) + 1
    return True


def _broker_started(_incidents: IncidentState, incident: Incident, event: BrokerStarted) -> bool:
    if event.broker not in incident.missing:
        return False
    incident.brokers_back += (event.broker,)
    return True


def _controller_elected(
    incidents: IncidentState, incident: Incident, event: ControllerElected
) -> bool:
    if event.from_broker != NO_CONTROLLER:
        _begin_controllers(incident, event.from_broker)
    incident.controllers += (event.to_broker,)
    incident.controllers = incident.controllers[-CONTROLLERS_KEPT:]
    incident.controller_elections += 1 + event.missed_elections
    if not incidents.vacant_before:
        # Only what the samples have not counted yet.
        incident.vacancy_min_ms += max(0, (event.vacancy_min_ms or 0) - incidents.vacancy_min_ms)
        incident.vacancy_max_ms += max(0, (event.vacancy_max_ms or 0) - incidents.vacancy_max_ms)
    return True


def _begin_controllers(incident: Incident, broker: int) -> None:
    if not incident.controllers:
        incident.controllers = (broker,)


def _leaders_elected(incidents: IncidentState, incident: Incident, event: LeadersElected) -> bool:
    count = len(event.partitions)
    incident.leaders_moved += count
    election = event.election
    kinds, kind = incident.leader_elections, str(election)
    kinds[kind] = kinds.get(kind, 0) + count
    if election is _UNCLEAN:
        incident.unclean_elections += count
    # For a partition that had no leader, PartitionsOnline reports this.
    if event.from_broker >= 0 and event.from_broker not in incidents.live:
        _move_offline(incident, -count)
    return election in _BY_FAILURE


def _partitions_offline(
    incidents: IncidentState, incident: Incident, event: PartitionsOffline
) -> bool:
    incident.leaderless += len(event.partitions)
    if event.from_broker in incidents.live:
        # Otherwise they went offline with their leader, and the sample at its end has counted them.
        _move_offline(incident, len(event.partitions))
    return True


def _move_offline(incident: Incident, by: int) -> None:
    """Adjust the number of the last sample; the next sample counts again."""
    incident.offline_last = max(0, incident.offline_last + by)
    incident.offline_peak = max(incident.offline_peak, incident.offline_last)


def _counted(_incidents: IncidentState, incident: Incident, event: AnyEvent) -> bool:
    """Add an event that is only counted or noted."""
    match event:
        case Anomaly():
            return True
        case IsrShrunk():
            incident.isr_shrinks += len(event.partitions)
            # A leader may remove a slow replica again and again for days: samples show whether it matters.
            return event.by_controller
        case IsrExpanded():
            incident.isr_expands += len(event.partitions)
            return not set(event.who).isdisjoint(incident.brokers_lost)
        case PartitionsOnline():
            _move_offline(incident, -len(event.partitions))
        case ControllerVacated():
            _begin_controllers(incident, event.from_broker)
        case LogDirFailed():
            incident.log_dir_failures += 1
        case ControllerZombie():
            incident.zombie = True
        case StaleControllerWrite():
            incident.stale_writes += len(event.partitions)
        case FailoverWork():
            incident.failover_ms += event.took_ms
            # Its end may show only at the end of a batch: the writes show when work was done.
            return False
        case _:  # Incomplete, Divergent
            incident.complete = False
            return False
    return True


RULES: dict[type[Any], Rule] = {
    Anomaly: _counted,
    BrokerStopped: _broker_stopped,
    BrokerStarted: _broker_started,
    ControllerElected: _controller_elected,
    LeadersElected: _leaders_elected,
    PartitionsOffline: _partitions_offline,
    IsrShrunk: _counted,
    IsrExpanded: _counted,
    PartitionsOnline: _counted,
    ControllerVacated: _counted,
    LogDirFailed: _counted,
    ControllerZombie: _counted,
    StaleControllerWrite: _counted,
    FailoverWork: _counted,
    Incomplete: _counted,
    Divergent: _counted,
}
_OPENERS = frozenset(
    {
        BrokerStopped,
        ControllerVacated,
        PartitionsOffline,
        LogDirFailed,
        ControllerZombie,
        StaleControllerWrite,
    }
)
"""Events that always open an incident; for elections it depends on the kind (`opens`)."""
