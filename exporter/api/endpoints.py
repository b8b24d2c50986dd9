"""Answer the requests to /api/v1, by the table of operations.

Every answer about a cluster says up to which change of the log it holds (`as_of`) and how far
it can be trusted (`completeness`). It has an ETag unless it is older than the current snapshot. Whatever
takes more than a moment runs in the `Worker`; whatever grows with a cluster is answered in pages.
"""

from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from controller_model.insight.pending_writes import list_pending_writes
from controller_model.insight.quorum_loss import QuorumState, quorum_state
from controller_model.insight.thresholds import THRESHOLDS, Threshold
from controller_model.insight.unseen import unseen
from controller_model.records import visibility
from controller_model.records.completeness import Completeness
from controller_model.records.event_records import decode_event
from exporter.api import cluster_answers
from exporter.api.activity_answers import flapping_in, pending_writes_answer
from exporter.api.answers import (
    AboutCluster,
    Answer,
    Brokers,
    Clusters,
    Events,
    Incidents,
    Json,
    Partitions,
    PartitionsFound,
    Root,
    Topics,
)
from exporter.api.insight_answers import (
    LOSS_OF_EACH,
    loss_of,
    loss_of_each_controller,
    of_controllers_only,
    read_chunk_cursor,
    rebalance_of,
    recommendation_of,
    recommendations_answer,
    safe_to_stop,
    with_quorum,
)
from exporter.api.newest_events import EVENTS_SHOWN, NewestEvents
from exporter.api.openapi import document
from exporter.api.operations import OPERATIONS, ROOT, Operation
from exporter.api.problems import problems_of
from exporter.api.rehearsal_answers import check_work, last_failover, read_steps, rehearsal_of
from exporter.api.responses import etag_response, json_response, wants_fresh
from exporter.api.worker import Compute, Insight, Worker
from exporter.core.memory import memory_left
from exporter.core.parameters import Query, refuse, whole_number
from exporter.core.records import ClusterSnapshot, TopicEntry
from exporter.intake.event_store import EventStore
from exporter.partitions.conditions import Condition
from exporter.partitions.partition_pages import (
    Page,
    PartitionQuery,
    partitions_page,
    read_cursor,
    topics_page,
)
from exporter.partitions.partition_search import search
from exporter.scrape.collector import Collector
from rehearsal.rehearse import IN_KRAFT

Handler = Callable[[Request], Awaitable[Response]]
C = TypeVar("C")

_EVENT = "the id of an event"
"""What the cursor of an events page holds, for the message that refuses another."""

_NO_BROKER = "no broker {} is known"

_WINDOWS_END_INTERVAL_MS = 10_000
"""Steps in which a window's end moves: all clients that ask within one share an answer."""

PageOf = Callable[[ClusterSnapshot, Sequence[TopicEntry], PartitionQuery], Page]


class Asked(NamedTuple):
    """A question about a cluster."""

    snapshot: ClusterSnapshot
    query: Query
    fresh: bool
    """The client would rather wait than get an older answer (`Cache-Control: no-cache`)."""


