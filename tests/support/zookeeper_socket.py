"""A server on a socket that speaks as much of ZooKeeper's protocol as a session of kazoo needs, with a fixed tree."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from zk_source.wire.operations import Err, Op

HOST = "127.0.0.1"
_CLOSE = -11
_HEADER = struct.Struct("!iqi")


class ZookeeperSocket(socketserver.ThreadingTCPServer):
    """Answers reads of children from its tree, and everything else with a header only."""

    daemon_threads = True

    def __init__(self, tree: Mapping[str, Sequence[str]]) -> None:
        super().__init__((HOST, 0), _Session)
        self.tree = tree

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{HOST}:{self.server_address[1]}"


class _Session(socketserver.StreamRequestHandler):
    """One connection."""

    server: ZookeeperSocket

    def handle(self) -> None:
        """Accept the session, then answer each request until the client closes it."""
        self._read()
        self._write(struct.pack("!iiqi16s?", 0, 10_000, 1, 16, bytes(16), False))
        while request := self._read():
            xid, kind = struct.unpack_from("!ii", request)
            err, body = Err.OK, b""
            if kind == Op.GET_CHILDREN:
                (length,) = struct.unpack_from("!i", request, 8)
                names = self.server.tree.get(request[12 : 12 + length].decode())
                err = Err.OK if names is not None else Err.NO_NODE
                body = struct.pack("!i", len(names or ())) + b"".join(map(_string, names or ()))
            self._write(_HEADER.pack(xid, 1, err) + body)
            if kind == _CLOSE:
                return

    def _read(self) -> bytes:
        length = self.rfile.read(4)
        return self.rfile.read(int.from_bytes(length, "big")) if length else b""

    def _write(self, frame: bytes) -> None:
        self.wfile.write(struct.pack("!i", len(frame)) + frame)


def _string(text: str) -> bytes:
    return struct.pack("!i", len(text)) + text.encode()


@contextmanager
def zookeeper_socket(tree: Mapping[str, Sequence[str]]) -> Iterator[ZookeeperSocket]:
    """Serve a tree, which maps paths to the names of their children, while the context lasts."""
    with ZookeeperSocket(tree) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
