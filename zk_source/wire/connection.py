# ruff: noqa: SLF001 -- kazoo has no public hook for its connection handler, its queue or its state
"""Provides kazoo's client with a connection handler that keeps socket order.

The rule: kazoo connects, authenticates, pings, and keeps the session. What the socket brings for us
goes into one inbox, in the order of its arrival, on the thread that read it. kazoo's own callbacks
run on two threads, which loses the order, so none is used. kazoo's session states are put into the
inbox on that same thread.
"""

from typing import Any

from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import KazooTimeoutError

from zk_source.wire.inbox import Inbox, Reply
from zk_source.wire.jute import decode_event, encode
from zk_source.wire.operations import Err, Request
from zk_source.wire.pipelining import PipeliningConnection


class _Sink:
    """Passes a request's reply to the inbox, in place of kazoo's result object."""

    __slots__ = ("_inbox", "_token")

    def __init__(self, inbox: Inbox, token: int) -> None:
        self._inbox = inbox
        self._token = token

    def set_reply(self, zxid: int, err: int, body: bytes, offset: int) -> None:
        """Pass on a reply without decoding it, which is not the socket thread's work."""
        self._inbox.put(Reply(self._token, zxid, err, body, offset))

    def set_exception(self, _error: Exception) -> None:
        """Report that the request failed with its connection."""
        self._inbox.put(Reply(self._token, 0, Err.CONNECTION_LOSS, b"", 0))


class OrderedConnection(PipeliningConnection):
    """kazoo's connection handler, which puts notifications and our replies into the inbox."""

    def __init__(self, *args: Any, inbox: Inbox, chroot: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._inbox = inbox
        self._chroot = chroot
        self.server = ""
        self.failures = 0
        """Failed attempts to connect since the last connection."""

    def send(self, token: int, request: Request) -> None:
        """Queue a request; its reply will be in the inbox."""
        self.client._call(encode(request, self._chroot), _Sink(self._inbox, token))

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        self._inbox.put_notification(*decode_event(buffer, offset, self._chroot))

    def _read_response(self, header: Any, buffer: bytes, offset: int) -> Any:
        pending = self.client._pending
        if not pending or not isinstance(pending[0][1], _Sink):
            return super()._read_response(header, buffer, offset)
        _request, sink, xid = pending.popleft()
        if header.xid != xid:
            sink.set_exception(ConnectionDropped())
            raise ConnectionDropped(f"xids do not match: expected {xid}, received {header.xid}")
        if header.zxid > 0:
            self.client.last_zxid = header.zxid
        sink.set_reply(header.zxid, header.err, buffer, offset)
        return None

    def _expand_client_hosts(self) -> Any:
        hosts = super()._expand_client_hosts()
        if not hosts:
            self.last_error, self.tls_advice = "no host name resolves", ""
            self.failures += 1
        return hosts

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        self.server = f"{host}:{port}"
        try:
            timeouts = super()._connect(host, hostip, port)
        except (ConnectionDropped, KazooTimeoutError):
            self.failures += 1
            raise
        self.failures = 0
        return timeouts
