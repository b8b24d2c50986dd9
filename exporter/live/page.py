"""Serve the live page at /: its files, their Content-Security-Policy, and its stream.

The rule: the page consists of plain files, served unchanged, and may load from and ask this exporter only. A
topic or host with markup in its name stays text: the policy forbids scripts that are not the page's own, styles
in the markup, and making markup from text.
"""

import hashlib
from collections.abc import Callable, Mapping
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response

from controller_model.insights.thresholds import THRESHOLDS, Threshold
from exporter.api.endpoints import Handler
from exporter.api.responses import kept_response
from exporter.core.parameters import Parameter, Query
from exporter.intake.event_store import EventStore
from exporter.live.feed import LiveFeed
from exporter.live.stream import EventStream
from exporter.scrape.collector import Collector
from pipeline.web_connections import client_network

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; require-trusted-types-for 'script'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_INDEX = "index.html"
_PARTITION_METRICS = b"<!-- here stands the link to /metrics/partitions where it is served -->"
_LINK = b'<li><a href="metrics/partitions">Metrics of every partition</a></li>'

_CLUSTER = Parameter("cluster", "The cluster to show; without it, all of them.")


class LivePage:
    """The handlers of the page, its files and its stream."""

    def __init__(
        self,
        collector: Collector,
        events: EventStore,
        *,
        clock: Callable[[], int],
        reasons: Callable[[], list[str]],
        partition_metrics: bool,
        thresholds: Mapping[str, Threshold] = THRESHOLDS,
    ) -> None:
        self._files = read_files(partition_metrics=partition_metrics)
        page = hashlib.blake2b(b"".join(self._files.values()), digest_size=8).hexdigest()
        self.feed = LiveFeed(
            collector, events, clock=clock, reasons=reasons, page=page, thresholds=thresholds
        )

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        files = {f"/page/{name}": self._file(name) for name in self._files if name != _INDEX}
        return {"/": self._file(_INDEX), **files, "/live": self.live}

    def _file(self, name: str) -> Handler:
        content = self._files[name]
        media_type = MEDIA_TYPES[name.rpartition(".")[2]]

        async def serve(request: Request) -> Response:
            return kept_response(request, content, media_type, HEADERS)

        return serve

    async def live(self, request: Request) -> Response:
        """Send a viewer the state and each change of it, as server-sent events."""
        cluster = Query(request, (_CLUSTER,)).one("cluster") or None
        client = None if request.client is None else client_network(request.client.host)
        is_packed = "gzip" in request.headers.get("accept-encoding", "")
        return EventStream(self.feed, self.feed.join(cluster, client, is_packed=is_packed))


def read_files(*, partition_metrics: bool) -> dict[str, bytes]:
    """Return the page's files by name."""
    folder = resources.files("exporter.live") / "static"
    in_order = sorted(folder.iterdir(), key=lambda each: each.name)
    files = {each.name: each.read_bytes() for each in in_order if each.is_file()}
    link = _LINK if partition_metrics else b""
    return files | {_INDEX: files[_INDEX].replace(_PARTITION_METRICS, link)}
