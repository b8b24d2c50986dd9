"""A cascade of failures as one record: the incident.

The rule: an incident holds what was seen between the first abnormal thing and the last one, and
nothing after. Figures that are counted event by event are exact as far as the log is whole
(`complete`). Offline partitions are counted at each look and with each event between two looks;
under-replicated ones at the looks alone, so that a peak between two of them may be missed.
"""

from __future__ import annotations

import datetime as dt
import enum
import itertools
from collections.abc import Mapping

import msgspec

QUIET_MS = 60_000
"""How long all must have been well before an incident is over. Longer than a session's timeout
(18 s) and a replica's lag (30 s), so that what one failure causes late is still a part of it."""

STANDING_MS = 3_600_000
"""An incident in which nothing has happened for this long is closed although something stays
wrong: a broker that is gone for good must not swallow what fails next week."""

LONGEST_MS = 86_400_000
"""An incident without an end, such as a broker that comes and goes, is cut after this long."""

INCIDENTS_KEPT = 20
"""Closed incidents in the view; older ones stand in the events."""

CONTROLLERS_KEPT = 20
"""Of an incident's `controllers`: more changes of hands than anybody reads."""


class IncidentEnd(enum.StrEnum):
    """Why an incident is over."""

    RECOVERED = "recovered"
    """Everything is as it was before it."""
    STANDING = "standing"
    """Nothing has happened for an hour, and something stays wrong: see `still`."""
    CUT = "cut"
    """It went on for a day; what comes next is another one."""


class Incident(msgspec.Struct, kw_only=True):
    """What happened in one cascade of failures. Times are the watcher's, ms since 1970."""

    number: int
    """1, 2, 3 ... within a lineage."""
    started_at: int
    last_abnormal_at: int
    """The last time that anything was abnormal; the incident lasted from `started_at` to it."""
    closed_at: int | None = None
    """None while it is open; the quiet time after it is over."""
    end: IncidentEnd | None = None
    opened_by: str
    """The kind of the event that opened it."""
    summary: str = ""
    still: tuple[str, ...] = ()
    """What is abnormal now, or was left when it was closed."""
    complete: bool = True
    """False: a hole in the log or a time out of sight lies in it; counts are at least."""
    unsure_since: int | None = None
    """Since when nobody can tell whether all is well, or could as it was closed; None: one can."""
    brokers_lost: tuple[int, ...] = ()
    brokers_back: tuple[int, ...] = ()
    """Those of them that are registered again."""
    broker_ends: dict[str, int] = {}
    """Ended registrations by kind (events.BrokerEnd)."""
    controllers: tuple[int, ...] = ()
    """Who held /controller, from the one before it on: the last CONTROLLERS_KEPT."""
    controller_elections: int = 0
    """Those that only the epoch tells of included."""
    vacancy_min_ms: int = 0
    vacancy_max_ms: int = 0
    """For how long nobody held /controller, at least and at most, up to now or to its close."""
    leaders_moved: int = 0
    """Partitions that got a leader, by any election but their first."""
    leader_elections: dict[str, int] = {}
    """The same by kind (events.LeaderElectionKind)."""
    unclean_elections: int = 0
    leaderless: int = 0
    """How often it was written of a partition that it has no leader."""
    offline_before: int = 0
    offline_peak: int = 0
    offline_last: int = 0
    """Offline partitions before it, as many as there were at once, and as known last."""
    under_replicated_before: int = 0
    under_replicated_peak: int = 0
    under_replicated_last: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    failover_ms: int = 0
    """The failover work done in it."""
    ghost: bool = False
    """A controller left writes undone for longer than the patience."""
    stale_writes: int = 0
    log_dir_failures: int = 0

    @property
    def lasted_ms(self) -> int:
        """From the first abnormal thing to the last."""
        return self.last_abnormal_at - self.started_at

    @property
    def offline(self) -> int:
        """Partitions that were offline at once, those from before it apart."""
        return max(self.offline_peak - self.offline_before, 0)

    @property
    def missing(self) -> tuple[int, ...]:
        """The brokers that are gone still."""
        return tuple(b for b in self.brokers_lost if b not in self.brokers_back)


class LastIncident(msgspec.Struct, frozen=True, kw_only=True):
    """The main figures of the last incident that was closed, for whoever cannot read the record."""

    number: int
    opened_by: str
    end: IncidentEnd | None
    last_abnormal_at: int
    lasted_ms: int
    brokers_lost: int
    controller_elections: int
    leaders_moved: int
    offline: int
    """Partitions, as many as were offline at once; those from before it apart."""


class IncidentsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster's view says of its incidents; they themselves are a view of their own."""

    total: int = 0
    """Opened ever, in this lineage."""
    open: int | None = None
    """The number of the one that is open."""
    open_since: int | None = None
    opened_by: str | None = None
    last_started_at: int | None = None
    last_abnormal_at: int | None = None
    """Of the newest: when something was abnormal last."""
    last_closed_at: int | None = None
    total_ms: int = 0
    """What the closed ones lasted."""
    last_closed: LastIncident | None = None


_ENDS = {
    "controlled_shutdown": ("was shut down", "were shut down"),
    "crashed": ("crashed", "crashed"),
    "bounced": ("bounced", "bounced"),
    "unknown": ("was lost", "were lost"),
}
"""Of one broker, and of several (events.BrokerEnd)."""
_BROKERS_NAMED = 5
_MS_PER_S, _S_PER_MIN, _MIN_PER_H = 1000, 60, 60
_YEAR_10000_MS = 253_402_300_800_000
"""From here on a calendar has no name for a time; a watcher's clock may say anything."""


