"""A cascade of failures as one record: the incident.

The rule: an incident holds what was seen between the first abnormal thing and the last one, and
nothing after. Figures that are counted event by event are exact as far as the log is whole
(`complete`). Offline partitions are counted at each health sample and with each event between two;
under-replicated ones at the samples alone, so that a peak between two of them may be missed.
"""

import enum

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
    """Since when it is unknown whether all is well, or was as it was closed; None: it is known."""
    brokers_lost: tuple[int, ...] = ()
    brokers_back: tuple[int, ...] = ()
    """Those of them that are registered again."""
    broker_ends: dict[str, int] = {}
    """Ended registrations by kind (events.BrokerEnd)."""
    controllers: tuple[int, ...] = ()
    """Who held /controller, from the one before it on: the last CONTROLLERS_KEPT."""
    controller_elections: int = 0
    """Those included that only the epoch shows."""
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
    """A zombie controller: it left writes undone for longer than the write timeout."""
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
