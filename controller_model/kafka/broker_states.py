"""The states of a broker, as far as ZooKeeper shows them.

The rule: ZooKeeper shows only a broker's registration, so its state is inferred. A dead process
stays registered until its session times out. A starting broker registers after it has recovered
its logs. The registration is removed near the end of a shutdown, or when the session is lost. Sources:
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
    """Return the state that a broker is most likely in.

    `drained`: since the broker registered, the controller has moved its leaders away and removed it
    from every ISR that has other members, and no failed log directory explains that.

    >>> infer_state(registered=True, drained=True).kafka_name
    'PendingControlledShutdown'
    """
    if not registered:
        return BrokerState.NOT_RUNNING
    return BrokerState.PENDING_CONTROLLED_SHUTDOWN if drained else BrokerState.RUNNING_AS_BROKER
