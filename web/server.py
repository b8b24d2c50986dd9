"""Runs the HTTP server of every part: uvicorn in a thread, with one set of limits.

The socket is opened before anything runs, so that a port in use is one clear line; so is
a bad web configuration.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from controller_model.kafka.ids import join_host_port
from pipeline.runtime import get_logger
from pipeline.settings import PipelineSettings
from web.config import WebSecurity
from web.connections import listen, protocol_class, with_mapped
from web.guard import RequestGuard
from web.health import PartHealth

_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # nothing is bound here: it is how a user says "all"
_IDLE_S = 5
_CHECK_FILES_INTERVAL_S = 5
_STARTUP_TIMEOUT_S = 5.0
_SHUTDOWN_TIMEOUT_S = 2
_ACCEPTED_S = 0.01
"""How long it takes until an accepted connection is known: two turns of the loop."""


class WebOptions(NamedTuple):
    """How a part's port is protected."""

    config_file: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    connections_per_client: int = 100
    access_log: bool = False

    @classmethod
    def of(cls, settings: PipelineSettings) -> Self:
        """Return the options that the settings give; lists are separated by commas."""
        hosts, proxies = (
            tuple(part.strip() for part in text.split(",") if part.strip())
            for text in (settings.allowed_hosts, settings.trusted_proxies)
        )
        limit, access_log = settings.connections_per_client, settings.access_log
        return cls(settings.web_config_file, hosts, proxies, limit, access_log)


UNGUARDED = WebOptions()
"""Options for a port that only this machine reaches."""


# _Server logs the same as a line of the part's own log.
logging.getLogger("uvicorn.error").addFilter(lambda entry: "timeout graceful" not in entry.msg)


class _Server(uvicorn.Server):
    """uvicorn's server, which at its end closes every connection.

    Its own `shutdown` closes those that it knows at that moment. One that was accepted just before
    becomes known a moment later: uvicorn waits for it until the timeout, and leaves it open.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, let answers end, and close all connections."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(_ACCEPTED_S)
        await super().shutdown(sockets)
        if left := tuple(self.server_state.connections):
            get_logger("web").warning("connections still open were cut off", clients=len(left))
        for connection in left:
            connection.transport.abort()
        await asyncio.sleep(0)  # the loop closes them in its next turn


def local_host(host: str) -> str:
    """Return the address at which this machine reaches a server that listens on `host`."""
    return _EVERY_ADDRESS.get(host, host)


class WebServer:
    """uvicorn on a socket of ours, in a thread; a context manager.

    Port 0 takes a free one, see `port`. Raise ConflictError, naming the port, when it is in use, and
    UsageError for a bad file.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        options: WebOptions = UNGUARDED,
        *,
        refused: Callable[[int], None] = lambda _status: None,
    ) -> None:
        """Listen; `refused` is called with the status of each request that reaches no page."""
        security = WebSecurity(options.config_file)
        proxies = with_mapped(options.trusted_proxies)
        self._socket = listen(host, port, options.connections_per_client, proxies)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self.scheme = "http" if security.context is None else "https"
        names = (host, *options.allowed_hosts)

        async def refresh() -> None:
            security.refresh()

        config = uvicorn.Config(
            RequestGuard(app, security, names, access_log=options.access_log, refused=refused),
            http=protocol_class(security),
            loop="web.connections:ServerLoop",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            proxy_headers=bool(proxies),
            forwarded_allow_ips=proxies,
            timeout_keep_alive=_IDLE_S,
            timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
            timeout_notify=_CHECK_FILES_INTERVAL_S,
            callback_notify=refresh,
        )
        config.load()
        config.ssl = security.context
        self._server = _Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="http", daemon=True
        )

    @property
    def url(self) -> str:
        """The server's URL."""
        return f"{self.scheme}://{join_host_port(self.host, self.port)}"

    @property
    def local_url(self) -> str:
        """The server's URL on this machine, also where it listens on all addresses."""
        return f"{self.scheme}://{join_host_port(local_host(self.host), self.port)}"

    @property
    def alive(self) -> bool:
        """Whether the server's thread runs."""
        return self._thread.is_alive()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.should_exit = True
        self._thread.join(_SHUTDOWN_TIMEOUT_S + _STARTUP_TIMEOUT_S)
        self._socket.close()


def metrics_server(
    registry: CollectorRegistry, health: PartHealth, settings: PipelineSettings, port: int
) -> WebServer:
    """Return a server of a registry as text and OpenMetrics, and at /healthz of a part's health."""

    async def metrics(request: Request) -> Response:
        names = request.query_params.getlist("name[]")
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        shown = registry.restricted_registry(names) if names else registry
        return Response(encode(shown), headers={"content-type": media_type})

    # As in prometheus_client's own server, every path that has no other page serves the metrics.
    routes = [Route("/healthz", health.answer), Route("/{path:path}", metrics)]
    app = Starlette(routes=routes, middleware=[Middleware(GZipMiddleware)])
    return WebServer(app, settings.metrics_host, port, WebOptions.of(settings))
