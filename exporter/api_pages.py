"""The answers of /api/v1, by the table of operations.

The rule: every answer about a cluster says up to which change it holds (`as_of`) and how far it
can be trusted (`completeness`), and can be asked about again by its ETag. What takes more than a
moment is work for the `Worker`; what grows with a cluster comes in pages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from controller_model.events import EventId
from controller_model.ids import AsOf
from exporter import api
from exporter.account_answers import incidents_answer, triggered_answer
from exporter.collector import Collector
from exporter.conditions import Condition
from exporter.event_store import EventStore
from exporter.insight_answers import (
    command_of,
    loss_of,
    loss_of_each_broker,
    loss_of_each_rack,
    rebalance_answer,
    rebalance_of,
    recommendation_answer,
    recommendation_of,
    safe_to_stop,
)
from exporter.maintenance import planned_answer
from exporter.openapi import document
from exporter.operations import OPERATIONS, ROOT, Operation
from exporter.parameters import Query, refuse
from exporter.partition_pages import Page, Wanted, partitions_page, read_cursor, topics_page
from exporter.records import ClusterSnapshot, TopicEntry
from exporter.responses import etag_response
from exporter.status import ReadingStatus
from exporter.worker import Worker, entries_in_order

Handler = Callable[[Request], Awaitable[Response]]
Json = dict[str, Any]
PageOf = Callable[[ClusterSnapshot, Sequence[TopicEntry], Wanted], Page]


class Facts(Protocol):
    """What the server asks of the reader."""

    collector: Collector
    status: ReadingStatus

    @property
    def alive(self) -> bool:
        """Whether the reading thread runs."""


class ApiPages:
    """The handlers of the operations, over what the reader holds."""

    def __init__(self, reader: Facts, events: EventStore, *, clock: Callable[[], int]) -> None:
        self._reader = reader
        self._events = events
        self._clock = clock
        self._worker = Worker()
        self._ordered: dict[str, tuple[object, list[TopicEntry]]] = {}

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        return {operation.path: self._handler(operation) for operation in OPERATIONS}

    def _handler(self, operation: Operation) -> Handler:
        answer: Callable[[Request, Query], Awaitable[object]] = getattr(self, operation.handler)

        async def handle(request: Request) -> Response:
            query = Query(request, operation.parameters)
            return etag_response(request, await answer(request, query))

        return handle

    async def root(self, _request: Request, _query: Query) -> Json:
        """Tell where to begin."""
        return {"openapi": f"{ROOT}/openapi.json", "clusters": f"{ROOT}/clusters"}

    async def document(self, _request: Request, _query: Query) -> Json:
        """Serve the OpenAPI document."""
        return document()

    async def clusters(self, _request: Request, query: Query) -> Json:
        """List the clusters with their main figures."""
        now = self._clock()
        collector = self._reader.collector
        held = [rendered.snapshot for rendered in collector.clusters.values()]
        shown, next_ = _page(held, query, lambda snapshot: snapshot.name, query.text("after") or "")
        bodies = [api.summary(s, collector.completeness(s, now)) for s in shown]
        return {"clusters": bodies, "next": None if next_ is None else next_.name}

    async def cluster(self, request: Request, _query: Query) -> Json:
        """Tell all about a cluster."""
        snapshot = self._snapshot(request)
        verdict = self._reader.collector.completeness(snapshot, self._clock())
        events = self._events.newest(
            snapshot.name, most=api.EVENTS_SHOWN, up_to=snapshot.view.as_of
        )
        return api.detail(snapshot, verdict, events)

    async def brokers(self, request: Request, query: Query) -> Json:
        """List the brokers."""
        snapshot = self._snapshot(request)
        after = _whole_cursor(query.text("after"))
        shown, next_ = _page(list(snapshot.brokers.values()), query, lambda b: b.id, after)
        planned = self._planned(snapshot)
        brokers = [
            api.broker_answer(b)
            | {"safe_to_stop": safe_to_stop(b), "maintenance": planned.get(b.id)}
            for b in shown
        ]
        next_id = None if next_ is None else str(next_.id)
        return self._about(snapshot) | {"brokers": brokers, "next": next_id}

    async def topics(self, request: Request, query: Query) -> Json:
        """List topics."""
        wanted = Wanted(
            limit=query.whole("limit") or 1,
            conditions=tuple(map(Condition, query.texts("filter"))),
            contains=query.text("contains") or "",
            after=query.text("after"),
        )
        return await self._paged("topics", request, topics_page, wanted)

    async def partitions(self, request: Request, query: Query) -> Json:
        """List partitions."""
        wanted = Wanted(
            limit=query.whole("limit") or 1,
            conditions=tuple(map(Condition, query.texts("filter"))),
            topic=query.text("topic"),
            contains=query.text("contains") or "",
            broker=query.whole("broker"),
            after=query.text("after"),
        )
        if wanted.after is not None:
            try:
                read_cursor(wanted.after)
            except ValueError:
                raise refuse("after", f"{wanted.after!r} is not the `next` of a page") from None
        return await self._paged("partitions", request, partitions_page, wanted)

    async def events(self, request: Request, query: Query) -> Json:
        """List events."""
        snapshot = self._snapshot(request)
        before, after = _event_cursor("before", query), _event_cursor("after", query)
        if before is not None and after is not None:
            raise refuse("after", "give `before` or `after`, not both")
        page = await self._worker.run(
            lambda: self._events.search(
                snapshot.name,
                up_to=snapshot.view.as_of,
                most=query.whole("limit") or 1,
                kinds=query.texts("kind"),
                since=query.time("since"),
                before=before,
                after=after,
            )
        )
        return self._about(snapshot) | {
            "events": [api.event(record) for record in page.events],
            "older": None if page.older is None else api.event_id(page.older),
            "newer": None if page.newer is None else api.event_id(page.newer),
        }

    async def incidents(self, request: Request, query: Query) -> Json:
        """List the incidents."""
        snapshot = self._snapshot(request)
        return self._about(snapshot) | incidents_answer(
            snapshot.incidents, state=query.text("state"), limit=query.whole("limit") or 1
        )

    async def maintenance(self, request: Request, _query: Query) -> Json:
        """List the work that is planned on brokers."""
        snapshot = self._snapshot(request)
        written_to = self._reader.collector.planned.written_to
        return self._about(snapshot) | {
            "planned": list(self._planned(snapshot).values()),
            "written_to": None if written_to is None else written_to._asdict(),
        }

    async def recommendations(self, request: Request, query: Query) -> Json:
        """Tell which preferred elections to run."""
        snapshot = self._snapshot(request)
        broker = query.whole("broker")
        _check_brokers("broker", [] if broker is None else [broker], snapshot)
        told = await self._worker.insight(
            ("recommendation", broker), snapshot, lambda s, f: recommendation_of(s, f, broker)
        )
        planned = await self._worker.insight("rebalance", snapshot, rebalance_of)
        elected_at = snapshot.view.controller.elected_at
        return (
            self._about(snapshot, told.as_of)
            | recommendation_answer(
                told.result,
                broker=broker,
                after=query.whole("after") or 0,
                limit=query.whole("limit") or 1,
            )
            | {
                "command": command_of(snapshot.brokers.values()),
                "next_rebalance": rebalance_answer(
                    planned.result, elected_at=elected_at, now=self._clock()
                ),
                "triggered": triggered_answer(snapshot.recommendation),
            }
        )

    async def what_if(self, request: Request, query: Query) -> Json:
        """Tell what would break."""
        snapshot = self._snapshot(request)
        brokers, racks = query.wholes("lose_broker"), query.texts("lose_rack")
        each = query.text("each")
        if bool(brokers or racks) == bool(each):
            raise refuse("lose_broker", "say what is lost: `lose_broker`, `lose_rack`, or `each`")
        _check_brokers("lose_broker", brokers, snapshot)
        _check_racks(racks, snapshot)
        lost = frozenset(brokers) | {b.id for b in snapshot.brokers.values() if b.rack in racks}
        if each == "broker":
            told = await self._worker.insight("each broker", snapshot, loss_of_each_broker)
        elif each == "rack":
            told = await self._worker.insight("each rack", snapshot, loss_of_each_rack)
        else:
            told = await self._worker.insight(
                ("lose", lost), snapshot, lambda s, f: loss_of(s, f, lost)
            )
        losses = told.result
        if each is None:
            losses = [losses[0] | {"racks": sorted(set(racks))}]
        return self._about(snapshot, told.as_of) | {"losses": losses}

    def _planned(self, snapshot: ClusterSnapshot) -> dict[int, Json]:
        lasting = self._reader.collector.planned.lasting(snapshot.name, self._clock())
        return {
            broker: planned_answer(work, snapshot.brokers.get(broker))
            for broker, work in lasting.items()
        }

    async def _paged(self, of: str, request: Request, page_of: PageOf, wanted: Wanted) -> Json:
        snapshot = self._snapshot(request)
        page = await self._worker.run(lambda: page_of(snapshot, self._entries(snapshot), wanted))
        return self._about(snapshot) | {of: page.items, "next": page.next}

    def _entries(self, snapshot: ClusterSnapshot) -> list[TopicEntry]:
        """Return the topics in order, sorted again only when they are others than before."""
        known = self._ordered.get(snapshot.name)
        if known is None or known[0] is not snapshot.topics:
            known = (snapshot.topics, entries_in_order(snapshot))
            held = self._reader.collector.clusters
            self._ordered = {n: old for n, old in self._ordered.items() if n in held}
            self._ordered[snapshot.name] = known
        return known[1]

    def _about(self, snapshot: ClusterSnapshot, as_of: AsOf | None = None) -> Json:
        verdict = self._reader.collector.completeness(snapshot, self._clock())
        return {
            "name": snapshot.name,
            "as_of": api.place(as_of or snapshot.view.as_of),
            "completeness": msgspec.to_builtins(verdict),
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
    limit = query.whole("limit") or 1
    left = [thing for thing in things if key(thing) > after]
    shown = left[:limit]
    return shown, shown[-1] if len(left) > limit else None


def _whole_cursor(text: str | None) -> int:
    try:
        return -1 if text is None else int(text)
    except ValueError:
        raise refuse("after", f"{text!r} is not the `next` of a page") from None


def _event_cursor(name: str, query: Query) -> EventId | None:
    text = query.text(name)
    try:
        return None if text is None else api.read_event_id(text)
    except ValueError:
        raise refuse(name, f"{text!r} is not the id of an event") from None


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
