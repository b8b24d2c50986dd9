# ruff: noqa: SLF001 -- kazoo has no public hook for its queue, its socket or its wake-up bytes
"""Sends single reads by the hundred on one kazoo connection: one system call for many of them.

The rule: kazoo would send and receive the same, in the same order, but with a select and a system
call for each request. Only single reads are written together; any other request takes kazoo's own
way. Bounded: `MOST_TOGETHER` requests, `RECEIVE_BYTES` at a time.
"""

import ssl
import struct
from typing import Any

from kazoo.exceptions import ConnectionDropped

from zk_source.wire.jute import EncodedRequest
from zk_source.wire.kazoo_client import Authenticating

MOST_TOGETHER = 64
"""Requests in one write: about 5 KB, far below what a socket accepts at once."""

RECEIVE_BYTES = 65_536

_INT = struct.Struct("!i")
_FRAME = struct.Struct("!iii")
_LARGEST_XID = 2**31 - 1


class PipeliningConnection(Authenticating):
    """kazoo's connection handler with a buffer on each side."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._xid: int
        self._received = bytearray()

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        self._received.clear()
        return super()._connect(host, hostip, port)

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        queue = self.client._queue
        together: list[tuple[EncodedRequest, Any]] = []
        # By index: another thread appends in the meantime; only this one removes.
        while len(together) < min(len(queue), MOST_TOGETHER):
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
