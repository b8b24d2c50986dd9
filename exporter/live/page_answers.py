"""Make the answers to the live page, which polls: one for each cluster that is asked about, shared by all its pages.

An answer is made at most once in `MAKE_INTERVAL_S`, however many pages poll, and not at all while none
does. It is encoded again, and so has another ETag, only when what it shows has changed, be it by the time alone.
What moves with every second is in a header, which an answer without a body has as well. An unexpected exception
about one cluster affects that cluster's pages alone: they are refused, so that they say so, and the list of
clusters says that there are no figures of it.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from controller_model.insight.thresholds import THRESHOLDS, Threshold
from controller_model.metrics.metric import Moment
from controller_model.records.completeness import Stage
from exporter.api.answers import Json
from exporter.api.newest_events import NewestEvents
from exporter.api.operations import ROOT
from exporter.api.problems import ClusterProblem, problems_of
from exporter.api.responses import KeptBody
from exporter.core.parameters import Parameter, Query
from exporter.core.records import ClusterSnapshot
from exporter.core.status import ReadingState
from exporter.intake.event_store import EventStore
from exporter.live.picture import badness, cluster_picture, failed_row, fleet_row
from exporter.scrape.collector import Collector
from pipeline.runtime import get_logger

PATH = f"{ROOT}/page"
NOW_HEADER = "kcm-now"
"""The exporter's time, how many pages poll, and when each stage was last heard, as JSON."""
MAKE_INTERVAL_S = 0.2
"""A page that polls each second shows a change within 1.2 s."""
_KEPT_S = 60.0
"""How long the answer about a cluster is kept that no page asks for: a hidden page polls every 10 s."""
_POLLS_COUNTED_S = 2.0
EVENTS_SHOWN = 15
"""Number of newest events on the page; the API has the others."""
CONTROLLER_CHANGES_SHOWN = 60
"""Number of newest controller changes on the page: more than a screen can show separately."""
_CLUSTER = Parameter("cluster", "The cluster to show; without it, all of them.")
_HEARD = (Stage.WATCHER, Stage.FOLD, Stage.EXPORTER)


class _Rows(NamedTuple):
    """The list of clusters, the worst first, as JSON: with all that a row shows, and for the page of one cluster."""

    made_at_s: float
    full: bytes
    short: bytes


class _ClusterAnswer:
    """The newest answer about one cluster."""

    def __init__(self, events: EventStore, name: str | None) -> None:
        self.lock = asyncio.Lock()
        self.asked_at_s = 0.0
        self.made_at_s: float | None = None
        """When the oldest part of the body was made, by the loop's clock; None: never, or the last attempt failed."""
        self.body = KeptBody(b"", "application/json")
        self.heard_at: dict[Stage, int | None] = {}
        self._newest = NewestEvents(
            events, name or "", most=EVENTS_SHOWN, most_changes=CONTROLLER_CHANGES_SHOWN
        )
        self._of: tuple[Any, ...] | None = None
        """What the picture was made from; the views and not the snapshot, which would keep all topics in memory."""
        self._picture = msgspec.Raw(b"null")

    async def picture(
        self, snapshot: ClusterSnapshot, problems: list[ClusterProblem], delay_ms: int | None
    ) -> msgspec.Raw:
        """Return what is shown of the cluster, encoded again only where it has changed."""
        # The first call reads all kept events, up to 32 MiB: not in the server's thread.
        has_new_events = await run_in_threadpool(self._newest.follow, snapshot.view.as_of)
        of = (problems, delay_ms, snapshot.brokers, snapshot.view)
        if self._of is None or has_new_events or not _is_same(of, self._of):
            newest = self._newest
            picture = cluster_picture(
                snapshot,
                problems,
                newest.events,
                newest.controller_changes,
                newest.changes_from,
            )
            self._of = of
            self._picture = msgspec.Raw(msgspec.json.encode({**picture, "delay_ms": delay_ms}))
        return self._picture

    def store(self, body: bytes) -> None:
        """Replace the body unless it is the same."""
        if self.body.content != body:
            self.body = KeptBody(body, "application/json")


