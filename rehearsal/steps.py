"""The steps of a rehearsal: what operators do, as records and as text.

The text of a step is one word, and its argument after a colon. Files have the layouts of Kafka's own
tools, so that what was rehearsed can be run (kafka-reassign-partitions, kafka-leader-election).
"""

import enum
from collections.abc import Callable, Collection, Sequence

import msgspec

from controller_model.kafka.ids import TopicPartition
from controller_model.records.decoding import DECODING_ERRORS
from controller_simulator.cluster.operations import (
    DeleteController,
    DeleteTopic,
    ElectPreferred,
    KillBroker,
    Reassign,
    StartBroker,
    StopBroker,
)

_LONGEST_ID = 10
"""Digits of the largest broker id, 2^31 - 1."""


class StepKind(enum.StrEnum):
    """What can be rehearsed."""

    STOP_BROKER = "stop-broker"
    """A controlled shutdown."""
    KILL_BROKER = "kill-broker"
    START_BROKER = "start-broker"
    ROLLING_RESTART = "rolling-restart"
    DELETE_CONTROLLER = "delete-controller"
    REASSIGN = "reassign"
    DELETE_TOPIC = "delete-topic"
    PREFERRED_ELECTION = "preferred-election"


class StepError(ValueError):
    """A step that cannot be read; the message says which, and what is expected."""


class RollingRestart(msgspec.Struct, frozen=True, tag=True):
    """Brokers are stopped and started again, one after the other.

    Without an order: the live brokers by id, the controller last, so that the controller changes only once.
    """

    order: tuple[int, ...] = ()


Act = (
    StopBroker
    | KillBroker
    | StartBroker
    | DeleteController
    | Reassign
    | DeleteTopic
    | ElectPreferred
)
"""A single operation on the simulated cluster."""

Step = Act | RollingRestart

_KINDS: dict[type, StepKind] = {
    StopBroker: StepKind.STOP_BROKER,
    KillBroker: StepKind.KILL_BROKER,
    StartBroker: StepKind.START_BROKER,
    RollingRestart: StepKind.ROLLING_RESTART,
    DeleteController: StepKind.DELETE_CONTROLLER,
    Reassign: StepKind.REASSIGN,
    DeleteTopic: StepKind.DELETE_TOPIC,
    ElectPreferred: StepKind.PREFERRED_ELECTION,
}


class _Named(msgspec.Struct):
    topic: str
    partition: int


class _Target(_Named):
    replicas: tuple[int, ...]


class _Targets(msgspec.Struct):
    partitions: list[_Target]


class _Partitions(msgspec.Struct):
    partitions: list[_Named]


_targets = msgspec.json.Decoder(_Targets)
_partitions = msgspec.json.Decoder(_Partitions)


def read_step(text: str) -> Step:
    """Return the step that a text describes; raises StepError.

    >>> read_step("stop-broker:3"), read_step("rolling-restart:3,1"), read_step("preferred-election")
    (StopBroker(broker=3), RollingRestart(order=(3, 1)), ElectPreferred(partitions=()))
    """
    word, _, about = text.partition(":")
    if word not in _READ:
        raise StepError(f"unknown step {word!r}; the steps are {', '.join(StepKind)}")
    return _READ[StepKind(word)](about)


def step_text(step: Step) -> str:
    """Return a step's text, without the content of a file: its partitions are counted.

    >>> step_text(StopBroker(3)), step_text(ElectPreferred((TopicPartition("t", 0),)))
    ('stop-broker:3', 'preferred-election of 1 partition(s)')
    """
    kind = _KINDS[type(step)]
    match step:
        case StopBroker(about) | KillBroker(about) | StartBroker(about) | DeleteTopic(about):
            return f"{kind}:{about}"
        case RollingRestart(order) if order:
            return f"{kind}:{','.join(map(str, order))}"
        case Reassign(some) | ElectPreferred(some) if some:
            return f"{kind} of {len(some)} partition(s)"
    return kind


def operations_of(step: Step, live: Collection[int], controller: int) -> Sequence[Act]:
    """Return the operations of a step, one after the other, in the cluster as it is then.

    >>> operations_of(RollingRestart(), {1, 2}, controller=1)[::2]
    [StopBroker(broker=2), StopBroker(broker=1)]
    """
    if not isinstance(step, RollingRestart):
        return [step]
    order = step.order or sorted(live, key=lambda broker: (broker == controller, broker))
    return [act(broker) for broker in order for act in (StopBroker, StartBroker)]


def read_targets(data: str) -> Reassign:
    """Return the reassignment in a file of kafka-reassign-partitions; raises StepError."""
    try:
        asked = _targets.decode(data)
    except DECODING_ERRORS as error:
        raise StepError(
            f"not the JSON of kafka-reassign-partitions ({error}); expected "
            '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
        ) from None
    targets = {TopicPartition(e.topic, e.partition): e.replicas for e in asked.partitions}
    if not targets or len(targets) < len(asked.partitions):
        why = "a partition is listed twice" if targets else "no partition is listed"
        raise StepError(f"not a reassignment: {why}")
    return Reassign(tuple(targets.items()))


def read_election(data: str) -> ElectPreferred:
    """Return the election in a file of kafka-leader-election; raises StepError. Empty: all partitions."""
    if not data:
        return ElectPreferred()
    try:
        asked = _partitions.decode(data)
    except DECODING_ERRORS as error:
        raise StepError(
            f"not the JSON of kafka-leader-election ({error}); expected "
            '{"partitions":[{"topic":"t","partition":0}]}'
        ) from None
    if not asked.partitions:
        raise StepError("not an election: no partition is listed")
    return ElectPreferred(tuple(TopicPartition(e.topic, e.partition) for e in asked.partitions))


def read_order(text: str) -> RollingRestart:
    """Return a rolling restart in the order of comma-separated ids; raises StepError. Empty: the usual order."""
    order = tuple(_broker(StepKind.ROLLING_RESTART, part) for part in text.split(",") if text)
    if len(set(order)) < len(order):
        raise StepError(f"{StepKind.ROLLING_RESTART}: a broker is listed twice in {text!r}")
    return RollingRestart(order)


def _broker(kind: StepKind, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_ID and int(text) < 2**31):
        raise StepError(f"{kind}: {text!r} is not a broker id")
    return int(text)


def _of_broker(kind: StepKind, act: Callable[[int], Step]) -> Callable[[str], Step]:
    return lambda about: act(_broker(kind, about))


def _delete_controller(about: str) -> DeleteController:
    if about:
        raise StepError(f"{StepKind.DELETE_CONTROLLER}: it takes no argument, but got {about!r}")
    return DeleteController()


def _delete_topic(about: str) -> DeleteTopic:
    if not about:
        raise StepError(f"{StepKind.DELETE_TOPIC}: the topic is missing")
    return DeleteTopic(about)


_READ: dict[StepKind, Callable[[str], Step]] = {
    StepKind.STOP_BROKER: _of_broker(StepKind.STOP_BROKER, StopBroker),
    StepKind.KILL_BROKER: _of_broker(StepKind.KILL_BROKER, KillBroker),
    StepKind.START_BROKER: _of_broker(StepKind.START_BROKER, StartBroker),
    StepKind.ROLLING_RESTART: read_order,
    StepKind.DELETE_CONTROLLER: _delete_controller,
    StepKind.REASSIGN: read_targets,
    StepKind.DELETE_TOPIC: _delete_topic,
    StepKind.PREFERRED_ELECTION: read_election,
}
