"""What the monitor shows while elections run: samples of the cluster, and who leads each partition.

The rule: an election counts once the monitor names the preferred replica as leader; absence from a
list proves nothing. Anything else that happens meanwhile is a surprise, reported in one sentence.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from controller_model.kafka.ids import TopicPartition
from kcm.cli.text import printable
from kcm.queries.api_client import PAGE, ExporterApi, cluster_path
from pipeline.runtime import KcmError

MAX_TOPICS = 20
"""Up to so many topics are read one by one; for more, the list of all wrongly led partitions is read."""
NAMED = 5
"""Partitions that are named; the others are only counted."""
_MOST = 10_000_000
"""More partitions than a cluster has."""


_NEEDED = ("offline", "preferred_imbalance")
"""Counts without which a sample shows nothing."""


class ClusterSample(NamedTuple):
    """A cluster as the monitor shows it at one moment."""

    status: str
    controller: int
    epoch: int | None
    registrations: Mapping[int, str | None]
    """The live brokers, each with the epoch of its registration."""
    offline: int
    offline_named: frozenset[TopicPartition]
    """The offline partitions; when they fill more than a page, only the first page."""
    under_min_isr: int | None
    """None: not known."""
    imbalance: int


class ClusterWatch:
    """One cluster, seen through the exporter."""

    def __init__(self, api: ExporterApi, cluster: str) -> None:
        self._api = api
        self.cluster = cluster

    def sample(self) -> ClusterSample:
        """Return a sample of the cluster; raises KcmError when the exporter does not answer, or not with all of it."""
        answer: dict[str, Any] = self._api.get(cluster_path(self.cluster))
        counts = answer["counts"]
        needed = (answer["controller"], answer["brokers_live"], *map(counts.get, _NEEDED))
        if None in needed:
            raise KcmError("a part of the cluster is not known: the watcher may not read it")
        epochs = {broker["id"]: broker["epoch"] for broker in answer["brokers"]}
        offline = self._partitions(filter="offline", most=PAGE) if counts["offline"] else ()
        return ClusterSample(
            status=answer["completeness"]["status"],
            controller=answer["controller"]["id"],
            epoch=answer["controller"]["epoch"],
            registrations={id_: epochs.get(id_) for id_ in answer["brokers_live"]},
            offline=counts["offline"],
            offline_named=frozenset(map(_name, offline)),
            under_min_isr=counts["under_min_isr"],
            imbalance=counts["preferred_imbalance"],
        )

    def led_wrong(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return those of the partitions that a replica other than the preferred one leads now."""
        topics = sorted({partition.topic for partition in partitions})
        asked = topics if len(topics) <= MAX_TOPICS else [None]
        # Kafka also counts a preferred replica that is still being added, even where it leads.
        found = {
            _name(each)
            for topic in asked
            for each in self._partitions(topic=topic, filter="not-preferred")
            if not _is_led_right(each)
        }
        return found & set(partitions)

    def not_led(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions that are not shown, or not shown as led by their preferred replica."""
        wrong = self.led_wrong(partitions)
        left = set(partitions) - wrong
        return wrong | (left - self._led_right(left))

    def _led_right(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions that exist and are led by their preferred replica."""
        by_topic = defaultdict(list)
        for partition in partitions:
            by_topic[partition.topic].append(partition.partition)
        found = set()
        for topic, numbers in sorted(by_topic.items()):
            first, last = min(numbers), max(numbers)
            after = f"{topic}/{first - 1}" if first else None
            listed = self._partitions(topic=topic, after=after, most=last - first + 1)
            found |= {_name(each) for each in listed if _is_led_right(each)}
        return found

    def _partitions(self, *, most: int = _MOST, **params: Any) -> Iterator[dict[str, Any]]:
        path = cluster_path(self.cluster, "/partitions")
        return self._api.pages(path, "partitions", most=most, **params)


def surprise(before: ClusterSample, now: ClusterSample) -> str | None:
    """Return what has happened that elections do not cause; None when nothing has.

    >>> calm = ClusterSample("live", 1, 7, {1: "40", 2: "41"}, 0, frozenset(), 0, 5)
    >>> surprise(calm, calm._replace(imbalance=0)) is None
    True
    >>> surprise(calm, calm._replace(registrations={1: "40"}))
    'broker 2 is gone'
    >>> surprise(calm, calm._replace(registrations={1: "40", 2: "77"}))
    'broker 2 was gone and is back'
    """
    if now.status != "live":
        return f"the monitor's figures are {now.status}: it cannot be seen what happens"
    if now.controller < 0:
        return "the cluster has no controller"
    if (now.controller, now.epoch) != (before.controller, before.epoch):
        return (
            f"the controller changed: broker {before.controller}, epoch {before.epoch}, is now "
            f"broker {now.controller}, epoch {now.epoch}"
        )
    return _of_brokers(before, now) or _of_partitions(before, now)


def _of_brokers(before: ClusterSample, now: ClusterSample) -> str | None:
    gone = sorted(before.registrations.keys() - now.registrations.keys())
    if gone:
        return f"{_listed(gone)} {'are' if len(gone) > 1 else 'is'} gone"
    back = sorted(
        id_ for id_, epoch in before.registrations.items() if now.registrations[id_] != epoch
    )
    if back:
        were, are = ("were", "are") if len(back) > 1 else ("was", "is")
        return f"{_listed(back)} {were} gone and {are} back"
    return None


def _listed(brokers: list[int]) -> str:
    return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"


def _of_partitions(before: ClusterSample, now: ClusterSample) -> str | None:
    if now.offline > before.offline:
        return f"partitions went offline: {now.offline} are, {before.offline} were"
    all_named = before.offline <= PAGE
    if all_named and (others := sorted(now.offline_named - before.offline_named)):
        return f"partitions went offline, while others came back: {names(others)}"
    if now.under_min_isr is None or before.under_min_isr is None:
        if now.under_min_isr == before.under_min_isr:
            return None
        return "what is known of min.insync.replicas changed"
    if now.under_min_isr > before.under_min_isr:
        return (
            f"partitions fell under min.insync.replicas: {now.under_min_isr} are, "
            f"{before.under_min_isr} were"
        )
    return None


def names(partitions: Sequence[TopicPartition]) -> str:
    """Return the names of partitions; of many, the first ones.

    >>> names([TopicPartition("t", n) for n in range(7)])
    't-0, t-1, t-2, t-3, t-4 and 2 more'
    """
    shown = ", ".join(f"{p.topic}-{p.partition}" for p in partitions[:NAMED])
    more = len(partitions) - NAMED
    return printable(f"{shown} and {more} more" if more > 0 else shown)


def _name(partition: dict[str, Any]) -> TopicPartition:
    return TopicPartition(partition["topic"], partition["partition"])


def _is_led_right(partition: dict[str, Any]) -> bool:
    return partition["leader"] is not None and partition["leader"] == partition["preferred"]
