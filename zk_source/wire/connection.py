# ruff: noqa: SLF001 -- kazoo has no public hook for its connection handler, its queue, its socket or its state
"""Provides kazoo's client with a connection handler that keeps socket order and sends many reads at once.

Kazoo connects, authenticates, pings, and keeps the session. What the socket brings for us
goes into one inbox, in the order of its arrival, on the thread that read it. kazoo's own callbacks
run on two threads, which loses the order, so none is used. kazoo's session states are put into the
inbox on that same thread.

kazoo would send and receive the same, in the same order, but with a select and a system call for
each request. Only single reads are written together; any other request takes kazoo's own way. In a
resync by one-shot watches, sending together saves 44 % of the watcher's processor time, receiving
together 48 %, both 59 % and 46 % of the time (`python -m bench wire`); by recursive watches, whose
requests are few and large, neither saves anything. kazoo is pinned:
tests/unit/zk_source/wire/test_kazoo_release fails when another release is installed.
Bounded: `MAX_TOGETHER` requests, `RECEIVE_BYTES` at a time.
"""

import ssl
import struct
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import KazooTimeoutError

from zk_source.wire.inbox import Inbox, Reply
from zk_source.wire.jute import EncodedRequest, decode_event, encode
from zk_source.wire.kazoo_client import Authenticating
from zk_source.wire.operations import Err, Request

MAX_TOGETHER = 64
"""Requests in one write: about 5 KB, far below what a socket accepts at once."""

RECEIVE_BYTES = 65_536

_INT = struct.Struct("!i")
_FRAME = struct.Struct("!iii")
_LARGEST_XID = 2**31 - 1


@dataclass(slots=True, eq=False)
class _Sink:
    """Stands for a request of ours in place of kazoo's result object."""

    inbox: Inbox
    token: int

    def set_exception(self, _error: Exception) -> None:
        """Report that the request failed with its connection."""
        self.inbox.put(Reply(self.token, 0, Err.CONNECTION_LOSS, b"", 0))


class OrderedConnection(Authenticating):
    """kazoo's connection handler with a buffer on each side; notifications and our replies go into the inbox."""

    def __init__(self, *args: Any, inbox: Inbox, chroot: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._xid: int
        self._received = bytearray()
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
        # Decoding is not the socket thread's work.
        self._inbox.put(Reply(sink.token, header.zxid, header.err, buffer, offset))
        return None

    def _expand_client_hosts(self) -> Any:
        hosts = super()._expand_client_hosts()
        if not hosts:
            self.last_error, self.tls_advice = "no host name resolves", ""
            self.failures += 1
        return hosts

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        self.server = f"{host}:{port}"
        self._received.clear()
        try:
            timeouts = super()._connect(host, hostip, port)
        except (ConnectionDropped, KazooTimeoutError):
            self.failures += 1
            raise
        self.failures = 0
        return timeouts

    # --- many reads at once -----------------------------------------------------------------

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        queue = self.client._queue
        together: list[tuple[EncodedRequest, Any]] = []
        # By index: another thread appends in the meantime; only this one removes.
        while len(together) < min(len(queue), MAX_TOGETHER):
            request, sink = queue[len(together)]
            if not (isinstance(request, EncodedRequest) and request.is_single_read):
                break
            together.append((request, sink))
        if len(together) <= 1:
            super()._send_request(read_timeout, connect_timeout)
            return
        out = bytearray()
        pending = []
        xid: int = self._xid
        for request, sink in together:
            xid = (xid % _LARGEST_XID) + 1
            body = request.serialize()
            out += _FRAME.pack(len(body) + 2 * _INT.size, xid, request.type) + body
            pending.append((request, sink, xid))
        self._xid = xid
        self._write(out, connect_timeout)
        for _ in pending:
            queue.popleft()
        # Each request's wake-up byte is written after the request is queued; a late one wakes this
        # thread for nothing.
        self._read_sock.recv(len(pending))
        self.client._pending.extend(pending)

    def _read_socket(self, read_timeout: float) -> Any:
        response = super()._read_socket(read_timeout)
        while response is None and self._whole_reply_received():
            response = super()._read_socket(read_timeout)
        return response

    def _whole_reply_received(self) -> bool:
        received = self._received
        if len(received) < _INT.size:
            return False
        return len(received) >= _INT.size + int(_INT.unpack_from(received)[0])

    def _read(self, length: int, timeout: float) -> bytes:
        received = self._received
        while len(received) < length:
            received += self._receive(timeout)
        data = bytes(received[:length])
        del received[:length]
        return data

    def _receive(self, timeout: float) -> bytes:
        """Wait for data and return it. TLS may hold bytes that select does not show."""
        with self._socket_error_handling():
            while True:
                waiting = getattr(self._socket, "pending", None)
                if not (waiting and waiting()):
                    ready = self.handler.select([self._socket], [], [], timeout)[0]
                    if not ready:
                        raise self.handler.timeout_exception("socket time-out during read")
                try:
                    data: bytes = self._socket.recv(RECEIVE_BYTES)
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    continue
                if not data:
                    raise ConnectionDropped("socket connection broken")
                return data
