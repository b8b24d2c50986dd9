"""What the fold's state holds of the controller, whatever source states it."""

import msgspec

from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.events import ControllerElected
from controller_model.records.views import ControllerView


class ControllerState(msgspec.Struct, array_like=True):
    """The controller as views show it, and what is needed to continue that."""

    view: ControllerView = msgspec.field(default_factory=ControllerView)
    last_id: int = NO_CONTROLLER
    """The last controller before there was none."""
    held_until: int | None = None
    """When a controller was last known to be the controller."""
    pending_election: ControllerElected | None = None
    """An election whose epoch is not known yet; it is reported when it is."""

    is_zombie: bool = False
    """As of the last heartbeat, writes are pending and nobody has written under its epoch for too long."""

    @property
    def last_known_id(self) -> int:
        """The controller; while there is none, the last one."""
        return self.last_id if self.view.id == NO_CONTROLLER else self.view.id
