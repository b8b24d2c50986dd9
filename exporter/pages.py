"""The answers to requests: /metrics, /healthz, /readyz, /api/v1, and a plain index of them.

The rule: no request waits for Kafka or for the reading thread; it is answered from what is in
memory, and says how old that is.
"""

from __future__ import annotations

import html
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from exporter import api
from exporter.collector import Collector
from exporter.event_store import EventStore
from exporter.metrics import ExporterMetrics
from exporter.partitions import PartitionCollector
from exporter.records import ClusterSnapshot
from exporter.render import Format, choose_format
from exporter.status import ReadingStatus, reasons_not_ready

_END_MARK = b"# EOF\n"

Handler = Callable[[Request], Awaitable[Response]]


class Facts(Protocol):
    """What the server asks of the reader."""

    collector: Collector
    status: ReadingStatus

    @property
    def alive(self) -> bool:
        """Whether the reading thread runs."""


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
        self._partitions = PartitionCollector() if partition_metrics else None

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        always: dict[str, Handler] = {
            "/": self.index,
            "/metrics": self.metrics,
            "/healthz": self.health,
            "/readyz": self.readiness,
            "/api/v1/clusters": self.clusters,
            "/api/v1/clusters/{name}": self.cluster,
        }
        return always | ({"/metrics/partitions": self.partitions} if self._partitions else {})

    async def index(self, _request: Request) -> Response:
        """List what is served here."""
        paths = [path for path in self.routes() if "{" not in path and path != "/"]
        paths += [f"/api/v1/clusters/{name}" for name in self._reader.collector.clusters]
        items = "".join(
            f'<li><a href="{html.escape(path)}">{html.escape(path)}</a></li>' for path in paths
        )
        page = (
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            f"<title>Kafka Controller Monitor</title><h1>Kafka Controller Monitor</h1><ul>{items}</ul>"
        )
        return Response(page, media_type="text/html")

    async def metrics(self, request: Request) -> Response:
        """Serve all figures."""
        with self._metrics.scrape.time():
            format_ = choose_format(request.headers.get("accept"))
            self._metrics.ready.set(not self._reasons())
            body = self._reader.collector.scrape(format_, self._clock())
            own = self._metrics.exposition(format_)
        return _exposition(format_, body + own)

    async def partitions(self, request: Request) -> Response:
        """Serve every partition, where that was asked for in the settings."""
        if self._partitions is None:
            raise HTTPException(404)
        format_ = choose_format(request.headers.get("accept"))
        snapshots = {n: held.snapshot for n, held in self._reader.collector.clusters.items()}
        return _exposition(format_, self._partitions.scrape(format_, snapshots))

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

    async def clusters(self, _request: Request) -> Response:
        """List the clusters with their main figures."""
        now = self._clock()
        collector = self._reader.collector
        held = [rendered.snapshot for rendered in collector.clusters.values()]
        return json_response(
            {"clusters": [api.summary(s, collector.completeness(s, now)) for s in held]}
        )

    async def cluster(self, request: Request) -> Response:
        """Tell all about a cluster."""
        snapshot = self._snapshot(request.path_params["name"])
        verdict = self._reader.collector.completeness(snapshot, self._clock())
        events = self._events.newest(
            snapshot.name, most=api.EVENTS_SHOWN, up_to=snapshot.view.as_of
        )
        return json_response(api.detail(snapshot, verdict, events))

    def _snapshot(self, name: str) -> ClusterSnapshot:
        held = self._reader.collector.clusters
        if name not in held:
            known = ", ".join(held) or "none yet"
            raise HTTPException(404, f"no cluster is called {name!r}; known: {known}")
        return held[name].snapshot

    def _reasons(self) -> list[str]:
        return reasons_not_ready(
            self._reader.status, self._clock(), kafka_gone_ms=self._kafka_gone_ms
        )


def _exposition(format_: Format, body: bytes) -> Response:
    end = _END_MARK if format_ is Format.OPENMETRICS else b""
    return Response(body + end, headers={"content-type": format_.value})


def json_response(
    body: object,
    status: int = 200,
    media_type: str = "application/json",
    headers: dict[str, str] | None = None,
) -> Response:
    """Return a body as JSON that no cache may keep."""
    return Response(
        msgspec.json.encode(body),
        status,
        media_type=media_type,
        headers={"cache-control": "no-store", **(headers or {})},
    )
