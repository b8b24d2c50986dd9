"""Work for requests that takes more than a moment: one piece at a time, beside the server's thread.

The rule: whatever clients ask, the thread that reads the topics keeps at least half of the
interpreter, and no more requests wait than can be answered soon; the others are told to come again.
What was computed from the same facts is not computed again, and where a cluster changes faster
than it can be computed, the last answer stands, with its own `as_of`, for as long as work is due a
rest.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from controller_model.ids import AsOf
from controller_model.insights import ClusterFacts, cluster_facts
from exporter.records import ClusterSnapshot, TopicEntry

T = TypeVar("T")

MOST_WAITING = 32
"""Requests that may wait: at the 0.1 s that a page of partitions takes at most, 3 s for the last."""
KEPT = 32
"""Results that are kept: the clusters and questions that somebody looks at right now."""
REST = 4.0
"""Times what a result took that it stands although the cluster has changed: a fifth of a core."""


class Insight(NamedTuple):
    """A result, and what it was computed from."""

    as_of: AsOf
    result: Any


class _Kept(NamedTuple):
    topics: object
    facts: ClusterFacts
    insight: Insight
    stands_until_s: float


class Worker:
    """Runs functions over snapshots, and keeps what insights came out."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    async def run(self, work: Callable[[], T]) -> T:
        """Return what the work returns; raises HTTPException 503 when too many wait."""
        if self._waiting >= MOST_WAITING:
            raise HTTPException(
                503, "too many requests wait for their turn", headers={"retry-after": "1"}
            )
        self._waiting += 1
        try:
            async with self._lock:
                return await run_in_threadpool(work)
        finally:
            self._waiting -= 1

    async def insight(
        self,
        question: Hashable,
        snapshot: ClusterSnapshot,
        compute: Callable[[ClusterSnapshot, ClusterFacts], Any],
    ) -> Insight:
        """Return what `compute` makes of a cluster, or made of it a short while ago."""
        facts = cluster_facts(snapshot.view, snapshot.brokers.values())
        key = (snapshot.name, question)
        held = self._held(key, snapshot, facts)
        if held is not None:
            return held

        def work() -> Insight:
            # Somebody who waited in front may have asked the same.
            held = self._held(key, snapshot, facts)
            return held or self._compute(key, snapshot, facts, compute)

        return await self.run(work)

    def _held(
        self, key: Hashable, snapshot: ClusterSnapshot, facts: ClusterFacts
    ) -> Insight | None:
        kept = self._kept.get(key)
        if kept is None or kept.insight.as_of.lineage != snapshot.view.as_of.lineage:
            return None
        if kept.topics is snapshot.topics and kept.facts == facts:
            return kept.insight._replace(as_of=max(kept.insight.as_of, snapshot.view.as_of))
        return kept.insight if self._clock_s() < kept.stands_until_s else None

    def _compute(
        self,
        key: Hashable,
        snapshot: ClusterSnapshot,
        facts: ClusterFacts,
        compute: Callable[[ClusterSnapshot, ClusterFacts], Any],
    ) -> Insight:
        began_s = self._clock_s()
        insight = Insight(snapshot.view.as_of, compute(snapshot, facts))
        ended_s = self._clock_s()
        until_s = ended_s + REST * (ended_s - began_s)
        self._kept[key] = _Kept(snapshot.topics, facts, insight, until_s)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return insight


def entries_in_order(snapshot: ClusterSnapshot) -> list[TopicEntry]:
    """Return all chunks of all topics, by name and chunk."""
    return sorted(snapshot.topics.values(), key=lambda entry: (entry.name, entry.chunk))
