"""The answers to requests: the live page, /metrics, /healthz, /readyz and /api/v1.

The rule: no request waits for Kafka or for the reading thread; it is answered from what is in
memory, and says how old that is. The thread that serves them all does nothing that grows with a
cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from exporter.api.endpoints import ApiPages, Facts, Handler
from exporter.api.responses import json_response
from exporter.api.worker import Worker
from exporter.core.metrics import ExporterMetrics
from exporter.core.render import EOF_LINE, Format, choose_format
from exporter.core.status import reasons_not_ready
from exporter.intake.event_store import EventStore
from exporter.live.page import LivePage
from exporter.scrape.partition_series import PartitionCollector


class Pages:
    """The handlers, over what the reader holds."""

    def __init__(
        self,
        reader: Facts,
        events: EventStore,
        metrics: ExporterMetrics,
        *,
        clock: Callable[[], int],
        kafka_gone_s: float,
        partition_metrics: bool,
    ) -> None:
        self._reader = reader
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._kafka_gone_ms = kafka_gone_s * 1000
        self._worker = Worker()
        self._api = ApiPages(reader, events, self._worker, clock=clock)
        self._partitions = PartitionCollector() if partition_metrics else None
        self._rendering = asyncio.Lock()
        self.live = LivePage(
            reader,
            events,
            clock=clock,
            reasons=self._reasons,
            partition_metrics=partition_metrics,
        )

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        always: dict[str, Handler] = {
            "/metrics": self.metrics,
            "/healthz": self.health,
            "/readyz": self.readiness,
        }
        return (
            self.live.routes()
            | always
            | self._api.routes()
            | ({"/metrics/partitions": self.partitions} if self._partitions else {})
        )

    async def metrics(self, request: Request) -> Response:
        """Serve all figures."""
        with self._metrics.scrape.time():
            format_ = choose_format(request.headers.get("accept"))
            self._metrics.ready.set(not self._reasons())
            body = self._reader.collector.scrape(format_, self._clock())
            own = self._metrics.exposition(format_)
        end = _end(format_)
        return Response(body + own + end, headers={"content-type": format_.value})

    async def partitions(self, request: Request) -> Response:
        """Serve every partition, where that was asked for in the settings."""
        if self._partitions is None:
            raise HTTPException(404)
        format_ = choose_format(request.headers.get("accept"))
        async with self._rendering:
            steps = self._partitions.render(self._reader.collector.snapshots())
            # Between two steps others have their turn.
            while await self._worker.run(lambda: next(steps, None)) is not None:
                continue
            lines = self._partitions.lines(format_)
        return StreamingResponse(
            _stream(lines, _end(format_)), headers={"content-type": format_.value}
        )

    async def health(self, _request: Request) -> Response:
        """Answer 200 while the reading thread runs."""
        alive = self._reader.alive
        return json_response({"alive": alive}, 200 if alive else 503)

    async def readiness(self, _request: Request) -> Response:
        """Answer 200 once both topics were read to their ends, and while Kafka answers."""
        reasons = self._reasons()
        now = self._clock()
        collector = self._reader.collector
        body = {
            "ready": not reasons,
            "reasons": reasons,
            "reading": msgspec.to_builtins(self._reader.status, str_keys=True),
            "clusters": {
                name: collector.completeness(held.snapshot, now)
                for name, held in collector.clusters.items()
            },
        }
        return json_response(body, 503 if reasons else 200)

    def _reasons(self) -> list[str]:
        return reasons_not_ready(
            self._reader.status, self._clock(), kafka_gone_ms=self._kafka_gone_ms
        )


async def _stream(lines: Iterable[bytes], end: bytes) -> AsyncIterator[bytes]:
    for piece in lines:
        yield piece
    yield end


def _end(format_: Format) -> bytes:
    return EOF_LINE if format_ is Format.OPENMETRICS else b""
