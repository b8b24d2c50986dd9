"""Run the long work of requests in a thread next to the server's, one piece at a time, and keep its results.

The rule: whatever clients ask, the reading thread keeps at least half of the interpreter, and no more
requests wait than can be answered soon; the others are refused with 503. A result is not computed again
from the same facts. Where a cluster changes faster than a result can be computed, the last result is
served, with its own `as_of`, until `REST` times its computing time has passed, except to a client that
asks for a fresh one. A kept result keeps no topics in memory, only their version number.
"""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from controller_model.kafka.cluster_facts import ClusterFacts
from controller_model.kafka.ids import AsOf
from exporter.core.records import ClusterSnapshot

T = TypeVar("T")
Compute = Callable[[ClusterSnapshot, ClusterFacts], Any]

MAX_WAITING = 32
"""Most requests that wait: for 3 s at most where all ask for pages (0.1 s each), and for longer behind
a what-if of a very large cluster, which takes seconds."""
KEPT = 32
"""Most results kept, for the clusters and questions that clients ask about now."""
KEPT_FOR_S = 60.0
"""How long a result is kept that no client asks for: an open page asks more often."""
REST = 4.0
"""For how many times its computing time a result is served although the cluster has changed: so computing takes
at most a fifth of a core."""


class Insight(NamedTuple):
    """A result, and the change of the log up to which it holds."""

    as_of: AsOf
    result: Any


class _Kept(NamedTuple):
    topics_version: int
    facts: ClusterFacts
    insight: Insight
    stands_until_s: float
    asked_at_s: float


class Worker:
    """Runs functions over snapshots one at a time, and keeps their results."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        # Kept results are read both by the server's event loop and by the thread that works.
        self._keeping = threading.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Return what the work returns; raises HTTPException 503 when too many requests wait."""
        if self._waiting >= MAX_WAITING:
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
        compute: Compute,
        *,
        fresh: bool = False,
    ) -> Insight:
        """Return the result of `compute` for a cluster; unless `fresh`, it may be a recent one that is kept."""
        facts = snapshot.facts()
        key = (snapshot.name, question)
        held = self._held(key, snapshot, facts, fresh=fresh)
        if held is not None:
            return held

        def work() -> Insight:
            # A request that waited before this one may have asked the same.
            held = self._held(key, snapshot, facts, fresh=fresh)
            return held or self._compute(key, snapshot, facts, compute)

        return await self.run(work)

    def _held(
        self, key: Hashable, snapshot: ClusterSnapshot, facts: ClusterFacts, *, fresh: bool
    ) -> Insight | None:
        """Return the kept result if it may still be served; its `as_of` may be older than the snapshot."""
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
        self, key: Hashable, snapshot: ClusterSnapshot, facts: ClusterFacts, compute: Compute
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
        """Drop the results that nobody has asked for recently; the one unasked for longest is first."""
        while self._kept:
            key, kept = next(iter(self._kept.items()))
            if now_s < max(kept.asked_at_s + KEPT_FOR_S, kept.stands_until_s):
                return
            del self._kept[key]
