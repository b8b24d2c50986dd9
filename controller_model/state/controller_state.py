"""What the fold's state holds of the controller and of its elections."""

import msgspec

from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.events import ControllerElected
from controller_model.records.recent_elections import Elections
from controller_model.records.views import Failover


class ControllerState(msgspec.Struct, array_like=True):
    """The controller, and the counts of its elections."""

    id: int = NO_CONTROLLER
    last_id: int = NO_CONTROLLER
    """The last holder of /controller before it was vacant."""
    last_holder_epoch: int | None = None
    """The broker epoch of the last holder at its election: it distinguishes a bounce from a deletion."""
    czxid: int | None = None
    elected_at: int | None = None
    epoch: int | None = None
    epoch_zxid: int = 0
    base_epoch: int | None = None
    """The epoch at which counting started; `base_elections` is the number of elections at that epoch."""
    base_elections: int = 0
    seen: int = 0
    """Creations of /controller seen since counting started."""
    elections: int = 0
    id_changes: int = 0
    missed: int = 0
    base_missed: int = 0
    missed_reported: int = 0
    vacant_since: int | None = None
    held_until: int | None = None
    """When /controller was last known to be held."""
    vacancy_total_min_ms: int = 0
    vacancy_total_max_ms: int = 0
    vacancy_last_min_ms: int | None = None
    vacancy_last_max_ms: int | None = None
    failover: Failover = Failover.UNKNOWN
    failover_since: int | None = None
    failover_partitions: int = 0
    failover_last_write_at: int | None = None
    failover_last_ms: int | None = None
    stale_writes: int = 0
    migrating: bool = False
    pending_election: ControllerElected | None = None
    """An election whose epoch has not been read yet; it is reported when the epoch is."""
    pending_election_after: int | None = None
    """The epoch that was known when that election was seen."""
    unresolved_holder: int = NO_CONTROLLER
    """The former holder, while it is not known whether its registration ended with /controller."""
    failover_pending: int = 0
    """Leader writes that are still due in the failover work under way."""
    timestamp: str | None = None
    """The time at which /controller was written, by its payload."""
    elections_awaiting_epoch: int = 0
    """Elections whose /controller has been read, but whose epoch has not."""
    recent_elections: Elections = ()
    known_before: int | None = None
    """The last time before the newest election at which the holder of /controller was known; None: never."""
