"""What is held of a broker that was ever registered."""

from collections.abc import Mapping

import msgspec

from controller_model.insights.recent_leaves import Minutes


class BrokerRecord(msgspec.Struct, array_like=True, frozen=True):
    """A broker that was ever registered. `ControlPlane.put_broker` alone puts another in its place."""

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
    """Partitions that the controller took it off while it was registered: a controlled shutdown
    or a failed log directory."""
    log_dir_failures: int = 0
    """Failed log directories that it reported, ever."""
    log_dir_failed: bool = False
    """One of them since it registered: what the controller took it off is no controlled shutdown."""
    former_address: str | None = None
    """Where it was registered before it moved to its present address."""
    endpoints: tuple[str, ...] = ()
    """All its listeners, as registered (BrokerIdZNode.endpoints)."""
    features: Mapping[str, Mapping[str, int]] = {}
    """What it supports: min_version and max_version by feature."""
    isr_leave_minutes: Minutes = ()
    """When its replicas left ISRs of late (`insights.recent_leaves`)."""
