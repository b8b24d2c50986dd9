"""A cascade of failures as one record: the incident.

An incident holds what was seen between the first and the last moment at which something
was abnormal, and nothing after. Figures that count events are exact if the log has no gap
(`complete`). Offline partitions are counted at each health sample and with each event in between;
under-replicated ones only at the samples, so that a peak between two samples may be missed.
"""

import enum

import msgspec

QUIET_MS = 60_000
"""How long everything must be normal before an incident is over. Longer than a session's timeout
(18 s) and a replica's lag (30 s), so that late effects of one failure are still part of it."""

STANDING_MS = 3_600_000
"""An incident in which nothing has happened for this long is closed even if something is still
abnormal: otherwise a broker that is gone for good would hide next week's failures in it."""

LONGEST_MS = 86_400_000
"""An incident without an end, such as a broker that comes and goes, is cut after this long."""

INCIDENTS_KEPT = 20
"""Closed incidents in the view; older ones are in the events."""

CONTROLLERS_KEPT = 20
"""Entries in an incident's `controllers`: more changes of the controller than anybody reads."""


class IncidentEnd(enum.StrEnum):
    """Why an incident is over."""

    RECOVERED = "recovered"
    """Everything is as it was before the incident."""
    STANDING = "standing"
    """Nothing has happened for an hour, and something is still abnormal: see `still`."""
    CUT = "cut"
    """It lasted for a day; what follows is a new incident."""


class Incident(msgspec.Struct, kw_only=True):
    """What happened in one cascade of failures. Times are the watcher's, ms since 1970."""

    number: int
    """1, 2, 3 ... within a lineage."""
    started_at: int
    last_abnormal_at: int
    """The last time that anything was abnormal; the incident lasted from `started_at` to it."""
    closed_at: int | None = None
    """None while it is open. It closes when the quiet time after it is over."""
    end: IncidentEnd | None = None
    opened_by: str
    """The kind of the event that opened it."""
    summary: str = ""
    still: tuple[str, ...] = ()
    """What is abnormal now, or was still abnormal when it was closed."""
    complete: bool = True
    """False: it contains a hole in the log or a time in which nothing was seen; counts are minimums."""
    unsure_since: int | None = None
    """Since when it is unknown whether all is well, or was at the close; None: it is known."""
    brokers_lost: tuple[int, ...] = ()
    brokers_back: tuple[int, ...] = ()
    """Lost brokers that are registered again."""
    broker_ends: dict[str, int] = {}
    """Ended registrations by kind (events.BrokerEnd)."""
    controllers: tuple[int, ...] = ()
    """The holders of /controller, beginning with the one before the incident: the last CONTROLLERS_KEPT."""
    controller_elections: int = 0
    """Includes elections that only the epoch shows."""
    vacancy_min_ms: int = 0
    vacancy_max_ms: int = 0
    """For how long nobody held /controller, at least and at most, until now or until the close."""
    leaders_moved: int = 0
    """Partitions that got a leader, by any election except their first."""
    leader_elections: dict[str, int] = {}
    """The same by kind (events.LeaderElectionKind)."""
    unclean_elections: int = 0
    leaderless: int = 0
    """How often a partition's state was written without a leader."""
    offline_before: int = 0
    offline_peak: int = 0
    offline_last: int = 0
    """Offline partitions before the incident, the most at once, and the last known number."""
    under_replicated_before: int = 0
    under_replicated_peak: int = 0
    under_replicated_last: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    failover_ms: int = 0
    """How long failover work took in it."""
    zombie: bool = False
    """A zombie controller: it left due writes undone for longer than the write timeout."""
    stale_writes: int = 0
    log_dir_failures: int = 0

    @property
    def lasted_ms(self) -> int:
        """Milliseconds from the first to the last moment at which something was abnormal."""
        return self.last_abnormal_at - self.started_at

    @property
    def offline(self) -> int:
        """Partitions that were offline at once, minus those that were offline before the incident."""
        return max(self.offline_peak - self.offline_before, 0)

    @property
    def missing(self) -> tuple[int, ...]:
        """The lost brokers that are still gone."""
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
    """Partitions that were offline at once, minus those that were offline before the incident."""


class IncidentsSummary(msgspec.Struct, kw_only=True):
    """The summary of incidents in the cluster's view; the fold's state holds this value, and changes it."""

    total: int = 0
    """Incidents opened in this lineage."""
    open: int | None = None
    """The number of the open incident; None if there is none."""
    open_since: int | None = None
    opened_by: str | None = None
    last_started_at: int | None = None
    last_abnormal_at: int | None = None
    """When something was last abnormal in the newest incident."""
    last_closed_at: int | None = None
    total_ms: int = 0
    """How long the closed incidents lasted in total."""
    last_closed: LastIncident | None = None
