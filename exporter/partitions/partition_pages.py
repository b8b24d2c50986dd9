"""Make pages of partitions and of topics, filtered, in order of topic and partition.

A request reads a bounded number of partitions, however large the cluster is and however
few partitions fit the filter. So a page may be short or empty and still have a next one: `next` says
where to continue, and only its absence means the end. The order is by name, so that a page does not shift
when other topics are created or deleted.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.records.view_facts import partitions_in
from controller_model.records.views import TopicView
from exporter.core.parameters import whole_number
from exporter.core.records import ClusterSnapshot, TopicEntry
from exporter.partitions.conditions import JUDGES, Condition, judge, meets, none_counted

MAX_READ = 20_000
"""Most partitions that one request reads: about 0.1 s of work."""
PLAIN_COST = 0.2
"""Cost of finding that a partition is plain, as a fraction of the cost of reading one."""
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
    """The filters of a request, and where its page begins."""

    limit: int
    conditions: tuple[Condition, ...] = ()
    """Conditions that a partition must all meet; a topic must have a partition for each."""
    topic: str | None = None
    """Only this topic."""
    contains: str = ""
    """Only topics whose name contains this."""
    broker: int | None = None
    """Only partitions that have a replica on this broker."""
    after: str | None = None
    """The cursor at which the page before ended."""


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A topic, with the number of its partitions that meet each condition."""

    name: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    deleting: bool
    min_isr: int | None
    unclean: bool | None
    conditions: dict[str, int | None]
    """Partitions that meet each condition, without conditions that none meets; None: for some it is not known."""


class PartitionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A partition, with the conditions that it meets."""

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
    """The min.insync.replicas in effect; None: it is not known."""
    conditions: list[Condition]
    """The conditions that it is known to meet."""
    unknown: list[Condition] = []
    """The conditions of which it is not known whether it meets them."""
    unreadable: bool = False
    """Its newest state, or its topic's newest assignment or configuration, cannot be parsed: the last
    good one is given, or nothing."""


class Page(NamedTuple):
    """The items found, and the cursor of the next page; None at the end."""

    items: list[Any]
    """`PartitionDetail` or `TopicSummary`."""
    next: str | None


def read_cursor(text: str) -> tuple[str, int]:
    """Return the topic and partition at which a page ended; raises ValueError for a text that is no cursor.

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
    facts = snapshot.facts()
    if none_counted(query.conditions, snapshot.view.counts):
        return Page([], None)
    begin = ("", -1) if query.after is None else read_cursor(query.after)
    topic, partition = begin
    items: list[PartitionDetail] = []
    read = 0.0
    for entry in _from(entries, topic, query):
        if read >= MAX_READ:
            return Page(items, f"{topic}/{partition}")
        view = entry.decode()
        if not view.partitions or (view.name, view.partitions[-1]) <= begin:
            continue
        if cannot_fit(view, facts, query):
            read += len(view.partitions) * PLAIN_COST
            topic, partition = view.name, view.partitions[-1]
            continue
        details = ChunkDetails(view, facts)
        for each in partitions_in(view):
            if (view.name, each.partition) <= begin:
                continue
            if len(items) == query.limit or read >= MAX_READ:
                return Page(items, f"{topic}/{partition}")
            read += 1
            topic, partition = each.topic, each.partition
            if fits(each, facts, query):
                items.append(details.of(each))
    return Page(items, None)


def topics_page(
    snapshot: ClusterSnapshot, entries: Sequence[TopicEntry], query: PartitionQuery
) -> Page:
    """Return a page of topics, each with the number of its partitions that meet each condition; `entries` as above."""
    facts = snapshot.facts()
    if none_counted(query.conditions, snapshot.view.counts):
        return Page([], None)
    last = query.after
    items: list[TopicSummary] = []
    read = 0.0
    for name, chunks in groupby(_from(entries, last or "", query), key=lambda e: e.name):
        if name == query.after:
            continue
        if len(items) == query.limit or read >= MAX_READ:
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
    """Yield the chunks of topics whose name fits the query, from this topic on."""
    first = query.topic if query.topic is not None and query.topic > topic else topic
    start = bisect_left(entries, first, key=lambda entry: entry.name)
    for entry in entries[start:]:
        if query.topic is not None and entry.name != query.topic:
            return
        if query.contains in entry.name:
            yield entry


def cannot_fit(view: TopicView, facts: ClusterFacts, query: PartitionQuery) -> bool:
    """Return whether no partition of a chunk can meet the conditions, without reading each partition.

    Most partitions of a cluster are plain: led by their preferred replica, with all replicas in sync.
    """
    if _OF_PLAIN.issuperset(query.conditions) or view.deleting or view.adding or view.removing:
        return False
    return is_plain(view, facts.live)


def is_plain(view: TopicView, live: Container[int]) -> bool:
    """Return whether each partition is led by its live preferred replica, with all replicas in sync."""
    return all(
        replicas and leader == replicas[0] and leader in live and len(isr or ()) == len(replicas)
        for leader, isr, replicas in zip(view.leader, view.isr, view.replicas, strict=True)
    )


def fits(partition: PartitionFacts, facts: ClusterFacts, query: PartitionQuery) -> bool:
    """Return whether a partition has a replica on the query's broker and meets all its conditions."""
    if query.broker is not None and query.broker not in partition.replicas:
        return False
    return all(meets(condition, partition, facts) for condition in query.conditions)


class ChunkDetails:
    """The details of the partitions of one chunk."""

    def __init__(self, view: TopicView, facts: ClusterFacts) -> None:
        self._facts = facts
        self._unreadable = frozenset(view.partitions if view.unreadable_parts else view.unreadable)
        columns = (view.leader_epoch, view.controller_epoch, view.partition_epoch)
        self._epochs = dict(zip(view.partitions, zip(*columns, strict=True), strict=True))

    def of(self, partition: PartitionFacts) -> PartitionDetail:
        """Return the details of a partition of the chunk."""
        leader_epoch, controller_epoch, partition_epoch = self._epochs[partition.partition]
        judged = judge(partition, self._facts)
        return PartitionDetail(
            topic=partition.topic,
            partition=partition.partition,
            leader=partition.leader,
            preferred=partition.preferred,
            replicas=partition.replicas,
            isr=None if partition.leader is None else partition.isr,
            adding=partition.adding,
            removing=partition.removing,
            leader_epoch=leader_epoch,
            controller_epoch=controller_epoch,
            partition_epoch=partition_epoch,
            min_isr=self._facts.min_isr_of(partition),
            conditions=[each for each, met in judged.items() if met],
            unknown=[each for each, met in judged.items() if met is None],
            unreadable=partition.partition in self._unreadable,
        )


def _topic(name: str, views: Sequence[TopicView], facts: ClusterFacts) -> TopicSummary:
    partitions = [partition for view in views for partition in partitions_in(view)]
    counts: Counter[Condition] = Counter()
    unknown: set[Condition] = set()
    for partition in partitions:
        judged = judge(partition, facts)
        counts.update(each for each, met in judged.items() if met)
        unknown.update(each for each, met in judged.items() if met is None)
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
