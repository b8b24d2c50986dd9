"""Limits connections of HTTP clients: how many there may be, and how long a request may take to arrive.

The rule: a client costs little until it has sent its request. Connections are counted from when
they are accepted, before TLS, until they are closed.
"""

import asyncio
import ipaddress
import logging
import re
import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pipeline.runtime import ConflictError, get_logger
from pipeline.web_config import WebSecurity

MAX_CONNECTIONS = 512
"""Connections of all clients: by default a process may open 1024 files."""
REQUEST_TIMEOUT_S = 10.0
"""How long a request may take to arrive, head and body."""
_UNACKNOWLEDGED_MS = 30_000
"""How long sent data may wait for the client's acknowledgement, such as of a phone in a tunnel."""
CERTIFICATE = "kcm.certificate"
"""The key in a request's state of the subject of the client's certificate; empty if it presented none."""
_WARN_INTERVAL_S = 60.0


def client_network(host: str) -> str:
    """Return the key by which a client is counted: its address, or for IPv6 the network that one client has.

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


def is_in(host: str, networks: Iterable[str]) -> bool:
    """Return whether an address is one of these addresses, or in one of these networks.

    >>> is_in("10.0.0.7", ["10.0.0.0/8"]), is_in("10.0.0.7", ["::1"])
    (True, False)
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    listed = tuple(networks)
    known = (ipaddress.ip_network(each, strict=False) for each in (*listed, *mapped(listed)))
    return any(address in each for each in known)


def mapped(networks: Iterable[str]) -> list[str]:
    """Return IPv4 networks in the form in which a socket that also listens on IPv6 sees them.

    >>> mapped(["10.0.0.0/8", "10.1.2.3", "2001:db8::/32"])
    ['::ffff:10.0.0.0/104', '::ffff:10.1.2.3/128']
    """
    found = (ipaddress.ip_network(each, strict=False) for each in networks)
    return [
        f"::ffff:{each.network_address}/{96 + each.prefixlen}"
        for each in found
        if each.version == 4  # noqa: PLR2004  # IPv4
    ]


class _Connection(socket.socket):
    """A client's socket, counted from its acceptance until it is closed."""

    on_close: Callable[[], None] | None = None

    def close(self) -> None:
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close()
        super().close()


class _Listener(socket.socket):
    """A listening socket that closes excess connections at once."""

    most = 0
    proxies: tuple[str, ...] = ()
    clients: Counter[str]
    warned_at_s = -_WARN_INTERVAL_S

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection; raise ConnectionAbortedError if it was one too many and is closed."""
        accepted, address = super().accept()
        client = client_network(address[0])
        is_over_its_own = self.clients[client] >= self.most and not is_in(address[0], self.proxies)
        if is_over_its_own or self.clients.total() >= MAX_CONNECTIONS:
            accepted.close()
            self._warn(client)
            raise ConnectionAbortedError
        connection = _Connection(fileno=accepted.detach())
        self.clients[client] += 1
        connection.on_close = lambda: self._forget(client)
        return connection, address

    def _forget(self, client: str) -> None:
        self.clients[client] -= 1
        if not self.clients[client]:
            del self.clients[client]

    def _warn(self, client: str) -> None:
        now_s = time.monotonic()
        if now_s - self.warned_at_s >= _WARN_INTERVAL_S:
            self.warned_at_s = now_s
            get_logger("web").warning(
                "a connection was refused: too many are open",
                client=client,
                of_client=self.clients[client],
                of_all=self.clients.total(),
            )


def listen(host: str, port: int, most: int, proxies: tuple[str, ...]) -> socket.socket:
    """Return a listening socket; raise ConflictError, naming the port, when it is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is given because asyncio sets TCP_NODELAY only then. Without it, each answer on a
    # persistent connection waits 40 ms for the scraper's delayed acknowledgement.
    listening = _Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.most, listening.proxies, listening.clients = most, proxies, Counter()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sys.platform == "linux":
        # This detects a viewer whose machine has vanished, sooner than after a quarter of an hour.
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


_PROTOCOL_LOG = logging.getLogger("kcm.http")
"""Receives what uvicorn logs about a connection: unexpected exceptions, but not each client's bad request."""


def _is_unexpected(entry: logging.LogRecord) -> bool:
    """Return whether more than a client that left, or the server's end, broke off an answer."""
    error = entry.exc_info[1] if entry.exc_info else None
    is_cancelled = isinstance(error, asyncio.CancelledError)
    return not is_cancelled and "without completing" not in entry.getMessage()


_PROTOCOL_LOG.setLevel(logging.ERROR)
_PROTOCOL_LOG.addFilter(_is_unexpected)


def protocol_class(security: WebSecurity) -> type[H11Protocol]:
    """Return the protocol class for connections."""

    class Protocol(H11Protocol):
        """HTTP/1.1 with a deadline for requests, for clients with an allowed certificate."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
            self.logger = _PROTOCOL_LOG
            super().connection_made(transport)
            tls = transport.get_extra_info("ssl_object")
            if not _has_name(tls, security.allowed_names):
                transport.abort()
                return
            self.app_state = {**self.app_state, CERTIFICATE: subject_text(_certificate(tls))}
            self._watch()

        def handle_events(self) -> None:
            super().handle_events()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end_watch()
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


_SHORT = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The names of RFC 4514, section 3."""


def subject_text(certificate: Mapping[str, Any]) -> str:
    r"""Return a verified certificate's subject in the form of RFC 4514, or its first alternative name.

    Empty if there is no certificate.

    >>> subject_text({"subject": ((("countryName", "DE"),), (("commonName", "ann, ops"),))})
    'CN=ann\\, ops,C=DE'
    >>> subject_text({"subject": (), "subjectAltName": (("URI", "spiffe://prod/prometheus"),)})
    'URI:spiffe://prod/prometheus'
    """
    parts = [
        "+".join(f"{_SHORT.get(kind, kind)}={_escaped(text)}" for kind, text in names)
        for names in reversed(certificate.get("subject", ()))
    ]
    others = [f"{kind}:{name}" for kind, name in certificate.get("subjectAltName", ())]
    return ",".join(parts) or next(iter(others), "")


def _escaped(text: str) -> str:
    return re.sub(r'([,+"\\<>;=])', r"\\\1", text)


def _certificate(tls: ssl.SSLObject | None) -> Mapping[str, Any]:
    """Return a client's certificate if it was verified, else an empty one."""
    return (None if tls is None else tls.getpeercert()) or {}


def _has_name(tls: ssl.SSLObject | None, allowed: Collection[str]) -> bool:
    """Return whether a client's certificate holds an allowed name; true when there is no list."""
    return not allowed or any(
        name in allowed for _kind, name in _certificate(tls).get("subjectAltName", ())
    )