class ApiPages:
    """The handlers of the operations, over the current snapshots."""

    def __init__(
        self,
        collector: Collector,
        events: EventStore,
        worker: Worker,
        *,
        clock: Callable[[], int],
        thresholds: Mapping[str, Threshold] = THRESHOLDS,
    ) -> None:
        self._collector = collector
        self._thresholds = thresholds
        self._events = events
        self._clock = clock
        self._worker = worker
        # A separate queue: a cluster's state must be answered while a what-if is computed.
        self._short_work = Worker()
        # A separate queue: a rehearsal may take minutes, and no other request should wait for it.
        self._rehearsals = Worker()
        self._newest: dict[str, NewestEvents] = {}
        """The newest events of each cluster that a client has asked about."""
        self._ordered: dict[str, tuple[int, list[str]]] = {}

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        return {operation.path: self._handler(operation) for operation in OPERATIONS}

    def _handler(self, operation: Operation) -> Handler:
        answer: Callable[[Any], Awaitable[Any]] = getattr(self, operation.handler)

        async def handle(request: Request) -> Response:
            query = Query(request, operation.parameters)
            name = request.path_params.get("name")
            if name is None:
                return etag_response(request, await answer(query))
            asked = Asked(self._snapshot(name), query, wants_fresh(request))
            return self._respond(request, asked.snapshot, await answer(asked))

        return handle

    def _respond(
        self, request: Request, snapshot: ClusterSnapshot, answer: Answer | Json | Insight
    ) -> Response:
        """Return an answer about a cluster; without an ETag if it is older than the current snapshot."""
        as_of, body = snapshot.view.as_of, answer
        if isinstance(answer, Insight):
            as_of, body = answer
        if isinstance(body, Answer):
            about = AboutCluster(
                name=snapshot.name,
                as_of=cluster_answers.place(as_of),
                completeness=self._completeness(snapshot),
            )
            body = msgspec.structs.asdict(about) | msgspec.structs.asdict(body)
        held = self._collector.clusters.get(snapshot.name)
        is_newest = held is not None and held.view.as_of <= as_of
        return etag_response(request, body) if is_newest else json_response(body)

    async def root(self, _query: Query) -> Root:
        """Return the addresses of the OpenAPI document and of the list of clusters."""
        # Relative to its own address, because a reverse proxy may add a prefix to it.
        here = ROOT.rpartition("/")[2]
        return Root(openapi=f"{here}/openapi.json", clusters=f"{here}/clusters")

    async def document(self, _query: Query) -> Json:
        """Serve the OpenAPI document."""
        return document()

    async def clusters(self, query: Query) -> Clusters:
        """List the clusters with their main figures."""
        held = list(self._collector.clusters.values())
        shown, next_ = _page(held, query, lambda snapshot: snapshot.name, query.one("after") or "")
        summaries = [cluster_answers.summary(each, self._completeness(each)) for each in shown]
        return Clusters(clusters=summaries, next=None if next_ is None else next_.name)

    async def cluster(self, asked: Asked) -> Json:
        """Return everything about a cluster except its topics."""
        snapshot, held = asked.snapshot, self._collector.clusters
        self._newest = {name: newest for name, newest in self._newest.items() if name in held}
        newest = self._newest.setdefault(
            snapshot.name,
            NewestEvents(self._events, snapshot.name, most=EVENTS_SHOWN, most_changes=0),
        )

        def events() -> list[Json]:
            newest.follow(snapshot.view.as_of)
            return list(newest.events)

        shown = await self._short_work.run(events)
        now = self._clock()
        moment = self._collector.moment(snapshot, now)
        problems = problems_of(snapshot, moment, now, self._thresholds)
        return cluster_answers.detail(snapshot, moment, problems, shown)

    async def brokers(self, asked: Asked) -> Brokers:
        """List the brokers."""
        after = _cursor(asked.query, "after", whole_number)
        known = list(asked.snapshot.brokers.values())
        shown, next_ = _page(known, asked.query, lambda b: b.id, -1 if after is None else after)
        return Brokers(
            brokers=[
                cluster_answers.broker_answer(b) | {"safe_to_stop": safe_to_stop(b)} for b in shown
            ],
            next=None if next_ is None else str(next_.id),
        )

    async def topics(self, asked: Asked) -> Topics:
        """List topics."""
        page = await self._partition_page(asked, topics_page)
        return Topics(topics=page.items, next=page.next)

    async def partitions(self, asked: Asked) -> Partitions:
        """List partitions."""
        _cursor(asked.query, "after", read_cursor)
        page = await self._partition_page(asked, partitions_page)
        return Partitions(partitions=page.items, next=page.next)

    async def search(self, asked: Asked) -> Insight:
        """Search all partitions; clients with the same question about a cluster share the answer."""
        _cursor(asked.query, "after", read_cursor)
        wanted = _partition_query(asked.query, contains="text")
        found = await self._insight(
            asked, ("search", wanted), lambda s, _: search(s, self._entries(s), wanted)
        )
        page, matched = found.result
        answer = PartitionsFound(matched=matched, partitions=page.items, next=page.next)
        return found._replace(result=answer)

    async def events(self, asked: Asked) -> Events:
        """List events."""
        snapshot, query = asked.snapshot, asked.query
        before = _cursor(query, "before", cluster_answers.read_event_id, _EVENT)
        after = _cursor(query, "after", cluster_answers.read_event_id, _EVENT)
        if before is not None and after is not None:
            raise refuse("after", "give `before` or `after`, not both")

        def search() -> Events:
            page = self._events.search(
                snapshot.name,
                up_to=snapshot.view.as_of,
                most=query.one("limit"),
                kinds=query.all("kind"),
                since=query.one("since"),
                before=before,
                after=after,
            )
            return Events(
                events=[cluster_answers.event(decode_event(value)) for value in page.values],
                older=None if page.older is None else cluster_answers.event_id(page.older),
                newer=None if page.newer is None else cluster_answers.event_id(page.newer),
                held_from=self._events.held_from(snapshot.name),
            )

        return await self._worker.run(search)

    async def incidents(self, asked: Asked) -> Incidents:
        """List the incidents, of which the fold keeps a bounded number."""
        view, state = asked.snapshot.incidents, asked.query.one("state")
        incidents = [
            each
            for each in (view.incidents if view else ())
            if state is None or (each.closed_at is None) == (state == "open")
        ]
        return Incidents(
            total=view.total if view else 0, incidents=tuple(incidents[: asked.query.one("limit")])
        )

    async def recommendations(self, asked: Asked) -> Insight:
        """Return which preferred elections to run."""
        snapshot, query = asked.snapshot, asked.query
        _require(snapshot, visibility.LEADERS)
        broker: int | None = query.one("broker")
        _check_known("broker", query.all("broker"), snapshot.brokers, _NO_BROKER)
        after, digest = _cursor(query, "after", read_chunk_cursor) or (0, None)
        found = await self._insight(
            asked, ("recommendation", broker), lambda s, f: recommendation_of(s, f, broker)
        )
        if digest not in {None, found.result.digest}:
            why = "the recommendation has become another one since that page"
            raise HTTPException(409, f"parameter 'after': {why}; begin again without it")
        rebalance = snapshot.view.rebalance
        threshold = None if rebalance is None else rebalance.threshold_percentage
        check = await self._insight(asked, ("rebalance", threshold), rebalance_of)
        shown = slice(after, after + query.one("limit"))
        answer = recommendations_answer(
            snapshot, found.result, check.result, broker=broker, shown=shown, now=self._clock()
        )
        return Insight(min(found.as_of, check.as_of), answer)

    async def what_if(self, asked: Asked) -> Insight:
        """Return what would break if brokers, or controllers of a KRaft quorum, were lost now."""
        snapshot, query = asked.snapshot, asked.query
        _require(snapshot, visibility.LOSSES)
        brokers, racks = query.all("lose_broker"), query.all("lose_rack")
        controllers, each, margin = (
            query.all("lose_controller"),
            query.one("each"),
            query.one("margin"),
        )
        if bool(brokers or racks or controllers) == bool(each):
            names = "`lose_broker`, `lose_rack`, `lose_controller`, or `each`"
            raise refuse("lose_broker", f"say what is lost: {names}")
        _check_known("lose_broker", brokers, snapshot.brokers, _NO_BROKER)
        known_racks = sorted(
            {b.record.rack for b in snapshot.brokers.values() if b.record.rack is not None}
        )
        _check_known("lose_rack", racks, known_racks, "no broker is in rack {!r}")
        quorum = None if snapshot.view.quorum is None else quorum_state(snapshot.view.quorum)
        known_controllers = () if quorum is None else sorted(quorum.ids)
        _check_known("lose_controller", controllers, known_controllers, "no controller {} is known")
        if each is not None:
            return await self._loss_of_each(asked, each, quorum, margin)
        in_racks = {b.id for b in snapshot.brokers.values() if b.record.rack in racks}
        lost, named = in_racks.union(brokers), sorted(set(racks))
        lost.update(snapshot.brokers.keys() & controllers)
        found = Insight(snapshot.view.as_of, of_controllers_only())
        if lost:
            question = ("lose", frozenset(lost), tuple(named))
            found = await self._insight(asked, question, lambda s, f: loss_of(s, f, lost, named))
        if quorum is None:
            return found
        return found._replace(result=with_quorum(found.result, quorum, controllers, margin=margin))

    async def _loss_of_each(
        self, asked: Asked, each: str, quorum: QuorumState | None, margin: int
    ) -> Insight:
        of_nodes = each in {"node", "controller"}
        if each == "controller" and quorum is None:
            raise refuse("each", "the cluster has no quorum: its controllers are its brokers")
        kind = "broker" if of_nodes else each
        found = await self._insight(asked, ("each", kind), LOSS_OF_EACH[kind])
        if quorum is None:
            return found
        if not of_nodes:
            return found._replace(result=with_quorum(found.result, quorum, margin=margin))
        return found._replace(
            result=loss_of_each_controller(
                found.result, quorum, margin=margin, with_brokers=each == "node"
            )
        )

    async def rehearsal(self, asked: Asked) -> Insight:
        """Return what the controller would do in each step of a rehearsal."""
        snapshot, query, fresh = asked
        texts, most = query.all("step"), query.one("limit")
        steps = read_steps(texts)
        if not snapshot.view.has_zookeeper:
            raise HTTPException(409, IN_KRAFT)
        _require(snapshot, visibility.REHEARSALS)
        check_work(steps, snapshot, memory_left())
        last = last_failover(self._events, snapshot)
        return await self._rehearsals.insight(
            ("rehearsal", texts, most, last),
            snapshot,
            lambda s, f: rehearsal_of(s, f, steps, last, most),
            fresh=fresh,
        )

    async def flapping(self, asked: Asked) -> Insight:
        """Return what changed again and again within a window."""
        snapshot, query = asked.snapshot, asked.query
        window_s = query.one("window_s")
        now = self._clock()
        # The answer changes with the topics (each shrink of an ISR does), with elections and with the window's end.
        controller = snapshot.view.controller
        elections = None if controller is None else controller.elections
        found = await self._insight(
            asked,
            ("flapping", window_s, elections, now // _WINDOWS_END_INTERVAL_MS),
            lambda s, _: flapping_in(self._events, s, now=now, window_s=window_s),
        )
        listed = found.result.partitions[: query.one("limit")]
        return found._replace(result=msgspec.structs.replace(found.result, partitions=listed))

    async def pending_writes(self, asked: Asked) -> Insight:
        """Return the controller's pending writes."""
        snapshot = asked.snapshot
        _require(snapshot, visibility.WRITES)
        found = await self._insight(
            asked, "pending writes", lambda s, f: list(list_pending_writes(s.all_partitions(), f))
        )
        status, limit = self._completeness(snapshot).status, asked.query.one("limit")
        return found._replace(
            result=pending_writes_answer(snapshot.view, status, found.result, limit)
        )

    async def _insight(self, asked: Asked, question: Hashable, compute: Compute) -> Insight:
        """Return the answer to a question about the cluster, as new as the client wants it."""
        return await self._worker.insight(question, asked.snapshot, compute, fresh=asked.fresh)

    async def _partition_page(self, asked: Asked, page_of: PageOf) -> Page:
        snapshot, wanted = asked.snapshot, _partition_query(asked.query, contains="contains")
        return await self._worker.run(lambda: page_of(snapshot, self._entries(snapshot), wanted))

    def _entries(self, snapshot: ClusterSnapshot) -> list[TopicEntry]:
        """Return the chunks of topics in order; sort them again only when the topics have changed."""
        topics = snapshot.topics
        known = self._ordered.get(snapshot.name)
        if known is None or known[0] != snapshot.topics_version:
            # Remember the keys only: to remember the topics would keep old ones in memory.
            keys = sorted(topics, key=lambda key: (topics[key].name, topics[key].chunk))
            known = (snapshot.topics_version, keys)
            held = self._collector.clusters
            self._ordered = {n: old for n, old in self._ordered.items() if n in held}
            self._ordered[snapshot.name] = known
        return [topics[key] for key in known[1]]

    def _completeness(self, snapshot: ClusterSnapshot) -> Completeness:
        return self._collector.completeness(snapshot, self._clock())

    def _snapshot(self, name: str) -> ClusterSnapshot:
        held = self._collector.clusters
        if name not in held:
            known = ", ".join(held) or "none yet"
            raise HTTPException(404, f"no cluster is called {name!r}; known: {known}")
        return held[name]


def _page(
    things: Sequence[Any], query: Query, key: Callable[[Any], Any], after: Any
) -> tuple[Sequence[Any], Any]:
    """Return at most `limit` things after this key, and the last one shown if there are more (else None)."""
    left = [thing for thing in things if key(thing) > after]
    shown = left[: query.one("limit")]
    return shown, shown[-1] if len(left) > len(shown) else None


def _partition_query(query: Query, *, contains: str) -> PartitionQuery:
    """Return the filters of a request; `contains` names the parameter that topics' names are searched for."""
    return PartitionQuery(
        limit=query.one("limit"),
        conditions=tuple(map(Condition, query.all("filter"))),
        topic=query.one("topic"),
        contains=query.one(contains) or "",
        broker=query.one("broker"),
        after=query.one("after"),
    )


def _cursor(
    query: Query, name: str, read: Callable[[str], C], what: str = "the `next` of a page"
) -> C | None:
    """Return a parameter read by `read`; None when it was not given; raises HTTPException 400 where `read` fails."""
    text = query.one(name)
    try:
        return None if text is None else read(text)
    except ValueError:
        raise refuse(name, f"{text!r} is not {what}") from None


def _require(snapshot: ClusterSnapshot, needs: visibility.Needs) -> None:
    """Raise HTTPException 409 where something that an answer needs cannot be seen."""
    if reason := unseen(snapshot.view, needs):
        raise HTTPException(409, reason)


def _check_known(name: str, given: Iterable[Any], known: Collection[Any], missing: str) -> None:
    """Raise HTTPException 400 for the first value that is not known; `missing` says so of the value `{}`."""
    for each in given:
        if each not in known:
            listed = ", ".join(map(str, known)) or "none"
            raise refuse(name, f"{missing.format(each)}; known: {listed}")
