"""The answers of /api/v1, by the table of operations.

The rule: every answer about a cluster says up to which change it holds (`as_of`) and how far it
can be trusted (`completeness`), and can be asked about again by its ETag unless it is older than
what is shown. What takes more than a moment is work for the `Worker`; what grows with a cluster
comes in pages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from controller_model.insights.cluster_facts import ClusterFacts
from controller_model.insights.flapping import FLAPPING_TIMES
from controller_model.insights.writes_due import health_of
from controller_model.kafka.ids import AsOf
from controller_model.records.event_records import decode_event
from exporter.api import cluster_answers
from exporter.api.account_answers import incidents_of, triggered_answer
from exporter.api.activity_answers import (
    DEFAULT_WINDOW_S,
    FlappingInsight,
    fields_of,
    flapping_in,
    writes_due_in,
)
from exporter.api.answers import (
    Answer,
    Brokers,
    Clusters,
    Events,
    Flapping,
    FlappingPartition,
    Incidents,
    Partitions,
    Recommendations,
    Root,
    Topics,
    WhatIf,
    WriteDue,
    WritesDueAnswer,
)
from exporter.api.insight_answers import (
    blocked_answer,
    broker_elections,
    chunks_page,
    command_of,
    loss_of,
    loss_of_each_broker,
    loss_of_each_pair,
    loss_of_each_rack,
    next_check_answer,
    read_chunk_cursor,
    rebalance_of,
    recommendation_of,
    safe_to_stop,
)
from exporter.api.newest_events import NewestEventsOfClusters
from exporter.api.openapi import document
from exporter.api.operations import OPERATIONS, ROOT, Operation
from exporter.api.responses import Aged, etag_response, wants_fresh
from exporter.api.worker import Worker
from exporter.core.parameters import Query, refuse, whole_number
from exporter.core.records import ClusterSnapshot, TopicEntry
from exporter.core.status import ReadingStatus
from exporter.intake.event_store import EventStore
from exporter.partitions.conditions import Condition
from exporter.partitions.partition_pages import (
    Page,
    PartitionQuery,
    partitions_page,
    read_cursor,
    topics_page,
)
from exporter.scrape.collector import Collector

Handler = Callable[[Request], Awaitable[Response]]
Json = dict[str, Any]
A = TypeVar("A", bound=Answer)
C = TypeVar("C")

_EVENT = "the id of an event"
"""What an events page begins at."""

_WINDOWS_END_EVERY_MS = 10_000
"""How far a window's end moves at once: until then all who ask share one answer."""

PageOf = Callable[[ClusterSnapshot, Sequence[TopicEntry], PartitionQuery], Page]


class Facts(Protocol):
    """What the server asks of the reader."""

    collector: Collector

    @property
    def status(self) -> ReadingStatus:
        """Where the reading is."""

    @property
    def alive(self) -> bool:
        """Whether the reading thread runs."""


