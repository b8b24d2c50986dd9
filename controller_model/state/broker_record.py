"""What the fold's state holds of a broker that was ever registered."""

from collections.abc import Mapping

import msgspec

from controller_model.records.recent_leaves import Minutes


class BrokerRecord(msgspec.Struct, array_like=True, frozen=True):
    """A broker that was ever registered. Only `ControlPlane.put_broker` replaces it by another value."""

    epoch: int | None = None
    live: bool = False
    since: int | None = None
    registrations: int = 0
    ends: Mapping[str, int] = {}
    host: str | None = None
    port: int | None = None
    rack: str | None = None
    isr_leaves: int = 0
    drained: int = 0
    """Partitions from which the controller removed it while it was registered: a controlled shutdown
    or a failed log directory."""
    log_dir_failures: int = 0
    """Failed log directories that it reported, ever."""
    log_dir_failed: bool = False
    """It reported one since it registered: then what the controller removed it from shows no controlled shutdown."""
    former_address: str | None = None
    """Its previous address, if it has registered with another one since."""
    endpoints: tuple[str, ...] = ()
    """All its listeners, as registered (BrokerIdZNode.endpoints)."""
    features: Mapping[str, Mapping[str, int]] = {}
    """The features that it supports: min_version and max_version of each."""
    isr_leave_minutes: Minutes = ()
    """When its replicas recently left ISRs (`records.recent_leaves`)."""
