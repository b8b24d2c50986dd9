"""The account of incidents, as it is held, and the health samples that move it."""

import msgspec

from controller_model.records.incidents import Incident


class IncidentState(msgspec.Struct, array_like=True):
    """The account of incidents, in the fold's state."""

    total: int = 0
    open: Incident | None = None
    closed: list[bytes] = []
    """The last INCIDENTS_KEPT as JSON, newest last: they are read when they are reported only."""
    last_started_at: int | None = None
    last_closed_at: int | None = None
    total_ms: int = 0
    offline_before: int = 0
    under_replicated_before: int = 0
    vacant_before: bool = False
    ghost_before: bool = False
    """As of the last sample at which no incident was open: what was wrong already is of none. That
    nobody held /controller is over with the next election or end of one."""
    vacancy_min_ms: int = 0
    vacancy_max_ms: int = 0
    """What was counted of the vacancy of /controller that is under way, or that the next election
    will name."""
    live: tuple[int, ...] = ()
    """The brokers that were registered at the last sample."""
    sampled_at: int = 0
    """The fold's time at the last sample; 0: there was none."""
    watched_at: int = 0
    """The same, or at the last heartbeat in a resync since then, if none of them came late."""
    is_unsure: bool = False
    """The log was reported to lack something, and no proof has come since."""
    unsure_until: int = 0
    """Until then nobody could know whether all is well."""
    began_at: int = 0
    moved_at: int = 0
    abnormal_at: int = 0
    """By the fold's clock, which never goes back: when the open one began, when the last thing
    happened that belongs to it, and when something was abnormal last."""
    revision: int = 0
    """Grows with each change of what the view shows."""


class HealthSample(msgspec.Struct, frozen=True):
    """What was counted at one place of the log."""

    at: int
    offline: int
    under_replicated: int
    is_vacant: bool
    vacancy_min_ms: int
    vacancy_max_ms: int
    """For how long nobody has held /controller; 0 where somebody does."""
    is_ghost: bool
    live: tuple[int, ...]
    unsure_since: int | None
    """Since when ZooKeeper is out of sight or changes are known to be missing; None: neither."""

    @property
    def is_sure(self) -> bool:
        """What was counted is what ZooKeeper holds, as far as anybody knows."""
        return self.unsure_since is None
