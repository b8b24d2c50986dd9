"""Work for requests that takes more than a moment: one piece at a time, beside the server's thread.

The rule: whatever clients ask, the thread that reads the topics keeps at least half of the
interpreter, and no more requests wait than can be answered soon; the others are asked to come again.
What was computed from the same facts is not computed again, and where a cluster changes faster
than it can be computed, the last answer stands, with its own `as_of`, for as long as work is due a
rest, unless somebody will wait for a newer one. No topics are kept alive for it: what is remembered of them is a number.
"""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from controller_model.insights.cluster_facts import ClusterFacts, cluster_facts
from controller_model.kafka.ids import AsOf
from exporter.core.records import ClusterSnapshot

T = TypeVar("T")

MOST_WAITING = 32
"""Requests that may wait: for 3 s at most where all ask for pages (0.1 s each), and for longer behind
a what-if of a very large cluster, which takes seconds."""
KEPT = 32
"""Results that are kept: the clusters and questions that somebody asks about right now."""
KEPT_FOR_S = 60.0
"""How long a result is kept that nobody asks for: an open page asks more often."""
REST = 4.0
"""Times what a result took that it stands although the cluster has changed: a fifth of a core."""


class Insight(NamedTuple):
    """A result, and what it was computed from."""

    as_of: AsOf
    result: Any


class _Kept(NamedTuple):
    topics_version: int
    facts: ClusterFacts
    insight: Insight
    stands_until_s: float
    asked_at_s: float


class Worker:
    """Runs functions over snapshots, and keeps what insights came out."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        # What is kept is read in the server's loop, and by the work that runs beside it.
        self._keeping = threading.Lock()

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
        *,
        fresh: bool = False,
    ) -> Insight:
        """Return what `compute` makes of a cluster, or, if not `fresh`, made of it of late."""
        facts = cluster_facts(snapshot.view, snapshot.brokers.values())
        key = (snapshot.name, question)
        held = self._held(key, snapshot, facts, fresh=fresh)
        if held is not None:
            return held

        def work() -> Insight:
            # Somebody who waited in front may have asked the same.
            held = self._held(key, snapshot, facts, fresh=fresh)
            return held or self._compute(key, snapshot, facts, compute)

        return await self.run(work)

    def _held(
        self, key: Hashable, snapshot: ClusterSnapshot, facts: ClusterFacts, *, fresh: bool
    ) -> Insight | None:
        """Return what is kept and stands; its `as_of` may be older than the snapshot."""
        now_s = self._clock_s()
        with self._keeping:
            self._drop_unasked(now_s)
            kept = self._kept.get(key)
            if kept is None or kept.insight.as_of.lineage != snapshot.view.as_of.lineage:
                return None
            insight = kept.insight
            if kept.topics_version == snapshot.topics_version and kept.facts == facts:
                insight = insight._replace(as_of=max(insight.as_of, snapshot.view.as_of))
            elif fresh or now_s >= kept.stands_until_s:
                return None
            self._keep(key, kept._replace(asked_at_s=now_s))
        return insight

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
        with self._keeping:
            self._keep(key, _Kept(snapshot.topics_version, facts, insight, until_s, ended_s))
        return insight

    def _keep(self, key: Hashable, kept: _Kept) -> None:
        self._kept[key] = kept
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def _drop_unasked(self, now_s: float) -> None:
        """Drop what nobody has asked for of late; the longest unasked stands in front."""
        while self._kept:
            key, kept = next(iter(self._kept.items()))
            if now_s < max(kept.asked_at_s + KEPT_FOR_S, kept.stands_until_s):
                return
            del self._kept[key]
