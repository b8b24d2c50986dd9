"""Pages of partitions and of topics, filtered, in order of topic and partition.

The rule: a request reads a bounded number of partitions, however large the cluster is and however
few of them fit the filter. So a page may be short, or empty, and still have a next one: `next` is
where to go on, and only its absence is the end. The order is by name, so that a page stays what it
was while other topics come and go.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Container, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from controller_model.insights.cluster_facts import (
    ClusterFacts,
    PartitionFacts,
    cluster_facts,
    partitions_in,
)
from controller_model.records.views import TopicView
from exporter.core.parameters import whole_number
from exporter.core.records import ClusterSnapshot, TopicEntry
from exporter.partitions.conditions import (
    JUDGES,
    Condition,
    conditions_of,
    none_counted,
    unknown_of,
)

MOST_READ = 20_000
"""Partitions that one request reads: about 0.1 s of work."""
PLAIN_COST = 0.2
"""What it costs to see that a partition is plain, as a part of what reading one costs."""
_OF_PLAIN = frozenset(
    {
        Condition.AT_MIN_ISR,
        Condition.SINGLE_REPLICA,
        Condition.MIN_ISR_BLOCKING,
        Condition.ON_GONE_BROKERS,
        Condition.ONE_RACK,
    }
)
"""The conditions that a plain partition may meet."""


class PartitionQuery(NamedTuple):
    """What is asked for."""

    limit: int
    conditions: tuple[Condition, ...] = ()
    """All of which a partition must meet; for topics, one partition of it each."""
    topic: str | None = None
    """This topic alone."""
    contains: str = ""
    """A part of the topic's name."""
    broker: int | None = None
    """Only partitions that have a replica on this broker."""
    after: str | None = None
    """Where the page before ended."""


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A topic, with how many of its partitions are what."""

    name: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    deleting: bool
    min_isr: int | None
    unclean: bool | None
    conditions: dict[str, int | None]
    """How many are so, those of which none is left out; None: of some it is not known."""


class PartitionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A partition, with what it is."""

    topic: str
    partition: int
    leader: int | None
    preferred: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...] | None
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader_epoch: int | None
    controller_epoch: int | None
    partition_epoch: int | None
    min_isr: int | None
    """What counts for its ISR; None: it is not known."""
    conditions: list[Condition]
    """All that it is known to be."""
    unreadable: bool = False
    """Its newest state, or its topic's newest assignment or configuration, cannot be read: what is
    said is the last good one, or nothing."""


class Page(NamedTuple):
    """What was found, and where to go on; None at the end."""

    items: list[Any]
    """`PartitionDetail` or `TopicSummary`."""
    next: str | None


def read_cursor(text: str) -> tuple[str, int]:
    """Return the topic and partition at which a page ended; raises ValueError if it is none.

    >>> read_cursor("orders/17")
    ('orders', 17)
    """
    topic, slash, partition = text.rpartition("/")
    if not (slash and topic):
        raise ValueError(text)
    return topic, whole_number(partition)


def partitions_page(
    snapshot: ClusterSnapshot, entries: Sequence[TopicEntry], query: PartitionQuery
) -> Page:
    """Return a page of partitions; `entries` are all chunks in order."""
    facts = cluster_facts(snapshot.view, snapshot.brokers.values())
    if any(none_counted(condition, snapshot.view.counts) for condition in query.conditions):
        return Page([], None)
    topic, partition = ("", -1) if query.after is None else read_cursor(query.after)
    items: list[PartitionDetail] = []
    read = 0.0
    for entry in _from(entries, topic, query):
        if read >= MOST_READ:
            return Page(items, f"{topic}/{partition}")
        view = entry.decode()
        if not view.partitions or (view.name == topic and view.partitions[-1] <= partition):
            continue
        if cannot_fit(view, facts, query):
            read += len(view.partitions) * PLAIN_COST
            topic, partition = view.name, view.partitions[-1]
            continue
        details = ChunkDetails(view, facts)
        for each in partitions_in(view):
            if view.name == topic and each.partition <= partition:
                continue
            if len(items) == query.limit or read >= MOST_READ:
                return Page(items, f"{topic}/{partition}")
            read += 1
            topic, partition = each.topic, each.partition
            if fits(each, facts, query):
                items.append(details.of(each))
    return Page(items, None)


