"""The truth of a cluster, counted from ZooKeeper's raw JSON and from Kafka's own metadata.

The rule: neither this module nor `truth_reader` uses the monitor's code, so that an error in the
monitor cannot hide in the code that checks it. The definitions are Kafka's, as simple as they can
be for a cluster in which no topic is being deleted and no partition reassigned.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

NO_CONTROLLER = -1
NO_LEADER = -1

Counts = tuple[tuple[int, int], ...]
"""(broker, number) by broker; brokers with none are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueFigures:
    """The figures that are compared, of the truth or of the monitor."""

    controller: int
    """The broker that holds /controller; -1 when none does."""
    epoch: int | None
    elections: int | None
    """Elections since the story began; None where its start is not known."""
    brokers: tuple[int, ...]
    """The live brokers."""
    leaders: Counts
    not_led: Counts
    """By broker: partitions that have it as their preferred replica and are not led by it."""
    topics: int
    partitions: int
    offline: int
    under_replicated: int
    imbalance: int
    """Partitions that are not led by their preferred replica."""


FIGURE_NAMES = tuple(field.name for field in fields(TrueFigures))


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition as ZooKeeper or a broker describes it; the first replica is the preferred one."""

    replicas: tuple[int, ...]
    leader: int | None
    """-1: no leader; None: the controller has not created its state yet."""
    isr: tuple[int, ...]


def differences(truth: TrueFigures, shown: TrueFigures) -> list[str]:
    """Return the names of the figures that are not equal."""
    return [name for name in FIGURE_NAMES if getattr(truth, name) != getattr(shown, name)]


def figures_of_znodes(znodes: Mapping[str, bytes], *, base_epoch: int | None = None) -> TrueFigures:
    """Count everything from payloads by path; a broker is live if `/brokers/ids/N` is there.

    `base_epoch` is the epoch at which the story began; None when it has not begun.
    """
    controller = NO_CONTROLLER
    if "/controller" in znodes:
        controller = int(json.loads(znodes["/controller"])["brokerid"])
    epoch = int(znodes["/controller_epoch"]) if "/controller_epoch" in znodes else None
    elections = None if epoch is None or base_epoch is None else epoch - base_epoch
    names = [path[len("/brokers/topics/") :] for path in znodes if _is_topic(path)]
    return count(
        [partition for name in names for partition in _partitions(name, znodes)],
        topics=len(names),
        controller=controller,
        epoch=epoch,
        elections=elections,
        brokers={int(p.rpartition("/")[2]) for p in znodes if p.startswith("/brokers/ids/")},
    )


def figures_of_metadata(metadata: Any) -> TrueFigures:
    """Count from a broker's answer to a metadata request, which has no epochs."""
    partitions = [
        Partition(
            replicas=tuple(partition.replicas), leader=partition.leader, isr=tuple(partition.isrs)
        )
        for topic in metadata.topics.values()
        for partition in topic.partitions.values()
    ]
    return count(
        partitions,
        topics=len(metadata.topics),
        controller=metadata.controller_id,
        epoch=None,
        elections=None,
        brokers=set(metadata.brokers),
    )


def state_path(topic: str, partition: int) -> str:
    """Return the path of the znode with a partition's leader and ISR."""
    return f"/brokers/topics/{topic}/partitions/{partition}/state"


def assignment(payload: bytes) -> dict[int, tuple[int, ...]]:
    """Return a topic's replicas by partition, from the payload of its znode.

    >>> assignment(b'{"version":1,"partitions":{"0":[2,0]}}')
    {0: (2, 0)}
    """
    partitions = json.loads(payload)["partitions"]
    return {int(number): tuple(replicas) for number, replicas in partitions.items()}


def count(
    partitions: Iterable[Partition],
    *,
    topics: int,
    controller: int,
    epoch: int | None,
    elections: int | None,
    brokers: Collection[int],
) -> TrueFigures:
    """Count the partitions; one without a state only adds to the number of partitions."""
    every = list(partitions)
    states = [partition for partition in every if partition.leader is not None]
    away = [partition for partition in states if partition.leader != partition.replicas[0]]
    return TrueFigures(
        controller=controller,
        epoch=epoch,
        elections=elections,
        brokers=tuple(sorted(brokers)),
        leaders=_counts(p.leader for p in states if p.leader is not None),
        not_led=_counts(partition.replicas[0] for partition in away),
        topics=topics,
        partitions=len(every),
        offline=sum(partition.leader not in brokers for partition in states),
        under_replicated=sum(len(p.isr) < len(p.replicas) for p in states),
        imbalance=len(away),
    )


def _is_topic(path: str) -> bool:
    return path.startswith("/brokers/topics/") and path.count("/") == "/brokers/topics/t".count("/")


def _partitions(topic: str, znodes: Mapping[str, bytes]) -> Iterable[Partition]:
    for number, replicas in assignment(znodes[f"/brokers/topics/{topic}"]).items():
        payload = znodes.get(state_path(topic, number))
        state = json.loads(payload) if payload else {"leader": None, "isr": []}
        yield Partition(replicas=replicas, leader=state["leader"], isr=tuple(state["isr"]))


def _counts(brokers: Iterable[int]) -> Counts:
    return tuple(sorted(Counter(b for b in brokers if b != NO_LEADER).items()))
