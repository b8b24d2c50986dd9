"""The HTTP server: routes, counting, errors, and uvicorn in a thread.

The rule: GET and HEAD only; errors are problem+json (RFC 9457). The socket is taken before
anything runs, so that a port in use is one clear line.
"""

from __future__ import annotations

import socket
import sys
import threading
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from exporter.api.endpoints import Handler
from exporter.api.responses import problem_response
from exporter.core.metrics import ExporterMetrics
from exporter.serve.pages import Pages
from pipeline.runtime import ConflictError

NO_ROUTE = "none"
"""What requests are counted under whose path or method is not served."""
_STARTUP_TIMEOUT_S = 5.0
_SHUTDOWN_TIMEOUT_S = 2
_UNACKNOWLEDGED_MS = 30_000
"""How long what was sent may wait for the other side: a phone that is in a tunnel."""


def make_app(pages: Pages, metrics: ExporterMetrics) -> Starlette:
    """Return the application: the pages, counted, and errors as problem+json."""

    def counted(path: str, handler: Handler) -> Handler:
        async def handle(request: Request) -> Response:
            request.state.route = path
            response = await handler(request)
            metrics.requests.labels(path, str(response.status_code)).inc()
            return response

        return handle

    async def on_error(request: Request, error: Exception) -> Response:
        status, detail = 500, "an error of ours; see the log"
        headers: dict[str, str] = {}
        if isinstance(error, HTTPException):
            status, detail, headers = error.status_code, error.detail, dict(error.headers or {})
        route = getattr(request.state, "route", NO_ROUTE)
        metrics.requests.labels(route, str(status)).inc()
        return problem_response(status, detail, headers)

    app = Starlette(
        routes=[
            Route(path, counted(path, handler), methods=["GET"])
            for path, handler in pages.routes().items()
        ],
        exception_handlers={HTTPException: on_error, Exception: on_error},
    )
    # A path with a slash too many is not known: a redirect would trust the Host that was asked for.
    app.router.redirect_slashes = False
    app.state.end_streams = pages.live.end
    return app


class HttpServer:
    """uvicorn on a socket of ours, in a thread; a context manager."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        self._app = app
        self._socket = _listen(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    @property
    def url(self) -> str:
        """Where the server is."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether the server's thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        # Answers without an end would keep the server until its shutdown timeout.
        self._app.state.end_streams()
        self._server.should_exit = True
        self._thread.join(_SHUTDOWN_TIMEOUT_S + _STARTUP_TIMEOUT_S)
        self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises ConflictError, naming the port, when it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sets TCP_NODELAY only then; without it each answer on a
    # connection that is kept open waits 40 ms for the scraper's delayed acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sys.platform == "linux":
        # A viewer whose machine has vanished is noticed by this, not after a quarter of an hour.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise ConflictError(
            f"cannot serve on {host}:{port}: {error.strerror or error}; "
            "choose another port, or 0 for a free one"
        ) from error
    return listening
