"""Find the worst topics of each cluster for the dashboards: those with partitions offline, under min ISR, under-replicated.

At most `MAX_TOPICS` for each cluster, so that the series stay few, and no other figure is delayed. A
separate thread reads the partitions of the topics that changed, only while the cluster's totals are not zero, and
pauses in proportion to how long a search took. So these figures may be older than the others, and carry their own
time. The thread also counts the partitions that have all their replicas in one rack.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from heapq import nsmallest
from itertools import groupby
from typing import NamedTuple, Self

from controller_model.insight.racks import has_racks_to_spread_over, in_one_rack
from controller_model.insight.unseen import unseen
from controller_model.kafka.cluster_facts import ClusterFacts
from controller_model.metrics.metric import TopicTrouble, WorstTopics
from controller_model.records.view_facts import partitions_in
from controller_model.records.visibility import LEADERS
from exporter.core.records import ClusterSnapshot, TopicEntry
from exporter.partitions.conditions import is_under_replicated
from exporter.partitions.partition_pages import is_plain
from pipeline.runtime import get_logger

MAX_TOPICS = 20
"""Most topics of a cluster: each has three series; the API's pages list the others."""

SEARCH_INTERVAL_S = 2.0
REST = 19
"""Pause after a search, as a multiple of the processor time that it took: so it takes at most a twentieth of a core."""

_NOTHING = WorstTopics()


class _Judged(NamedTuple):
    """The trouble found in a topic, and the chunks that were read for it."""

    chunks: tuple[TopicEntry, ...]
    trouble: TopicTrouble
    led_short: Counter[int]
    """The number of its under-replicated partitions, by their leaders."""


class OneRackCount:
    """The count of one cluster's partitions in one rack; entries that have not changed are not read again.

    A rack is a property of brokers, so a topic's own counts cannot hold this (`contribution`).
    """

    def __init__(self) -> None:
        self._racks: Mapping[int, str | None] = {}
        self._counted: dict[str, tuple[TopicEntry, int]] = {}
        """By view key: the entry that was read, and how many of its partitions are in one rack."""

    def of(self, snapshot: ClusterSnapshot) -> int | None:
        """Return the count; None where the watcher is denied znodes that the count needs."""
        if unseen(snapshot.view, LEADERS):
            return None
        facts = snapshot.facts()
        if not has_racks_to_spread_over(facts):
            return 0
        known = self._counted if facts.racks == self._racks else {}
        counted = {}
        for key, entry in snapshot.topics.items():
            before, count = known.get(key, (None, 0))
            if before is not entry:
                topic = entry.decode()
                together = (in_one_rack(each, facts.racks) for each in topic.replicas)
                count = 0 if topic.deleting else sum(together)
            counted[key] = (entry, count)
        self._racks, self._counted = facts.racks, counted
        return sum(count for _, count in counted.values())


class WorstTopicsSearch:
    """The search of one cluster: topics that have not changed since the last one are not read again."""

    def __init__(self) -> None:
        self._snapshot: ClusterSnapshot | None = None
        self._found = _NOTHING
        self._facts: ClusterFacts | None = None
        self._judged: dict[str, _Judged] = {}
        self._one_rack = OneRackCount()

    def of(self, snapshot: ClusterSnapshot, at: int) -> WorstTopics:
        """Return the worst topics, the worst first: by partitions offline, then under min ISR, then under-replicated."""
        if snapshot is not self._snapshot:
            self._found = self._search(snapshot)
            self._snapshot = snapshot
        return self._found._replace(at=at)

    def _search(self, snapshot: ClusterSnapshot) -> WorstTopics:
        view = snapshot.view
        counts = view.counts
        if unseen(view, LEADERS):
            return WorstTopics()
        if counts.offline or counts.under_min_isr or counts.under_replicated:
            self._read(snapshot)
        else:
            self._judged = {}
        led: Counter[int] = Counter()
        for judged in self._judged.values():
            led.update(judged.led_short)
        found = [each.trouble for each in self._judged.values() if any(each.trouble[1:])]
        return WorstTopics(
            topics=tuple(
                nsmallest(
                    MAX_TOPICS,
                    found,
                    key=lambda each: (
                        -each.offline,
                        -(each.under_min_isr or 0),
                        -each.under_replicated,
                        each.topic,
                    ),
                )
            ),
            led_short=tuple((broker, led[broker]) for broker in sorted(view.brokers_live or ())),
            one_rack=self._one_rack.of(snapshot),
        )

    def _read(self, snapshot: ClusterSnapshot) -> None:
        facts = snapshot.facts()
        known = self._judged if facts == self._facts else {}
        entries = sorted(snapshot.topics.values(), key=lambda entry: (entry.name, entry.chunk))
        judged = {}
        for name, group in groupby(entries, key=lambda entry: entry.name):
            chunks = tuple(group)
            before = known.get(name)
            if before is None or before.chunks != chunks:
                before = _judge(name, chunks, facts)
            judged[name] = before
        self._facts, self._judged = facts, judged


def _judge(name: str, chunks: tuple[TopicEntry, ...], facts: ClusterFacts) -> _Judged:
    topics = (chunk.decode() for chunk in chunks)
    not_plain = (topic for topic in topics if not is_plain(topic, facts.live))
    troubled = [partition for topic in not_plain for partition in partitions_in(topic)]
    under_min_isr = [facts.is_under_min_isr(each) for each in troubled]
    behind = [each for each in troubled if is_under_replicated(each)]
    trouble = TopicTrouble(
        name,
        offline=sum(facts.is_offline(each) is True for each in troubled),
        under_min_isr=None if None in under_min_isr else sum(map(bool, under_min_isr)),
        under_replicated=len(behind),
    )
    return _Judged(chunks, trouble, Counter(each.written_leader for each in behind))


class WorstTopicsStore:
    """The results of the last search by cluster: replaced, never changed, so any thread may read them."""

    def __init__(self) -> None:
        self._found: Mapping[str, WorstTopics] = {}
        self._searches: dict[str, WorstTopicsSearch] = {}

    def of(self, cluster: str) -> WorstTopics:
        """Return the worst topics of a cluster; empty before the first search."""
        return self._found.get(cluster, _NOTHING)

    def update(self, snapshots: Mapping[str, ClusterSnapshot], now: int) -> None:
        """Search the clusters that changed; forget those that are no longer shown."""
        self._searches = {name: self._searches.get(name, WorstTopicsSearch()) for name in snapshots}
        self._found = {name: self._searches[name].of(each, now) for name, each in snapshots.items()}


class WorstTopicsThread:
    """A thread that searches for as long as its context is open."""

    def __init__(
        self,
        store: WorstTopicsStore,
        snapshots: Callable[[], Mapping[str, ClusterSnapshot]],
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._snapshots = snapshots
        self._clock = clock
        self._is_failing = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="worst-topics", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def __enter__(self) -> Self:
        """Begin to search."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread, after the search that is under way."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        rest_s = 0.0
        try:
            while not self._stop.wait(max(rest_s, SEARCH_INTERVAL_S)):
                began = time.thread_time()
                self._search()
                rest_s = REST * (time.thread_time() - began)
        finally:  # nothing is known without the thread
            self._store.update({}, self._clock())

    def _search(self) -> None:
        """Search; log an unexpected exception once, and show no results until a search succeeds."""
        try:
            self._store.update(self._snapshots(), self._clock())
        except Exception:  # noqa: BLE001  # an exception on one state must not end all searches
            self._store.update({}, self._clock())
            if not self._is_failing:
                get_logger("exporter").exception("the worst topics could not be searched for")
            self._is_failing = True
        else:
            self._is_failing = False
