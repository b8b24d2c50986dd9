"""Answer requests: the live page, /metrics, /healthz, /readyz and /api/v1.

No request waits for Kafka or for the reading thread. It is answered from memory, and the answer
says how old that is. The thread that serves all requests does no work that grows with a cluster.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from controller_model.insight.thresholds import THRESHOLDS, Threshold
from exporter.api.endpoints import ApiPages, Handler
from exporter.api.responses import json_response
from exporter.api.worker import Worker
from exporter.core.metrics import ExporterMetrics
from exporter.core.render import choose_format
from exporter.core.status import ReadingState, reasons_not_ready
from exporter.intake.event_store import EventStore
from exporter.live.page import LivePage, read_files, version_of
from exporter.live.page_answers import PageAnswers
from exporter.scrape.collector import Collector
from exporter.scrape.partition_series import PartitionCollector
from web.health import PartHealth


class Pages:
    """The handlers, over the reading thread's results."""

    def __init__(
        self,
        collector: Collector,
        events: EventStore,
        metrics: ExporterMetrics,
        *,
        state: ReadingState,
        health: PartHealth,
        clock: Callable[[], int],
        kafka_gone_s: float,
        partition_metrics: bool,
        thresholds: Mapping[str, Threshold] = THRESHOLDS,
    ) -> None:
        self._collector = collector
        self._state = state
        self._health = health
        self._metrics = metrics
        self._clock = clock
        self._kafka_gone_ms = kafka_gone_s * 1000
        self._worker = Worker()
        self._api = ApiPages(collector, events, self._worker, clock=clock, thresholds=thresholds)
        self._partitions = PartitionCollector()
        self._serves_partitions = partition_metrics
        self._rendering = asyncio.Lock()
        files = read_files(partition_metrics=partition_metrics)
        answers = PageAnswers(
            collector,
            events,
            state,
            clock=clock,
            reasons=self._reasons,
            page=version_of(files),
            thresholds=thresholds,
        )
        self._live = LivePage(answers, files)

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        own = {"/metrics": self.metrics, "/healthz": self._health.answer, "/readyz": self.readiness}
        if self._serves_partitions:
            own["/metrics/partitions"] = self.partitions
        return self._live.routes() | own | self._api.routes()

    async def metrics(self, request: Request) -> Response:
        """Serve /metrics."""
        with self._metrics.scrape.time():
            format_ = choose_format(request.headers.get("accept"))
            self._metrics.ready.set(not self._reasons())
            body = self._collector.scrape(format_, self._clock())
            own = self._metrics.exposition(format_)
        content = body + own + format_.end
        return Response(content, headers={"content-type": format_.value})

    async def partitions(self, request: Request) -> Response:
        """Serve /metrics/partitions, where the settings enable it."""
        format_ = choose_format(request.headers.get("accept"))
        async with self._rendering:
            steps = self._partitions.render(self._collector.clusters)
            # Other requests run between two steps.
            while await self._worker.run(lambda: next(steps, None)) is not None:
                continue
            lines = self._partitions.lines(format_)
        pieces = itertools.chain(lines, [format_.end])
        return StreamingResponse(pieces, headers={"content-type": format_.value})

    async def readiness(self, _request: Request) -> Response:
        """Answer 200 once both topics were read to their ends, while Kafka answers and the thread reads."""
        reasons, now = self._reasons(), self._clock()
        clusters = self._collector.clusters
        body = {
            "ready": not reasons,
            "reasons": reasons,
            "reading": self._state.status,
            "clusters": {n: self._collector.completeness(s, now) for n, s in clusters.items()},
        }
        return json_response(body, 503 if reasons else 200)

    def _reasons(self) -> list[str]:
        state = self._state
        reasons = reasons_not_ready(
            state.status, state.steady(), kafka_gone_ms=self._kafka_gone_ms, still_ms=state.still_ms
        )
        awaited = state.awaited(self._collector.clusters)
        return reasons + [f"no sign of life of cluster {name} yet" for name in awaited]
