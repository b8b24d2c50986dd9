"""What the fold's state holds of a broker that was ever registered."""

import msgspec

from controller_model.records.views import BrokerRecord


class HeldBroker(msgspec.Struct, array_like=True):
    """A broker as views show it, and what is needed to continue that; after a change, `ControlPlane.put_broker`."""

    record: BrokerRecord = msgspec.field(default_factory=BrokerRecord)
    drained: int = 0
    """Partitions from which the controller removed it while it was registered: a controlled shutdown
    or a failed log directory."""
    log_dir_failed: bool = False
    """It reported one since it registered: then what the controller removed it from shows no controlled shutdown."""
    former_address: tuple[str | None, int | None] | None = None
    """Its previous host and port, if it has registered with others since."""

    @property
    def is_drained(self) -> bool:
        """Whether the controller removed it from ISRs while it was registered, and no failed log directory explains it.

        >>> HeldBroker(drained=2).is_drained, HeldBroker(drained=2, log_dir_failed=True).is_drained
        (True, False)
        """
        return self.drained > 0 and not self.log_dir_failed
