"""The steps of a rehearsal: what operators do, as records and as text.

The text of a step is one word, and its argument after a colon. Files have the layouts of Kafka's own
tools, so that what was rehearsed can be run (kafka-reassign-partitions, kafka-leader-election).
"""

import enum
from collections.abc import Callable, Collection, Container, Sequence
from typing import Annotated

import msgspec

from controller_model.insight.wording import counted
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
from controller_simulator.controller.controller_io import name_of

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


_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""What the tools read as a number (DecodeJson.DecodeInt)."""


class _Named(msgspec.Struct):
    topic: str
    partition: _Int32


class _Target(_Named):
    replicas: tuple[_Int32, ...]
    log_dirs: list[str] | msgspec.UnsetType = msgspec.UNSET


class _Targets(msgspec.Struct):
    partitions: list[_Target]
    version: int = 1


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
    """Return the reassignment in a file of kafka-reassign-partitions; raises StepError.

    What the tool refuses before it asks Kafka is refused (ReassignPartitionsCommand.parseExecuteAssignmentArgs and
    parsePartitionReassignmentData).
    """
    try:
        asked = _targets.decode(data)
    except DECODING_ERRORS as error:
        raise StepError(
            f"not the JSON of kafka-reassign-partitions ({error}); expected "
            '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
        ) from None
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    why = "" if asked.partitions else "no partition is listed"
    if asked.version != 1:
        why = f"the tool reads version 1, not {asked.version}"
    for each in asked.partitions:
        partition = TopicPartition(each.topic, each.partition)
        replicas, log_dirs = each.replicas, each.log_dirs
        if partition in targets:
            why = why or f"a partition is listed twice: {name_of(partition)}"
        elif not replicas:
            why = why or f"{name_of(partition)} has no replica"
        elif len(set(replicas)) < len(replicas):
            why = (
                why or f"{name_of(partition)} lists a broker twice in its replicas {list(replicas)}"
            )
        elif log_dirs is not msgspec.UNSET and len(log_dirs) != len(replicas):
            why = why or (
                f"{name_of(partition)} has {counted(len(replicas), 'replica')} and "
                f"{counted(len(log_dirs), 'log dir')}; give one for each replica, such as any, or no log_dirs"
            )
        targets[partition] = replicas
    if why:
        raise StepError(f"kafka-reassign-partitions would refuse it: {why}")
    return Reassign(tuple(targets.items()))


def refusal_of_tool(asked: Reassign, live: Collection[int], topics: Container[str]) -> str | None:
    """Return why kafka-reassign-partitions does not ask Kafka for a reassignment; None if it asks.

    It refuses the whole plan for one broker that does not run, be it a replica already, and for one topic that
    does not exist (ReassignPartitionsCommand.executeAssignment: verifyBrokerIds and describeTopics).
    """
    brokers = {broker for _, replicas in asked.targets for broker in replicas or ()}
    if unknown := sorted(brokers.difference(live)):
        what = f"INVALID_REPLICA_ASSIGNMENT: unknown broker id {', '.join(map(str, unknown))}"
    elif absent := sorted({id_.topic for id_, _ in asked.targets if id_.topic not in topics}):
        what = f"UNKNOWN_TOPIC_OR_PARTITION: topic {', '.join(absent)} not found"
    else:
        return None
    return f"{what}; kafka-reassign-partitions refuses the whole plan"


def read_election(data: str) -> ElectPreferred:
    """Return the election in a file of kafka-leader-election; raises StepError. Empty: all partitions.

    As the tool does, refuse a partition that is listed twice (LeaderElectionCommand.parseReplicaElectionData).
    """
    if not data:
        return ElectPreferred()
    try:
        asked = _partitions.decode(data)
    except DECODING_ERRORS as error:
        raise StepError(
            f"not the JSON of kafka-leader-election ({error}); expected "
            '{"partitions":[{"topic":"t","partition":0}]}'
        ) from None
    partitions = tuple(TopicPartition(each.topic, each.partition) for each in asked.partitions)
    if len(set(partitions)) < len(partitions) or not partitions:
        why = "a partition is listed twice" if partitions else "no partition is listed"
        raise StepError(f"kafka-leader-election would refuse it: {why}")
    return ElectPreferred(partitions)


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
