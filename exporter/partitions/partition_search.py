"""Search all partitions of a cluster: how many fit, and a page of them.

One search reads every partition that may fit, so its count is exact, and a client needs no next page to
learn that nothing fits. What a topic's name or a whole chunk already decides is not read partition by partition.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from controller_model.kafka.cluster_facts import ClusterFacts
from controller_model.records.view_facts import partitions_in
from controller_model.records.views import TopicView
from exporter.core.records import ClusterSnapshot, TopicEntry
from exporter.partitions.conditions import none_counted
from exporter.partitions.partition_pages import (
    ChunkDetails,
    Page,
    PartitionQuery,
    cannot_fit,
    fits,
    read_cursor,
)


class Found(NamedTuple):
    """A page of the partitions found, and how many fit in all."""

    page: Page
    matched: int


Numbers = Callable[[int], bool]
"""Whether a text means the partition of this number."""


def numbers_meant(name: str, text: str) -> Numbers | None:
    """Return which partitions of a topic a text means; None: none of them.

    It means all partitions of a topic whose name contains it, and each partition whose full name (`topic-number`)
    contains it across the last dash. Case is ignored.

    >>> numbers_meant("Orders", "rder")(7)
    True
    >>> meant = numbers_meant("orders", "orders-1")
    >>> [number for number in (0, 1, 2, 12) if meant(number)]
    [1, 12]
    >>> numbers_meant("orders", "payments") is None
    True
    """
    name, text = name.lower(), text.lower()
    if text in name:
        return lambda _: True
    topic, dash, digits = text.rpartition("-")
    if dash and name.endswith(topic) and (digits.isdigit() or not digits):
        return lambda number: str(number).startswith(digits)
    return None


def search(
    snapshot: ClusterSnapshot, entries: Sequence[TopicEntry], query: PartitionQuery
) -> Found:
    """Return the partitions that fit after `query.after`, and how many fit; `entries` are all chunks in order."""
    if none_counted(query.conditions, snapshot.view.counts):
        return Found(Page([], None), 0)
    facts = snapshot.facts()
    begin = ("", -1) if query.after is None else read_cursor(query.after)
    page, last, matched = Page([], None), begin, 0
    for entry in entries:
        meant = numbers_meant(entry.name, query.contains)
        if meant is None:
            continue
        view = entry.decode()
        fitting = _fitting(view, meant, facts, query)
        matched += len(fitting)
        ahead = [number for number in fitting if (view.name, number) > begin]
        listed = ahead[: query.limit - len(page.items)]
        if listed:
            details, wanted = ChunkDetails(view, facts), frozenset(listed)
            page.items.extend(
                details.of(each) for each in partitions_in(view) if each.partition in wanted
            )
            last = view.name, listed[-1]
        if page.next is None and len(listed) < len(ahead):
            topic, partition = last
            page = page._replace(next=f"{topic}/{partition}")
    return Found(page, matched)


def _fitting(
    view: TopicView, meant: Numbers, facts: ClusterFacts, query: PartitionQuery
) -> list[int]:
    """Return the partitions of a chunk that fit, in order; the columns are read before the partitions."""
    broker = query.broker
    named = [
        number
        for number, replicas in zip(view.partitions, view.replicas, strict=True)
        if (broker is None or broker in replicas) and meant(number)
    ]
    if not named or not query.conditions:
        return named
    if cannot_fit(view, facts, query):
        return []
    asked = frozenset(named)
    return [
        each.partition
        for each in partitions_in(view)
        if each.partition in asked and fits(each, facts, query)
    ]
