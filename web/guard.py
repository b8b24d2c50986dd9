"""Decides who may ask a part over HTTP, and how an answer is sent: names, passwords, deadlines.

A request is refused before any page sees it. A request under a foreign host name gets no
answer, so that no foreign page in a browser can read kcm's pages (DNS rebinding). What a client
does not read in time is dropped: uvicorn waits for a client as long as its connection lives.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.runtime import get_logger
from web.config import WebSecurity
from web.connections import CERTIFICATE

TAKEN_TIMEOUT_S = 30.0
"""How long a client may take to read each piece of an answer."""
PIECE = 256 * 1024
"""Bytes of an answer that may wait for a client at a time."""
_MAX_PASSWORDS_WAITING = 8
_MAX_PASSWORDS_KNOWN = 100
OPEN_PATHS = {"/healthz", "/readyz"}
"""Paths for probes, which have no password: they get only the status."""
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?")
_NOBODY = "$2b$10$DUbBkQhRBGwxddf2IJdym.YCvPvhXbnuIpY1MGUHF.8d/TK9.gX1m"
"""A hash for users who do not exist, so that the comparison takes as long as for one who does."""
_REFUSALS = {
    HTTPStatus.UNAUTHORIZED: "a user and a password are required",
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
        self._passwords = _Passwords()
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
            refusal = await self._refusal(Headers(scope=scope), who)
            if refusal is None:
                await self._app(scope, receive, send_on)
            elif refusal == HTTPStatus.UNAUTHORIZED and scope["path"] in OPEN_PATHS:
                await self._app(scope, receive, _status_alone(send_on))
            else:
                self._refused(refusal)
                await _refusal_of(refusal)(scope, receive, send_on)
        except SlowClientError:
            return  # the client reads nothing: uvicorn closes the connection
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

    async def _refusal(self, headers: Headers, who: dict[str, str | None]) -> HTTPStatus | None:
        """Return the status of a refusal; None if the request may be answered. Add the user to `who`."""
        if not is_own_host(headers.get("host"), self._names):
            return HTTPStatus.MISDIRECTED_REQUEST
        users = self._security.users
        if not users:
            return None
        who["user"] = await self._passwords.match(users, headers.get("authorization"))
        return HTTPStatus.UNAUTHORIZED if who["user"] is None else None


def _refusal_of(status: HTTPStatus) -> Response:
    headers = {"connection": "close"}  # nothing more is read from a client that is refused
    if status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = 'Basic realm="kcm", charset="UTF-8"'
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


class _Passwords:
    """Compares passwords in a thread, one at a time, and remembers those that were right.

    bcrypt intentionally takes as long as its cost says: guessing passwords must not delay other
    clients.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: set[bytes] = set()
        self._waiting = 0
        self._one = asyncio.Lock()

    async def match(self, users: Mapping[str, str], header: str | None) -> str | None:
        """Return the user whose password an Authorization header holds; None if it does not."""
        scheme, _, coded = (header or "").partition(" ")
        try:
            name, colon, password = base64.b64decode(coded, validate=True).partition(b":")
            user = name.decode()
        except (binascii.Error, ValueError):
            return None
        if scheme.lower() != "basic" or not colon:
            return None
        hashed = users.get(user, _NOBODY)
        seal = b"\0".join((name, hashed.encode(), password))
        known = hmac.digest(self._key, seal, hashlib.sha256)
        if known in self._known:
            return user
        if self._waiting >= _MAX_PASSWORDS_WAITING:
            return None
        self._waiting += 1
        try:
            async with self._one:
                right = await asyncio.to_thread(_is_password, password, hashed)
        finally:
            self._waiting -= 1
        if not right or user not in users:
            return None
        if len(self._known) >= _MAX_PASSWORDS_KNOWN:
            self._known.clear()
        self._known.add(known)
        return user


def _is_password(password: bytes, hashed: str) -> bool:
    import bcrypt  # noqa: PLC0415  # only where passwords are required

    try:
        return bool(bcrypt.checkpw(password, hashed.encode()))
    except ValueError:  # too long for bcrypt
        return False


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
