"""What the fold's state holds of incidents, and the health samples that change it."""

import msgspec

from controller_model.records.incidents import Incident, IncidentsSummary


class IncidentState(msgspec.Struct, array_like=True):
    """The open incident, the closed ones, and what is needed to continue them."""

    summary: IncidentsSummary = msgspec.field(default_factory=IncidentsSummary)
    """As the cluster's view shows it."""
    open: Incident | None = None
    closed: list[bytes] = []
    """The last INCIDENTS_KEPT as JSON, newest last: they are decoded only when they are reported."""
    offline_before: int = 0
    under_replicated_before: int = 0
    vacant_before: bool = False
    zombie_before: bool = False
    foreign_before: tuple[str, ...] = ()
    """Values of the last sample at which no incident was open: what was already wrong then belongs to
    no incident. `vacant_before` ends with the next election, or the next end of one."""
    vacancy_min_ms: int = 0
    vacancy_max_ms: int = 0
    """How much of the current vacancy of /controller has been counted, or of the one that the next
    election will report."""
    live: tuple[int, ...] = ()
    """The brokers that were registered at the last sample."""
    sampled_at: int = 0
    """The fold's time at the last sample; 0: there has been none."""
    watched_at: int = 0
    """As `sampled_at`, or the last heartbeat in a resync since then, if none of them was late."""
    is_unsure: bool = False
    """The log was reported to lack something, and no proof has followed since."""
    unsure_until: int = 0
    """Until this time nobody could know whether all is well."""
    began_at: int = 0
    moved_at: int = 0
    abnormal_at: int = 0
    """By the fold's clock, which never goes back: when the open incident began, when something that
    belongs to it last happened, and when something was last abnormal."""
    revision: int = 0
    """Rises with each change of what the view shows."""


class HealthSample(msgspec.Struct, frozen=True):
    """What was counted at one position of the log."""

    at: int
    offline: int
    under_replicated: int
    is_vacant: bool
    vacancy_min_ms: int
    vacancy_max_ms: int
    """For how long nobody has held /controller; 0 while somebody does."""
    is_zombie: bool
    foreign: tuple[str, ...]
    """The kinds of foreign writes that stand."""
    live: tuple[int, ...]
    unsure_since: int | None
    """Since when the source is not seen or changes are known to be missing; None: neither."""
    is_hidden: bool = False
    """Some of this cannot be seen, so that the figures say nothing."""

    @property
    def is_sure(self) -> bool:
        """Whether the figures are what the source holds, as far as is known."""
        return self.unsure_since is None