def sentence(incident: Incident) -> str:
    """Return an incident in one sentence.

    >>> sentence(Incident(number=1, started_at=0, last_abnormal_at=72_000, opened_by="BrokerStopped",
    ...     brokers_lost=(3,), brokers_back=(3,), broker_ends={"crashed": 1}, leaders_moved=42,
    ...     offline_peak=17, closed_at=132_000, end=IncidentEnd.RECOVERED))
    'Broker 3 crashed and came back; 42 leaders moved; 17 partitions offline at once; over after 1 min 12 s.'
    """
    parts = [part for part in (_brokers(incident), _controller(incident)) if part]
    if incident.leaders_moved:
        parts.append(f"{counted(incident.leaders_moved, 'leader')} moved")
    if incident.unclean_elections:
        parts.append(f"{counted(incident.unclean_elections, 'unclean election')}")
    if incident.offline:
        parts.append(f"{counted(incident.offline, 'partition')} offline at once")
    elif incident.leaderless:
        parts.append(f"{counted(incident.leaderless, 'partition')} left without a leader")
    # What a lost broker does not explain may be what made it last: it is told whatever else was.
    behind = max(incident.under_replicated_peak - incident.under_replicated_before, 0)
    if behind:
        parts.append(f"{counted(behind, 'partition')} seen under-replicated")
    if incident.log_dir_failures:
        parts.append(counted(incident.log_dir_failures, "log directory failure"))
    if incident.stale_writes:
        parts.append(f"{counted(incident.stale_writes, 'write')} by an old controller")
    if incident.ghost:
        parts.append("the controller did not do its work")
    parts.append(_how_it_ended(incident))
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}{'' if incident.complete else ' (counts are at least)'}."


def duration(milliseconds: int) -> str:
    """Return a time that something lasted.

    >>> duration(98), duration(4200), duration(72_000), duration(7_260_000)
    ('98 ms', '4.2 s', '1 min 12 s', '2 h 1 min')
    """
    if milliseconds < _MS_PER_S:
        return f"{milliseconds} ms"
    seconds = milliseconds // _MS_PER_S
    if seconds < _S_PER_MIN:
        return f"{milliseconds / _MS_PER_S:.1f} s"
    minutes = seconds // _S_PER_MIN
    if minutes < _MIN_PER_H:
        return f"{minutes} min {seconds % _S_PER_MIN} s"
    return f"{minutes // _MIN_PER_H} h {minutes % _MIN_PER_H} min"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "leader"), counted(2, "leader")
    ('1 leader', '2 leaders')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _brokers(incident: Incident) -> str:
    lost = incident.brokers_lost
    if not lost:
        return ""
    named = ", ".join(map(str, lost[:_BROKERS_NAMED]))
    named += " ..." if len(lost) > _BROKERS_NAMED else ""
    who = f"broker {named}" if len(lost) == 1 else f"{len(lost)} brokers ({named})"
    how = _how_they_ended(incident.broker_ends, brokers=len(lost))
    missing = incident.missing
    if not missing:
        return f"{who} {how} and came back"
    if len(missing) == len(lost):
        return f"{who} {how}"
    return f"{who} {how}, {len(missing)} did not come back"


def _how_they_ended(ends: Mapping[str, int], *, brokers: int) -> str:
    is_several = brokers > 1
    # How often is told where it does not follow from how many brokers there are.
    tells_times = sum(ends.values()) > brokers or (is_several and len(ends) > 1)
    words = [
        _ENDS.get(kind, (kind, kind))[is_several]
        + (f" {ends[kind]} times" if tells_times and ends[kind] > 1 else "")
        for kind in sorted(ends, key=lambda kind: -ends[kind])
    ]
    return " and ".join(words) or _ENDS["unknown"][is_several]


def _controller(incident: Incident) -> str:
    elections = incident.controller_elections
    up_to = "" if incident.vacancy_min_ms == incident.vacancy_max_ms else "at most "
    longest = incident.vacancy_max_ms
    vacancy = f"{up_to}{duration(longest)}" if longest else ""
    if not elections:
        return f"nobody was controller for {vacancy}" if vacancy else ""
    # Holders that follow each other are told once: the same broker may win again.
    way = " -> ".join(str(holder) for holder, _ in itertools.groupby(incident.controllers))
    times = f" in {elections} elections" if elections > 1 else ""
    return f"controller {way}{times}" + (f", {vacancy} without one" if vacancy else "")


def _how_it_ended(incident: Incident) -> str:
    unsure = incident.unsure_since
    unseen = "" if unsure is None else f"out of sight since {_time(unsure)}"
    still = ", ".join(incident.still)
    known = f"{still} ({unseen})" if still and unseen else still
    if incident.closed_at is None:
        return f"going on: {known}" if known else unseen or "all is well again"
    lasted = duration(incident.lasted_ms)
    if incident.end is IncidentEnd.RECOVERED:
        return f"over after {lasted}"
    how = "cut" if incident.end is IncidentEnd.CUT else "closed"
    left = unseen if unseen and not known else f"still abnormal: {known or 'nothing'}"
    return f"{how} after {lasted}; {left}"


def _time(milliseconds: int) -> str:
    """Return a time as people read it; out of the calendar, as milliseconds.

    >>> _time(1795251600123), _time(10**18)
    ('2026-11-21T09:00:00Z', '1000000000000000000')
    """
    if not 0 <= milliseconds < _YEAR_10000_MS:
        return str(milliseconds)
    return f"{dt.datetime.fromtimestamp(milliseconds // _MS_PER_S, dt.UTC):%Y-%m-%dT%H:%M:%S}Z"