def topics_page(
    snapshot: ClusterSnapshot, entries: Sequence[TopicEntry], query: PartitionQuery
) -> Page:
    """Return a page of topics, each with how many of its partitions are what."""
    facts = cluster_facts(snapshot.view, snapshot.brokers.values())
    if any(none_counted(condition, snapshot.view.counts) for condition in query.conditions):
        return Page([], None)
    last = query.after
    items: list[TopicSummary] = []
    read = 0.0
    for name, chunks in groupby(_from(entries, last or "", query), key=lambda e: e.name):
        if name == query.after:
            continue
        if len(items) == query.limit or read >= MOST_READ:
            return Page(items, last)
        last = name
        views = [chunk.decode() for chunk in chunks]
        if all(cannot_fit(view, facts, query) for view in views):
            read += sum(len(view.partitions) for view in views) * PLAIN_COST
            continue
        topic = _topic(name, views, facts)
        read += topic.partitions
        if all(topic.conditions.get(condition) for condition in query.conditions):
            items.append(topic)
    return Page(items, None)


def _from(entries: Sequence[TopicEntry], topic: str, query: PartitionQuery) -> Iterator[TopicEntry]:
    """Yield the chunks of topics that may fit, from this topic on."""
    first = query.topic if query.topic is not None and query.topic > topic else topic
    start = bisect_left(entries, first, key=lambda entry: entry.name)
    for entry in entries[start:]:
        if query.topic is not None and entry.name != query.topic:
            return
        if query.contains in entry.name:
            yield entry


def cannot_fit(view: TopicView, facts: ClusterFacts, query: PartitionQuery) -> bool:
    """Return whether no partition of a chunk meets a condition, seen without reading each.

    Most partitions of a cluster are plain: led by their preferred replica, all replicas in sync.
    """
    if _OF_PLAIN.issuperset(query.conditions) or view.deleting or view.adding or view.removing:
        return False
    return is_plain(view, facts.live)


def is_plain(view: TopicView, live: Container[int]) -> bool:
    """Return whether each partition's preferred replica lives and leads, with all replicas in sync."""
    return all(
        replicas and leader == replicas[0] and leader in live and len(isr or ()) == len(replicas)
        for leader, isr, replicas in zip(view.leader, view.isr, view.replicas, strict=True)
    )


def fits(partition: PartitionFacts, facts: ClusterFacts, query: PartitionQuery) -> bool:
    """Return whether a partition is on the broker and meets all conditions that are asked for."""
    if query.broker is not None and query.broker not in partition.replicas:
        return False
    return all(JUDGES[condition](partition, facts) for condition in query.conditions)


class ChunkDetails:
    """The details of the partitions of one chunk."""

    def __init__(self, view: TopicView, facts: ClusterFacts) -> None:
        self._facts = facts
        self._unreadable = frozenset(view.partitions if view.unreadable_znodes else view.unreadable)
        self._epochs = dict(zip(view.partitions, view.partition_epoch, strict=True))

    def of(self, partition: PartitionFacts) -> PartitionDetail:
        """Return what a partition of the chunk is."""
        has_state = partition.leader is not None
        return PartitionDetail(
            topic=partition.topic,
            partition=partition.partition,
            leader=partition.leader,
            preferred=partition.preferred,
            replicas=partition.replicas,
            isr=partition.isr if has_state else None,
            adding=partition.adding,
            removing=partition.removing,
            leader_epoch=partition.leader_epoch if has_state else None,
            controller_epoch=partition.controller_epoch if has_state else None,
            partition_epoch=self._epochs.get(partition.partition),
            min_isr=self._facts.min_isr_of(partition),
            conditions=conditions_of(partition, self._facts),
            unreadable=partition.partition in self._unreadable,
        )


def _topic(name: str, views: Sequence[TopicView], facts: ClusterFacts) -> TopicSummary:
    partitions = [partition for view in views for partition in partitions_in(view)]
    counts = Counter(met for partition in partitions for met in conditions_of(partition, facts))
    unknown = {met for partition in partitions for met in unknown_of(partition, facts)}
    return TopicSummary(
        name=name,
        topic_id=views[0].topic_id,
        partitions=len(partitions),
        replication_factor=max((len(partition.target) for partition in partitions), default=0),
        deleting=views[0].deleting,
        min_isr=views[0].min_isr,
        unclean=views[0].unclean,
        conditions={
            condition: None if condition in unknown else counts[condition]
            for condition in JUDGES
            if counts[condition] or condition in unknown
        },
    )


def all_partitions(entries: Collection[TopicEntry]) -> Iterator[PartitionFacts]:
    """Yield every partition of a cluster, a chunk decoded at a time."""
    for entry in entries:
        yield from partitions_in(entry.decode())
