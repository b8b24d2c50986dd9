"""Work for requests: computed once from the same facts, one at a time, and bounded."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest
from starlette.exceptions import HTTPException

from controller_model.kafka.cluster_facts import ClusterFacts
from exporter.api.worker import KEPT, KEPT_FOR_S, MAX_WAITING, REST, Worker
from exporter.core.records import ClusterSnapshot
from exporter.intake.view_store import ViewStore
from tests.support.samples import as_of, broker_view, cluster_view, record, topic_view


class Clock:
    """A time that the test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


class Counted:
    """A computation that takes a second and counts how often it was done."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.times = 0

    def __call__(self, _snapshot: ClusterSnapshot, _facts: ClusterFacts) -> int:
        """Take a second."""
        self.clock.now_s += 1
        self.times += 1
        return self.times


def snapshots() -> list[ClusterSnapshot]:
    """Return a cluster; the same after a heartbeat; the same with another topic; a new lineage."""
    store = ViewStore()
    held = []
    for views in (
        (broker_view(0), broker_view(1), topic_view("t"), cluster_view()),
        (cluster_view(at=as_of(2)),),
        (topic_view("u", as_of(3)), cluster_view(at=as_of(3))),
        (cluster_view(at=as_of(1, lineage="L2")),),
    ):
        for view in views:
            store.apply(record(view))
        held.append(store.clusters["prod"])
    return held


def test_a_result_from_the_same_facts_is_computed_once() -> None:
    """A heartbeat changes no result: the cached one is then as of the new position."""
    clock = Clock()
    compute = Counted(clock)
    first, heartbeat, *_ = snapshots()

    async def story() -> None:
        worker = Worker(clock)
        assert (await worker.insight("q", first, compute)).as_of == as_of(1)
        clock.now_s += KEPT_FOR_S - 0.1
        again = await worker.insight("q", heartbeat, compute)
        assert (again.as_of, again.result) == (as_of(2), 1)
        assert (await worker.insight("another", heartbeat, compute)).result == 2

    asyncio.run(story())


def test_after_a_change_the_old_result_is_served_for_a_while_with_its_as_of() -> None:
    """It is served for REST times its computing time; then the result is computed again."""
    clock = Clock()
    compute = Counted(clock)
    first, _, changed, other_lineage = snapshots()

    async def story() -> None:
        worker = Worker(clock)
        await worker.insight("q", first, compute)
        clock.now_s += REST - 0.1
        assert (await worker.insight("q", changed, compute)).as_of == as_of(1)
        clock.now_s += 0.2
        assert (await worker.insight("q", changed, compute)).as_of == as_of(3)
        # A result of another lineage is never served.
        insight = await worker.insight("q", other_lineage, compute)
        assert insight.as_of == as_of(1, lineage="L2")

    asyncio.run(story())


def test_a_result_of_other_facts_is_not_taken_for_current() -> None:
    """A broker that ends changes no topic, but each what-if: the old result keeps its place in the log."""
    store, held = ViewStore(), []
    for seq, live in ((1, (0, 1)), (2, (0,))):
        store.apply(record(cluster_view(at=as_of(seq), brokers_live=live)))
        held.append(store.clusters["prod"])
    assert held[0].topics_version == held[1].topics_version
    clock = Clock()

    def compute(_snapshot: ClusterSnapshot, facts: ClusterFacts) -> bool:
        clock.now_s += 1
        return 1 in facts.live

    async def story() -> None:
        worker = Worker(clock)
        assert await worker.insight("q", held[0], compute) == (as_of(1), True)
        assert await worker.insight("q", held[1], compute) == (as_of(1), True), "for a while"
        assert await worker.insight("q", held[1], compute, fresh=True) == (as_of(2), False)

    asyncio.run(story())


def test_a_result_is_dropped_a_minute_after_the_last_request() -> None:
    """A result that is requested stays."""
    clock = Clock()
    compute = Counted(clock)
    first, *_ = snapshots()

    async def story() -> None:
        worker = Worker(clock)
        await worker.insight("old", first, compute)
        await worker.insight("looked at", first, compute)
        for _ in range(4):
            clock.now_s += KEPT_FOR_S / 2
            assert (await worker.insight("looked at", first, compute)).result == 2
        assert len(worker._kept) == 1
        assert (await worker.insight("old", first, compute)).result == 3

    asyncio.run(story())


def test_a_result_keeps_no_topics_alive() -> None:
    """It keeps the version number of its topics only, so that old topics can be freed."""
    clock = Clock()
    first, *_ = snapshots()
    before = sys.getrefcount(first.topics)

    async def story() -> None:
        worker = Worker(clock)
        await worker.insight("q", first, Counted(clock))
        assert len(worker._kept) == 1
        after = sys.getrefcount(first.topics)
        assert after == before

    asyncio.run(story())


def test_the_number_of_cached_results_is_bounded() -> None:
    """The oldest results are dropped, and computed again at the next request."""
    clock = Clock()
    compute = Counted(clock)
    first, *_ = snapshots()

    async def story() -> None:
        worker = Worker(clock)
        for question in range(KEPT + 1):
            await worker.insight(question, first, compute)
        await worker.insight(KEPT, first, compute)
        assert compute.times == KEPT + 1
        await worker.insight(0, first, compute)
        assert compute.times == KEPT + 2

    asyncio.run(story())


def test_too_many_waiting_requests_get_503_with_retry_after() -> None:
    """While one runs and others wait, the next gets 503 with Retry-After; no two run at the same time."""
    go_on = threading.Event()
    at_work: list[int] = []

    def work() -> None:
        at_work.append(1)
        assert go_on.wait(10)
        assert len(at_work) == 1
        at_work.pop()

    async def story() -> None:
        worker = Worker()
        waiting = [asyncio.create_task(worker.run(work)) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(HTTPException) as refused:
            await worker.run(work)
        assert refused.value.status_code == 503
        assert refused.value.headers == {"retry-after": "1"}
        go_on.set()
        await asyncio.gather(*waiting)
        assert at_work == []

    asyncio.run(story())