class ApiPages:
    """The handlers of the operations, over what the reader holds."""

    def __init__(
        self, reader: Facts, events: EventStore, worker: Worker, *, clock: Callable[[], int]
    ) -> None:
        self._reader = reader
        self._events = events
        self._clock = clock
        self._worker = worker
        # A cluster's state must be answered while a what-if is computed: a queue of its own.
        self._short_work = Worker()
        self._newest = NewestEventsOfClusters(events)
        self._ordered: dict[str, tuple[int, list[str]]] = {}

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        return {operation.path: self._handler(operation) for operation in OPERATIONS}

    def _handler(self, operation: Operation) -> Handler:
        answer: Callable[[Request, Query], Awaitable[object]] = getattr(self, operation.handler)

        async def handle(request: Request) -> Response:
            query = Query(request, operation.parameters)
            return etag_response(request, await answer(request, query))

        return handle

    async def root(self, _request: Request, _query: Query) -> Root:
        """Return where to begin."""
        # Relative to its own address, which a prefix may stand before.
        here = ROOT.rpartition("/")[2]
        return Root(openapi=f"{here}/openapi.json", clusters=f"{here}/clusters")

    async def document(self, _request: Request, _query: Query) -> Json:
        """Serve the OpenAPI document."""
        return document()

    async def clusters(self, _request: Request, query: Query) -> Clusters:
        """List the clusters with their main figures."""
        now = self._clock()
        collector = self._reader.collector
        held = [rendered.snapshot for rendered in collector.clusters.values()]
        shown, next_ = _page(held, query, lambda snapshot: snapshot.name, query.text("after") or "")
        summaries = [cluster_answers.summary(s, collector.completeness(s, now)) for s in shown]
        return Clusters(clusters=summaries, next=None if next_ is None else next_.name)

    async def cluster(self, request: Request, _query: Query) -> Json:
        """Return all about a cluster."""
        snapshot = self._snapshot(request)
        collector = self._reader.collector
        events = await self._short_work.run(lambda: self._newest.of(snapshot, collector.clusters))
        return cluster_answers.detail(
            snapshot, collector.completeness(snapshot, self._clock()), events
        )

    async def brokers(self, request: Request, query: Query) -> Brokers:
        """List the brokers."""
        snapshot = self._snapshot(request)
        after = _cursor(query, "after", whole_number)
        shown, next_ = _page(
            list(snapshot.brokers.values()), query, lambda b: b.id, -1 if after is None else after
        )
        brokers = [
            cluster_answers.broker_answer(b) | {"safe_to_stop": safe_to_stop(b)} for b in shown
        ]
        next_id = None if next_ is None else str(next_.id)
        return Brokers(**self._about(snapshot), brokers=brokers, next=next_id)

    async def topics(self, request: Request, query: Query) -> Topics:
        """List topics."""
        wanted = PartitionQuery(
            limit=query.limit,
            conditions=tuple(map(Condition, query.texts("filter"))),
            contains=query.text("contains") or "",
            after=query.text("after"),
        )
        snapshot, page = await self._page(request, topics_page, wanted)
        return Topics(**self._about(snapshot), topics=page.items, next=page.next)

    async def partitions(self, request: Request, query: Query) -> Partitions:
        """List partitions."""
        wanted = PartitionQuery(
            limit=query.limit,
            conditions=tuple(map(Condition, query.texts("filter"))),
            topic=query.text("topic"),
            contains=query.text("contains") or "",
            broker=query.whole("broker"),
            after=query.text("after"),
        )
        _cursor(query, "after", read_cursor)
        snapshot, page = await self._page(request, partitions_page, wanted)
        return Partitions(**self._about(snapshot), partitions=page.items, next=page.next)

    async def events(self, request: Request, query: Query) -> Events:
        """List events."""
        snapshot = self._snapshot(request)
        before = _cursor(query, "before", cluster_answers.read_event_id, _EVENT)
        after = _cursor(query, "after", cluster_answers.read_event_id, _EVENT)
        if before is not None and after is not None:
            raise refuse("after", "give `before` or `after`, not both")

        def search() -> Events:
            page = self._events.search(
                snapshot.name,
                up_to=snapshot.view.as_of,
                most=query.limit,
                kinds=query.texts("kind"),
                since=query.time("since"),
                before=before,
                after=after,
            )
            return Events(
                **self._about(snapshot),
                events=[cluster_answers.event(decode_event(value)) for value in page.values],
                older=None if page.older is None else cluster_answers.event_id(page.older),
                newer=None if page.newer is None else cluster_answers.event_id(page.newer),
                held_from=self._events.held_from(snapshot.name),
            )

        return await self._worker.run(search)

    async def incidents(self, request: Request, query: Query) -> Incidents:
        """List the incidents."""
        snapshot = self._snapshot(request)
        view = snapshot.incidents
        incidents = incidents_of(view, state=query.text("state"))
        return Incidents(
            **self._about(snapshot),
            total=0 if view is None else view.total,
            incidents=incidents[: query.limit],
        )

    async def recommendations(self, request: Request, query: Query) -> Recommendations | Aged:
        """Return which preferred elections to run."""
        snapshot = self._snapshot(request)
        broker = query.whole("broker")
        _check_brokers("broker", [] if broker is None else [broker], snapshot)
        after, digest = _cursor(query, "after", read_chunk_cursor) or (0, None)
        fresh = wants_fresh(request)
        found = await self._worker.insight(
            ("recommendation", broker),
            snapshot,
            lambda s, f: recommendation_of(s, f, broker),
            fresh=fresh,
        )
        if digest not in {None, found.result.digest}:
            why = "the recommendation has become another one since that page"
            raise HTTPException(409, f"parameter 'after': {why}; begin again without it")
        threshold = snapshot.view.rebalance.threshold_percentage
        check = await self._worker.insight(
            ("rebalance", threshold), snapshot, rebalance_of, fresh=fresh
        )
        as_of = min(found.as_of, check.as_of)
        recommendation = found.result.recommendation
        page = chunks_page(found.result, after=after, limit=query.limit)
        answer = Recommendations(
            **self._about(snapshot, as_of),
            broker=broker,
            imbalance_before=recommendation.imbalance_before,
            imbalance_after=recommendation.imbalance_after,
            partition_count=sum(len(chunk.partitions) for chunk in recommendation.chunks),
            chunk_count=len(recommendation.chunks),
            chunks=page.chunks,
            next=page.next,
            brokers=broker_elections(recommendation),
            blocked=blocked_answer(recommendation.blocked),
            command=command_of(snapshot.brokers.values()),
            next_rebalance=next_check_answer(
                check.result, elected_at=snapshot.view.controller.elected_at, now=self._clock()
            ),
            triggered=triggered_answer(snapshot.recommendation),
        )
        return self._as_of(snapshot, as_of, answer)

    async def what_if(self, request: Request, query: Query) -> WhatIf | Aged:
        """Return what would break."""
        snapshot = self._snapshot(request)
        brokers, racks = query.wholes("lose_broker"), query.texts("lose_rack")
        each = query.text("each")
        if bool(brokers or racks) == bool(each):
            raise refuse("lose_broker", "say what is lost: `lose_broker`, `lose_rack`, or `each`")
        _check_brokers("lose_broker", brokers, snapshot)
        _check_racks(racks, snapshot)
        fresh = wants_fresh(request)
        if each is not None:
            found = await self._worker.insight(
                ("each", each), snapshot, _LOSS_OF_EACH[each], fresh=fresh
            )
            losses, pair_count = found.result
        else:
            lost = frozenset(brokers) | {b.id for b in snapshot.brokers.values() if b.rack in racks}
            found = await self._worker.insight(
                ("lose", lost), snapshot, lambda s, f: loss_of(s, f, lost), fresh=fresh
            )
            loss = msgspec.structs.replace(found.result, racks=sorted(set(racks)))
            losses, pair_count = [loss], None
        about = self._about(snapshot, found.as_of)
        answer = WhatIf(**about, losses=losses, pair_count=pair_count)
        return self._as_of(snapshot, found.as_of, answer)

    async def flapping(self, request: Request, query: Query) -> Flapping | Aged:
        """Return what changed again and again within a window."""
        snapshot = self._snapshot(request)
        window_s = query.whole("window_s") or DEFAULT_WINDOW_S
        now = self._clock()

        def compute(snapshot: ClusterSnapshot, _facts: ClusterFacts) -> FlappingInsight:
            return flapping_in(
                self._events,
                snapshot.name,
                up_to=snapshot.view.as_of,
                now=now,
                window_s=window_s,
            )

        # Each shrink of an ISR changes the topics; elections and the window's end are asked for too.
        elections = snapshot.view.controller.elections
        question = ("flapping", window_s, elections, now // _WINDOWS_END_EVERY_MS)
        found = await self._worker.insight(question, snapshot, compute, fresh=wants_fresh(request))
        isr, controller, held_from = found.result
        answer = Flapping(
            **self._about(snapshot, found.as_of),
            since=isr.since,
            until=isr.until,
            held_from=held_from,
            times=FLAPPING_TIMES,
            partition_count=len(isr.partitions),
            partitions=[
                FlappingPartition(**fields_of(each)) for each in isr.partitions[: query.limit]
            ],
            blames=isr.blames,
            unexplained=isr.unexplained,
            controller_flaps=controller.flapping,
            controller_elections=controller.elections,
            controller_changes=controller.id_changes,
        )
        return self._as_of(snapshot, found.as_of, answer)

    async def writes_due(self, request: Request, query: Query) -> WritesDueAnswer | Aged:
        """Return the writes that the controller owes now."""
        snapshot = self._snapshot(request)
        found = await self._worker.insight(
            "writes due", snapshot, writes_due_in, fresh=wants_fresh(request)
        )
        about = self._about(snapshot, found.as_of)
        due = snapshot.view.writes_due
        answer = WritesDueAnswer(
            **about,
            health=health_of(snapshot.view, about["completeness"].status),
            owed_since=due.owed_since,
            counts=due.counts,
            partition_count=len(found.result),
            writes=[WriteDue(**fields_of(each)) for each in found.result[: query.limit]],
        )
        return self._as_of(snapshot, found.as_of, answer)

    async def _page(
        self, request: Request, page_of: PageOf, query: PartitionQuery
    ) -> tuple[ClusterSnapshot, Page]:
        snapshot = self._snapshot(request)
        page = await self._worker.run(lambda: page_of(snapshot, self._entries(snapshot), query))
        return snapshot, page

    def _entries(self, snapshot: ClusterSnapshot) -> list[TopicEntry]:
        """Return the chunks of topics in order, sorted again only when they are others."""
        topics = snapshot.topics
        known = self._ordered.get(snapshot.name)
        if known is None or known[0] != snapshot.topics_version:
            # Their keys are remembered and not the topics, which would be kept alive by it.
            keys = sorted(topics, key=lambda key: (topics[key].name, topics[key].chunk))
            known = (snapshot.topics_version, keys)
            held = self._reader.collector.clusters
            self._ordered = {n: old for n, old in self._ordered.items() if n in held}
            self._ordered[snapshot.name] = known
        return [topics[key] for key in known[1]]

    def _as_of(self, snapshot: ClusterSnapshot, as_of: AsOf, answer: A) -> A | Aged:
        """Return an answer that holds for this place in the log: aged if more is shown."""
        held = self._reader.collector.clusters.get(snapshot.name)
        is_newest = held is not None and held.snapshot.view.as_of <= as_of
        return answer if is_newest else Aged(answer)

    def _about(self, snapshot: ClusterSnapshot, as_of: AsOf | None = None) -> Json:
        """Return the fields of `AboutCluster`."""
        return {
            "name": snapshot.name,
            "as_of": cluster_answers.place(as_of or snapshot.view.as_of),
            "completeness": self._reader.collector.completeness(snapshot, self._clock()),
        }

    def _snapshot(self, request: Request) -> ClusterSnapshot:
        name = request.path_params["name"]
        held = self._reader.collector.clusters
        if name not in held:
            known = ", ".join(held) or "none yet"
            raise HTTPException(404, f"no cluster is called {name!r}; known: {known}")
        return held[name].snapshot


def _page(
    things: Sequence[Any], query: Query, key: Callable[[Any], Any], after: Any
) -> tuple[Sequence[Any], Any]:
    """Return the things after this key, at most `limit`, and the last if there are more."""
    left = [thing for thing in things if key(thing) > after]
    shown = left[: query.limit]
    return shown, shown[-1] if len(left) > len(shown) else None


_LOSS_OF_EACH = {
    "broker": loss_of_each_broker,
    "pair": loss_of_each_pair,
    "rack": loss_of_each_rack,
}


def _cursor(
    query: Query, name: str, read: Callable[[str], C], what: str = "the `next` of a page"
) -> C | None:
    """Return a parameter as `read` takes it, None when it was not given; refuse what it cannot read."""
    text = query.text(name)
    try:
        return None if text is None else read(text)
    except ValueError:
        raise refuse(name, f"{text!r} is not {what}") from None


def _check_brokers(name: str, brokers: Sequence[int], snapshot: ClusterSnapshot) -> None:
    for broker in brokers:
        if broker not in snapshot.brokers:
            known = ", ".join(map(str, snapshot.brokers)) or "none"
            raise refuse(name, f"no broker {broker} is known; known: {known}")


def _check_racks(racks: Sequence[str], snapshot: ClusterSnapshot) -> None:
    known = sorted({b.rack for b in snapshot.brokers.values() if b.rack is not None})
    for rack in racks:
        if rack not in known:
            raise refuse(
                "lose_rack", f"no broker is in rack {rack!r}; known: {', '.join(known) or 'none'}"
            )
