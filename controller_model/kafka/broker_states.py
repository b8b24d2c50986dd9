"""The states of a broker, as far as ZooKeeper shows them.

The rule: ZooKeeper shows one thing of a broker, its registration, so a state is inferred. A dead process
is registered until its session times out; a live one registers after its logs are recovered, and
its registration goes near the end of its shutdown, or whenever its session is lost. Sources:
kafka.server.BrokerStates (up to 2.7; the names), org.apache.kafka.metadata.BrokerState (3.9; the
same numbers), kafka.server.KafkaServer (startup, controlledShutdown, shutdown).
"""

import enum


class BrokerState(enum.IntEnum):
    """What a broker is doing; the value is the number that its BrokerState gauge shows."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERING_FROM_UNCLEAN_SHUTDOWN = 2
    RUNNING_AS_BROKER = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    BROKER_SHUTTING_DOWN = 7

    @property
    def kafka_name(self) -> str:
        """Kafka's own name.

        >>> BrokerState(6).kafka_name
        'PendingControlledShutdown'
        """
        words = self.name.split("_")
        return "".join(word.capitalize() for word in words)


def infer_state(*, registered: bool, drained: bool = False) -> BrokerState:
    """Return the state that a broker most likely is in.

    `drained`: since it registered the controller has moved its leaders away and taken it out of
    the ISRs that others are in, and no failed log directory explains that.

    >>> infer_state(registered=True, drained=True).kafka_name
    'PendingControlledShutdown'
    """
    if not registered:
        return BrokerState.NOT_RUNNING
    return BrokerState.PENDING_CONTROLLED_SHUTDOWN if drained else BrokerState.RUNNING_AS_BROKER
