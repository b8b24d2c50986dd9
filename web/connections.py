"""Limits connections of HTTP clients: how many there may be, and how long a request may take to arrive.

A client costs little until it has sent its request. Connections are counted from when
they are accepted, before TLS, until they are closed. uvicorn's own limit (limit_concurrency) is one
for all clients together and refuses only complete requests, so one client could lock out all others.
"""

import asyncio
import ipaddress
import logging
import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pipeline.runtime import ConflictError, get_logger
from web.config import WebSecurity

MAX_CONNECTIONS = 512
"""Connections of all clients: by default a process may open 1024 files."""
_MAX_HEAD = 32 * 1024
"""Bytes of a request's head."""
REQUEST_TIMEOUT_S = 10.0
"""How long the handshake of TLS may take, and then a request until it has arrived, head and body; uvicorn has no such limit."""
_UNACKNOWLEDGED_MS = 30_000
"""How long sent data may wait for the client's acknowledgement, such as of a phone in a tunnel."""
CERTIFICATE = "kcm.certificate"
"""The key in a request's state of the subject of the client's certificate, or its first alternative name; empty: none."""
LEFT = "kcm.left"
"""The key in a request's state of a future that is done when the connection is lost."""
_WARN_INTERVAL_S = 60.0


def client_network(host: str) -> str:
    """Return the key by which a client is counted: its address, or for IPv6 the network that one client has.

    What a proxy passes on may be no address, and counts as it is.

    >>> client_network("10.0.0.7"), client_network("2001:db8::7"), client_network("::ffff:10.0.0.7")
    ('10.0.0.7', '2001:db8::/64', '10.0.0.7')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


def with_mapped(networks: Iterable[str]) -> list[str]:
    """Return addresses and networks, those of IPv4 also as a socket that listens on IPv6 sees them.

    >>> with_mapped(["10.0.0.0/8", "2001:db8::/32"])
    ['10.0.0.0/8', '2001:db8::/32', '::ffff:10.0.0.0/104']
    """
    given = list(networks)
    found = (ipaddress.ip_network(each, strict=False) for each in given)
    v4 = (each for each in found if isinstance(each, ipaddress.IPv4Network))
    return given + [f"::ffff:{each.network_address}/{96 + each.prefixlen}" for each in v4]


class ServerLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers end a handshake of TLS that takes too long; asyncio gives it a minute."""

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        """Create a server as asyncio does."""
        if kwargs.get("ssl") is not None:
            kwargs.setdefault("ssl_handshake_timeout", REQUEST_TIMEOUT_S)
        return await super().create_server(*args, **kwargs)


class _Http(h11.Connection):
    """HTTP/1.1 in which a request has one length.

    h11 lets Transfer-Encoding win over a Content-Length, and takes the former from HTTP/1.0 as well. A proxy in
    front may not, and would take for one request what are two here (RFC 9112, 6.3 and 11.2).
    """

    def next_event(self) -> Any:
        """Return the next event; raise RemoteProtocolError for a request with two lengths."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if b"transfer-encoding" in names and (
                b"content-length" in names or event.http_version < b"1.1"
            ):
                raise h11.RemoteProtocolError("a request with two lengths")
        return event


class _Connection(socket.socket):
    """A client's socket, counted from its acceptance until it is closed."""

    client: str | None
    clients: Counter[str]

    def close(self) -> None:
        """Close it and count it no longer; once more changes nothing, as of any socket."""
        if self.client is not None:
            self.clients -= Counter([self.client])  # in place, without what is 0
            self.client = None
        super().close()


class _Listener(socket.socket):
    """A listening socket that closes excess connections at once."""

    limit: int
    proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    clients: Counter[str]
    warned_at_s = -_WARN_INTERVAL_S

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection; raise ConnectionAbortedError if it was one too many and is closed."""
        accepted, address = super().accept()
        client, clients = client_network(address[0]), self.clients
        is_over_its_own = clients[client] >= self.limit and not any(
            ipaddress.ip_address(address[0]) in each for each in self.proxies
        )
        if is_over_its_own or clients.total() >= MAX_CONNECTIONS:
            accepted.close()
            now_s = time.monotonic()
            if now_s - self.warned_at_s >= _WARN_INTERVAL_S:
                self.warned_at_s = now_s
                open_ = {"of_client": clients[client], "of_all": clients.total()}
                get_logger("web").warning(
                    "a connection was refused: too many are open", client=client, **open_
                )
            raise ConnectionAbortedError
        connection = _Connection(fileno=accepted.detach())
        connection.client, connection.clients = client, clients
        clients[client] += 1
        return connection, address


def listen(host: str, port: int, limit: int, proxies: Iterable[str]) -> socket.socket:
    """Return a listening socket; raise ConflictError, naming the port, when it is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is given because asyncio sets TCP_NODELAY only then. Without it, each answer on a
    # persistent connection waits 40 ms for the scraper's delayed acknowledgement.
    listening = _Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.limit, listening.clients = limit, Counter()
    listening.proxies = tuple(ipaddress.ip_network(each, strict=False) for each in proxies)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sys.platform == "linux":
        # This detects a client whose machine has vanished, sooner than after a quarter of an hour.
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


def _is_unexpected(entry: logging.LogRecord) -> bool:
    """Return whether more than a client that left, or the server's end, broke off an answer."""
    error = entry.exc_info[1] if entry.exc_info else None
    is_cancelled = isinstance(error, asyncio.CancelledError)
    return not is_cancelled and "without completing" not in entry.getMessage()


# It receives what uvicorn logs about a connection, except for each client's bad request.
_PROTOCOL_LOG = logging.getLogger("kcm.http")
_PROTOCOL_LOG.setLevel(logging.ERROR)
_PROTOCOL_LOG.addFilter(_is_unexpected)


def protocol_class(security: WebSecurity) -> type[H11Protocol]:
    """Return the protocol class for connections."""

    class Protocol(H11Protocol):
        """HTTP/1.1 with a deadline for requests, for clients with an allowed certificate."""

        _deadline: asyncio.TimerHandle | None = None
        _left: asyncio.Future[None]

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
            self.logger = _PROTOCOL_LOG
            self.conn = _Http(h11.SERVER, _MAX_HEAD)
            self._left = self.loop.create_future()
            super().connection_made(transport)
            tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
            certificate: dict[str, Any] = (None if tls is None else tls.getpeercert()) or {}
            others = [name for _kind, name in certificate.get("subjectAltName", ())]
            subject = [name for group in certificate.get("subject", ()) for name in group]
            text = ", ".join(f"{kind}={name}" for kind, name in reversed(subject))
            names = text or next(iter(others), "")
            self.app_state = {**self.app_state, CERTIFICATE: names, LEFT: self._left}
            self._watch()
            settings = security.config.tls_server_config
            allowed = () if settings is None else settings.client_allowed_sans
            if allowed and not any(name in allowed for name in others):
                transport.abort()

        def handle_events(self) -> None:
            super().handle_events()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end_watch()
            self._left.set_result(None)
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Run a deadline while a part of the client's request is missing."""
            if self.conn.their_state not in {h11.IDLE, h11.SEND_BODY}:
                self._end_watch()
            elif self._deadline is None:
                self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self.transport.abort)

        def _end_watch(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Protocol
