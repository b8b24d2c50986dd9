"""What is inferred about brokers because no znode holds it: their states.

The rule: nothing is stored here. Each conclusion is computed from the state whenever it is needed,
and is called inferred if the same znodes would allow another one.
"""

import enum

from controller_model.state.control_plane import ControlPlane
from controller_model.state.held_broker import HeldBroker


class BrokerState(enum.StrEnum):
    """What a broker is doing, as far as ZooKeeper shows it, by Kafka's names (kafka.server.BrokerStates, up to 2.7).

    A dead process stays registered until its session times out. A starting broker registers after it has
    recovered its logs (kafka.server.KafkaServer.startup), so Starting and RecoveringFromUncleanShutdown are not seen.
    """

    NOT_RUNNING = "NotRunning"
    """Its registration was removed: near the end of a shutdown, or when its session was lost."""
    RUNNING_AS_BROKER = "RunningAsBroker"
    PENDING_CONTROLLED_SHUTDOWN = "PendingControlledShutdown"
    """Since it registered, the controller has moved its leaders away and removed it from every ISR that
    has other members, and no failed log directory explains that."""


def is_drained(held: HeldBroker) -> bool:
    """Return whether the controller emptied a live broker, and no failed log directory explains it.

    >>> is_drained(HeldBroker(drained=2)), is_drained(HeldBroker(drained=2, log_dir_failed=True))
    (True, False)
    """
    return held.drained > 0 and not held.log_dir_failed


def is_in_sync_with_others(control: ControlPlane, broker: int) -> bool:
    """Return whether a broker is in an ISR of which it is not the only member."""
    return any(membership.isr > 1 for membership in control.totals.members.get(broker, ()))


def inferred_state(control: ControlPlane, broker: int) -> BrokerState | None:
    """Return the state that a broker is most likely in; None if it was never registered."""
    held = control.brokers.get(broker)
    if held is None:
        return None
    if not held.record.live:
        return BrokerState.NOT_RUNNING
    if is_drained(held) and not is_in_sync_with_others(control, broker):
        return BrokerState.PENDING_CONTROLLED_SHUTDOWN
    return BrokerState.RUNNING_AS_BROKER
