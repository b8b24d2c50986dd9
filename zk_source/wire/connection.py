# ruff: noqa: SLF001 -- kazoo has no public hook for its connection handler, its queue or its state
"""kazoo's client with a connection handler that keeps socket order.

The rule: kazoo connects, authenticates, pings, and keeps the session; what the socket brings for us
goes into one inbox, in the order it came, on the thread that read it. kazoo's own callbacks come
from two threads and reorder, so none is used. kazoo's session states are put in on that same thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kazoo.exceptions import ConnectionDropped, KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from zk_source.config import WatchSettings
from zk_source.wire.chroot import Chroot
from zk_source.wire.inbox import Inbox, Reply, SessionChanged
from zk_source.wire.jute import decode_event, encode
from zk_source.wire.kazoo_client import ConnectionTrouble, make_client, stop_client
from zk_source.wire.operations import Err, Request
from zk_source.wire.pipelining import PipeliningConnection

MOST_RECONNECT_S = 2.0
"""Pauses between tries of all hosts double up to this: a sick ensemble is not hammered."""

ANSWER_TIMEOUT_S = 2.0


class _Sink:
    """Takes the place of kazoo's result object: where a request's reply goes."""

    __slots__ = ("_inbox", "_token")

    def __init__(self, inbox: Inbox, token: int) -> None:
        self._inbox = inbox
        self._token = token

    def set_reply(self, zxid: int, err: int, body: bytes, offset: int) -> None:
        """Pass a reply on, undecoded: decoding is not the socket thread's work."""
        self._inbox.put(Reply(self._token, zxid, err, body, offset))

    def set_exception(self, _error: Exception) -> None:
        """Pass on that the request failed with its connection."""
        self._inbox.put(Reply(self._token, 0, Err.CONNECTION_LOSS, b"", 0))


class OrderedConnection(PipeliningConnection):
    """kazoo's connection handler, with notifications and our replies going into the inbox."""

    def __init__(self, *args: Any, inbox: Inbox, chroot: Chroot, **options: Any) -> None:
        super().__init__(*args, **options)
        self._inbox = inbox
        self._chroot = chroot
        self.server = ""
        self.failures = 0
        """Failed tries to connect since the last connection."""

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        type_, path = decode_event(buffer, offset)
        self._inbox.put_notification(type_, self._chroot.within(path))

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


class ZooKeeperClient(ConnectionTrouble[OrderedConnection]):
    """One kazoo client: connects and reconnects by itself until it is closed."""

    def __init__(self, settings: WatchSettings, inbox: Inbox, *, number: int) -> None:
        self.number = number
        self._inbox = inbox
        self._chroot = Chroot(settings.chroot)
        self._client, self._connection = make_client(
            settings,
            OrderedConnection,
            most_reconnect_s=MOST_RECONNECT_S,
            inbox=inbox,
            chroot=self._chroot,
        )
        self._client.add_listener(self._on_state)

    @property
    def failures(self) -> int:
        """Failed tries to connect since the last connection, over all hosts."""
        return self._connection.failures

    @property
    def ended(self) -> bool:
        """The client's thread has ended by itself: only a new client helps."""
        return bool(self._connection.connection_stopped.is_set())

    def start(self) -> None:
        """Begin to connect; states come by the inbox."""
        self._client.start_async()

    def send(self, token: int, request: Request) -> None:
        """Queue a request."""
        self._client._call(encode(request, self._chroot), _Sink(self._inbox, token))

    def nearest(self, path: str) -> tuple[str, Sequence[str]]:
        """Return the nearest existing ancestor of a whole path, and its children.

        Blocks for a moment; without an answer it is the root, with nothing known of it.
        """
        try:
            while path not in {"", "/"}:
                try:
                    return path, self._children(path)
                except NoNodeError:
                    path = path.rpartition("/")[0]
            return "/", self._children("/")
        except (KazooException, KazooTimeoutError):
            return "/", ()

    def _children(self, path: str) -> Sequence[str]:
        return sorted(self._client.get_children_async(path).get(timeout=ANSWER_TIMEOUT_S))

    def close(self) -> None:
        """End the session and the threads; waits at most a few seconds."""
        stop_client(self._client)

    def _on_state(self, state: str) -> None:
        self._inbox.put(SessionChanged(self.number, state, self._connection.server))
