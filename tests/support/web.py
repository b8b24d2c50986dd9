"""A page's server on a free port, and clients that send raw bytes to it."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pipeline.web import WebOptions, WebServer

bcrypt = pytest.importorskip("bcrypt", reason="bcrypt is not installed: run make setup")
PASSWORD = "open sesame"  # noqa: S105  # of a server that runs during a test
ANSWERED_TIMEOUT_S = 20.0


def hashed(password: str = PASSWORD) -> str:
    """Return a hash in htpasswd's format that is cheap to check."""
    made: bytes = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4))
    return made.decode().replace("$2b$", "$2y$")


def page(big: bytes = b"") -> Starlette:
    """Return an application that answers who asks, its state, and a large body."""

    async def who(request: Request) -> Response:
        assert request.client is not None
        return PlainTextResponse(request.client.host, headers={"x-frame-options": "deny"})

    async def health(_request: Request) -> Response:
        return PlainTextResponse("what nobody else is to know")

    async def much(_request: Request) -> Response:
        return Response(big)

    routes = [Route("/", who), Route("/healthz", health), Route("/big", much)]
    return Starlette(routes=routes)


@contextmanager
def serving(
    options: WebOptions | None = None, app: Starlette | None = None, host: str = "127.0.0.1"
) -> Iterator[WebServer]:
    """Serve the page within the block."""
    with WebServer(app or page(), host, 0, options or WebOptions()) as server:
        yield server


def write_config(folder: Path, text: str) -> Path:
    """Write a web configuration file, and return its path."""
    path = folder / "web.yaml"
    path.write_text(text)
    return path


@contextmanager
def connected(
    server: WebServer, *, of: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> Iterator[socket.socket]:
    """Connect from an address of this machine."""
    plain = socket.create_connection(
        ("127.0.0.1", server.port), ANSWERED_TIMEOUT_S, source_address=(of, 0)
    )
    with plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost") as opened:
        yield opened


def basic(user: str = "alice", password: str = PASSWORD) -> str:
    """Return the Authorization header of a user and a password."""
    coded = base64.b64encode(f"{user}:{password}".encode()).decode()
    return f"Authorization: Basic {coded}"


def request(*headers: str, path: str = "/", method: str = "GET") -> bytes:
    """Return a request after which the connection is closed."""
    given = (
        headers if any(h.startswith("Host:") for h in headers) else ("Host: localhost", *headers)
    )
    lines = (f"{method} {path} HTTP/1.1", *given, "Connection: close", "", "")
    return "\r\n".join(lines).encode()


def exchange(
    server: WebServer, sent: bytes, *, of: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> bytes:
    """Send bytes, and return all that arrives until the connection ends."""
    received = bytearray()
    with connected(server, of=of, tls=tls) as client:
        try:
            client.sendall(sent)
            while piece := client.recv(65536):
                received += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
    return bytes(received)


def status(answer: bytes) -> int:
    """Return the status of an answer; 0 when there is none."""
    return int(answer.split(maxsplit=2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0
