"""Decides who may ask a part over HTTP, and how an answer is sent: names, passwords, deadlines.

A request is refused before any page sees it. A request under a foreign host name gets no
answer, so that no foreign page in a browser can read kcm's pages (DNS rebinding). What a client
does not read in time is dropped: uvicorn waits for a client as long as its connection lives.
"""

import asyncio
import ipaddress
import re
import socket
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.runtime import get_logger
from web.config import WebSecurity
from web.connections import CERTIFICATE, LEFT, client_network
from web.passwords import BusyError, Passwords

TAKEN_TIMEOUT_S = 30.0
"""How long a client may take to read each piece of an answer."""
PIECE = 256 * 1024
"""Bytes of an answer that may wait for a client at a time."""
_RETRY_AFTER_S = 5
OPEN_PATHS = {"/healthz", "/readyz"}
"""Paths for probes, which have no password: they get only the status."""
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?")
_REFUSALS = {
    HTTPStatus.UNAUTHORIZED: "a user and a password are required",
    HTTPStatus.SERVICE_UNAVAILABLE: "many passwords wait to be checked; this one keeps its place: ask again",
    HTTPStatus.MISDIRECTED_REQUEST: "the Host is no name of this server; the setting allowed_hosts names more",
}


class SlowClientError(TimeoutError):
    """A client does not read its answer."""


class RequestGuard:
    """Refuses requests under a foreign host name or without a password, and passes on the others."""

    def __init__(
        self,
        app: ASGIApp,
        security: WebSecurity,
        names: Iterable[str],
        *,
        access_log: bool,
        refused: Callable[[int], None],
    ) -> None:
        """Set the names under which the server may be asked, in addition to its own and any address.

        `refused` is called with the status of each refusal.
        """
        self._app = app
        self._security = security
        own = ("localhost", socket.gethostname(), *names)
        self._names = [name.lower().strip("[]") for name in own]
        self._refused = refused
        self._passwords = Passwords()
        self._log = get_logger("web") if access_log else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        began_s = time.monotonic()
        status = 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answered = MutableHeaders(scope=message)
                for name, text in self._security.config.http_server_config.headers.items():
                    if text:
                        answered.setdefault(name, text)  # the page's own take precedence
            await _send_pieces(send, message)

        who = {"certificate": scope.get("state", {}).get(CERTIFICATE)}
        try:
            refusal = await self._refusal(scope, who)
            if refusal is None:
                await self._app(scope, receive, send_on)
            elif refusal != HTTPStatus.MISDIRECTED_REQUEST and scope["path"] in OPEN_PATHS:
                await self._app(scope, receive, _status_alone(send_on))
            else:
                self._refused(refusal)
                await _refusal_of(refusal)(scope, receive, send_on)
        except SlowClientError:
            pass  # the client reads nothing: uvicorn closes the connection
        finally:
            if self._log is not None:
                self._log.info(
                    "access",
                    client=(scope.get("client") or ("",))[0],
                    method=scope["method"],
                    path=scope["path"],
                    status=status,
                    took_ms=round((time.monotonic() - began_s) * 1000),
                    # No name with a wrong password: it may be a password in the wrong field.
                    **{name: text for name, text in who.items() if text},
                )

    async def _refusal(self, scope: Scope, who: dict[str, str | None]) -> HTTPStatus | None:
        """Return the status of a refusal; None if the request may be answered. Add the user to `who`."""
        headers = Headers(scope=scope)
        if not is_own_host(headers.get("host"), self._names):
            return HTTPStatus.MISDIRECTED_REQUEST
        users = self._security.users
        if not users:
            return None
        client = client_network((scope.get("client") or ("",))[0])
        left = scope.get("state", {}).get(LEFT)
        try:
            who["user"] = await self._passwords.match(
                users, headers.get("authorization"), client, left
            )
        except BusyError:
            return HTTPStatus.SERVICE_UNAVAILABLE
        return HTTPStatus.UNAUTHORIZED if who["user"] is None else None


def _refusal_of(status: HTTPStatus) -> Response:
    headers = {"connection": "close"}  # nothing more is read from a client that is refused
    if status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = 'Basic realm="kcm", charset="UTF-8"'
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["retry-after"] = str(_RETRY_AFTER_S)
    detail = _REFUSALS[status]
    body = {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}
    return JSONResponse(body, status, headers, "application/problem+json")


def is_own_host(header: str | None, names: Iterable[str]) -> bool:
    """Return whether a Host is ours: an address, or one of the names; `*.` stands for any labels.

    An address cannot be the name of a foreign page, and a client that sends no Host is not a
    browser.

    >>> [is_own_host(host, ["localhost", "*.lan"]) for host in ("[::1]:80", "a.lan", "evil.com", "")]
    [True, True, False, False]
    """
    if header is None:
        return True
    match = _HOST.fullmatch(header)
    if match is None:
        return False
    host = match[1].strip("[]").lower().rstrip(".")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return any(
            name in {host, "*"} or (name.startswith("*.") and host.endswith(name[1:]))
            for name in names
        )
    return True


async def _send_pieces(send: Send, message: Message) -> None:
    """Send a message in pieces that a client must read in time; raise SlowClientError if it does not."""
    body, more = message.get("body", b""), message.get("more_body", False)
    try:
        for at in range(0, len(body) or 1, PIECE):
            piece = message
            if len(body) > PIECE:
                more_body = more or at + PIECE < len(body)
                piece = {**message, "body": body[at : at + PIECE], "more_body": more_body}
            await asyncio.wait_for(send(piece), TAKEN_TIMEOUT_S)
    except TimeoutError as error:
        raise SlowClientError from error


def _status_alone(send: Send) -> Send:
    """Return a sender that sends only the status of an answer, without its content."""

    async def send_status(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send({**message, "headers": [(b"content-length", b"0")]})
        elif not message.get("more_body", False):
            await send({"type": "http.response.body", "body": b""})

    return send_status
