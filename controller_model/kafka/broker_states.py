"""The states of a broker, as far as ZooKeeper shows them.

The rule: ZooKeeper shows one thing of a broker, its registration; each state allows it, forbids it,
or leaves it open. What is concluded is called inferred, and the states that it may be instead
are listed with it. Sources: kafka.server.BrokerStates (up to 2.7; the names), org.apache.kafka.metadata.
BrokerState (3.9; the same numbers), kafka.server.KafkaServer (startup, controlledShutdown,
shutdown), kafka.zk.KafkaZkClient (CheckedEphemeral, generateBrokerSequenceId).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

RESERVED_BROKER_MAX_ID = 1000
"""reserved.broker.max.id's default: generated ids begin above it."""


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


class Shown(NamedTuple):
    """Whether /brokers/ids/N may exist while its broker is in a state, and why.

    That it does not exist fits every state: a session can be lost at any time.
    """

    may_be_registered: bool
    because: str


_S = BrokerState
VALID_PREVIOUS: Mapping[BrokerState, frozenset[BrokerState]] = {
    _S.NOT_RUNNING: frozenset(_S) - {_S.NOT_RUNNING},
    _S.STARTING: frozenset({_S.NOT_RUNNING}),
    _S.RECOVERING_FROM_UNCLEAN_SHUTDOWN: frozenset({_S.STARTING}),
    _S.RUNNING_AS_BROKER: frozenset({_S.STARTING, _S.RECOVERING_FROM_UNCLEAN_SHUTDOWN}),
    _S.PENDING_CONTROLLED_SHUTDOWN: frozenset({_S.RUNNING_AS_BROKER}),
    _S.BROKER_SHUTTING_DOWN: frozenset(_S) - {_S.NOT_RUNNING, _S.BROKER_SHUTTING_DOWN},
}
"""From where each state is reached: every state ends in NotRunning when its process dies."""

SHOWN: Mapping[BrokerState, Shown] = {
    _S.NOT_RUNNING: Shown(True, "a dead process is registered until its session times out"),
    _S.STARTING: Shown(True, "it registers after its logs are loaded, before it takes requests"),
    _S.RECOVERING_FROM_UNCLEAN_SHUTDOWN: Shown(False, "logs are recovered before it registers"),
    _S.RUNNING_AS_BROKER: Shown(True, "this is what a registration is for"),
    _S.PENDING_CONTROLLED_SHUTDOWN: Shown(True, "the controller moves leaders of live brokers"),
    _S.BROKER_SHUTTING_DOWN: Shown(True, "its session is closed near the end of the shutdown"),
}
"""What ZooKeeper shows of each state."""


class InferredState(NamedTuple):
    """The state that a broker most likely is in, and what it may be instead."""

    state: BrokerState
    or_else: tuple[BrokerState, ...]


def infer_state(*, registered: bool, drained: bool = False) -> InferredState:
    """Infer a broker's state.

    `drained`: since it registered the controller has moved its leaders away and taken it out of
    the ISRs that others are in, and no failed log directory explains that.

    >>> infer_state(registered=True, drained=True).state.kafka_name
    'PendingControlledShutdown'
    >>> infer_state(registered=False).or_else
    (<BrokerState.STARTING: 1>, <BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN: 2>, \
<BrokerState.RUNNING_AS_BROKER: 3>, <BrokerState.PENDING_CONTROLLED_SHUTDOWN: 6>, \
<BrokerState.BROKER_SHUTTING_DOWN: 7>)
    """
    likely = _S.NOT_RUNNING
    if registered:
        likely = _S.PENDING_CONTROLLED_SHUTDOWN if drained else _S.RUNNING_AS_BROKER
    possible = (s for s in _S if SHOWN[s].may_be_registered or not registered)
    return InferredState(likely, tuple(s for s in possible if s is not likely))


class Registration(enum.Enum):
    """How an attempt to register ends (CheckedEphemeral.create)."""

    CREATED = "created"
    MINE = "it was there already, of this session: an answer was lost"
    RECREATED = "it was left over from this process's expired session: deleted, and made again"
    NODE_EXISTS = "another session holds it: the broker does not start"


def register(*, owner: int | None, session: int, former_session: int | None) -> Registration:
    """Return how a broker's attempt to register ends, given who owns the znode (None: nobody).

    So of two processes with one broker id the second does not start. Only when the first one's
    session ends can the other one have the id, and then the first one is refused: the
    registration goes to and fro between two addresses.
    """
    if owner is None:
        return Registration.CREATED
    if owner == former_session and session != former_session:
        return Registration.RECREATED
    return Registration.MINE if owner == session else Registration.NODE_EXISTS


def generated_ids(sequence_version: int, *, reserved: int = RESERVED_BROKER_MAX_ID) -> range:
    """Return the broker ids that were generated, from the data version of /brokers/seqid.

    >>> list(generated_ids(2))
    [1001, 1002]
    """
    return range(reserved + 1, reserved + sequence_version + 1)
