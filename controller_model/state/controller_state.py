"""Who the controller is, and the account of its elections, as it is held."""

import msgspec

from controller_model.insights.recent_elections import Elections
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.events import ControllerElected
from controller_model.records.views import Failover


class ControllerState(msgspec.Struct, array_like=True):
    """Who is the controller, and the account of elections."""

    id: int = NO_CONTROLLER
    last_id: int = NO_CONTROLLER
    """The holder before nobody held it."""
    last_holder_epoch: int | None = None
    """The broker epoch of the last holder when it was elected: distinguishes a bounce from a deletion."""
    czxid: int | None = None
    elected_at: int | None = None
    epoch: int | None = None
    epoch_zxid: int = 0
    base_epoch: int | None = None
    """The epoch at which counting started, and how many elections stood for it."""
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
    """An election whose epoch has not been read yet; reported when it is."""
    pending_election_after: int | None = None
    """The epoch that was known when it was seen."""
    unresolved_holder: int = NO_CONTROLLER
    """The former holder, while it is open whether its registration vanished with /controller."""
    failover_due: int = 0
    """Leader writes that the failover work under way still owes."""
    timestamp: str | None = None
    """What the payload of /controller says about when it was written."""
    elections_awaiting_epoch: int = 0
    """Elections whose /controller has been read, and the epoch not yet."""
    recent_elections: Elections = ()
    known_before: int | None = None
    """Until when it was known who holds /controller, before the newest election; None: never."""