def _is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether two pictures would show the same; views never change, so their identity is enough."""
    return one[:2] == other[:2] and one[2] is other[2] and one[3] is other[3]


class PageAnswers:
    """Answers the polls of the live page, in the server's event loop.

    `page` identifies the current files of the page: a page that has other files is to load them again.
    """

    def __init__(
        self,
        collector: Collector,
        events: EventStore,
        state: ReadingState,
        *,
        clock: Callable[[], int],
        reasons: Callable[[], list[str]],
        page: str,
        thresholds: Mapping[str, Threshold] = THRESHOLDS,
    ) -> None:
        self._collector = collector
        self._events = events
        self._state = state
        self._clock = clock
        self._reasons = reasons
        self._page = page
        self._thresholds = thresholds
        self._answers: dict[str | None, _ClusterAnswer] = {}
        self._rows: _Rows | None = None
        self._failed: set[tuple[str, str]] = set()
        """What could not be made of which cluster: the exception is logged, and it has not succeeded since."""
        self._polls = _PollRate()

    async def answer(self, request: Request) -> Response:
        """Return what the page shows; 304 to a page that shows it already."""
        asked = Query(request, (_CLUSTER,)).one("cluster")
        clusters = self._collector.clusters
        name = asked or (next(iter(clusters)) if len(clusters) == 1 else None)
        # All names that are not known have the same answer, so that nobody can fill the memory with them.
        known = name if name in clusters else ("" if name else None)
        held = self._answers.get(known)
        if held is None:
            held = self._answers[known] = _ClusterAnswer(self._events, known)
        async with held.lock:
            now, now_s = self._clock(), asyncio.get_running_loop().time()
            held.asked_at_s = now_s
            self._polls.count(now_s)
            if held.made_at_s is None or now_s - held.made_at_s >= MAKE_INTERVAL_S:
                held.made_at_s = await self._make(held, known, now, now_s)
        about_now = {"now": now, "viewers": self._polls.per_s, "heard_at": held.heard_at}
        return held.body.response(request, {NOW_HEADER: msgspec.json.encode(about_now).decode()})

    async def _make(self, held: _ClusterAnswer, name: str | None, now: int, now_s: float) -> float:
        """Make an answer, and return since when it is so: that of its oldest part.

        Raise HTTPException 500 where that fails for the cluster.
        """
        clusters = self._collector.clusters
        self._answers = {
            known: each
            for known, each in self._answers.items()
            if each is held
            or ((not known or known in clusters) and now_s - each.asked_at_s < _KEPT_S)
        }
        self._failed = {failed for failed in self._failed if failed[1] in clusters}
        snapshot = clusters.get(name) if name else None
        held.made_at_s, held.heard_at, trust, picture = None, dict.fromkeys(_HEARD), None, None
        if snapshot is not None:
            judged = self._judge(snapshot, now)
            if judged is None:
                raise self._failure("figures", snapshot.name)
            moment, problems = judged
            trust = moment.completeness
            ages = moment.behind_ms
            held.heard_at = {
                stage: now - ages[stage] if stage in ages else None for stage in _HEARD
            }
            try:
                delay_ms = self._state.delays_ms.get(snapshot.name)
                picture = await held.picture(snapshot, problems, delay_ms)
            except Exception:  # noqa: BLE001  # it is logged once, not with each poll
                raise self._failure("picture", snapshot.name) from None
            self._failed.discard(("picture", snapshot.name))
        rows = self._make_rows(now, now_s)
        body = {
            "page": self._page,
            "reasons": self._reasons(),
            "trust": trust,
            "cluster": picture,
            "clusters": msgspec.Raw(rows.full if name is None else rows.short),
        }
        held.store(msgspec.json.encode(body))
        return rows.made_at_s

    def _judge(
        self, snapshot: ClusterSnapshot, now: int
    ) -> tuple[Moment, list[ClusterProblem]] | None:
        """Return a cluster's figures that depend on the time, and its problems; None after an unexpected exception."""
        try:
            moment = self._collector.moment(snapshot, now)
            problems = problems_of(snapshot, moment, now, self._thresholds)
        except Exception:  # noqa: BLE001  # an exception about one cluster must not affect the others
            self._failure("figures", snapshot.name)
            return None
        self._failed.discard(("figures", snapshot.name))
        return moment, problems

    def _failure(self, what: str, cluster: str) -> HTTPException:
        """Return the refusal after an unexpected exception; log the exception unless that was done already."""
        if (what, cluster) not in self._failed:
            self._failed.add((what, cluster))
            get_logger("exporter").exception(
                "the live page of a cluster could not be made", cluster=cluster
            )
        return HTTPException(500, f"the exporter failed to judge {cluster}: see its log")

    def _make_rows(self, now: int, now_s: float) -> _Rows:
        """Return the rows of all clusters, made again where they are old."""
        if self._rows is None or now_s - self._rows.made_at_s >= MAKE_INTERVAL_S:
            rows: list[Json] = []
            for snapshot in self._collector.clusters.values():
                judged = self._judge(snapshot, now)
                if judged is None:
                    rows.append(failed_row(snapshot.name))
                else:
                    moment, problems = judged
                    rows.append(fleet_row(snapshot, moment.completeness, problems))
            rows.sort(key=badness)
            short = [{"name": row["name"], "severity": row["severity"]} for row in rows]
            self._rows = _Rows(now_s, msgspec.json.encode(rows), msgspec.json.encode(short))
        return self._rows


class _PollRate:
    """How many polls arrive in a second, which is about how many pages are open."""

    def __init__(self) -> None:
        self.per_s = 1
        self._began_at_s = 0.0
        self._counted = 0

    def count(self, now_s: float) -> None:
        """Count a poll."""
        passed_s = now_s - self._began_at_s
        if passed_s >= _POLLS_COUNTED_S:
            self.per_s = max(1, round(self._counted / passed_s))
            self._began_at_s, self._counted = now_s, 0
        self._counted += 1
