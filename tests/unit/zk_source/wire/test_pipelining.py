"""Bytes received together are passed on piece by piece, as if each had arrived alone."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from kazoo.exceptions import ConnectionDropped

from pipeline.settings import load
from zk_source.config import WatchSettings
from zk_source.wire.kazoo_client import make_client
from zk_source.wire.pipelining import PipeliningConnection

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


class Socket:
    """A fake socket: returns these pieces, then the end of the connection."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    def pending(self) -> int:
        """Return that data is buffered, as TLS may."""
        return 1

    def recv(self, _most: int) -> bytes:
        """Return the next piece."""
        return self._pieces.pop(0) if self._pieces else b""


def connected(*pieces: bytes) -> PipeliningConnection:
    """Return a connection handler on such a socket."""
    _, connection = make_client(load(WatchSettings), PipeliningConnection, most_reconnect_s=1.0)
    socket: Any = Socket(*pieces)
    connection._socket = socket
    return connection


def test_a_read_returns_exactly_the_requested_bytes() -> None:
    """However the network splits them: the rest waits for the next read."""
    connection = connected(b"ab", b"cdef")
    assert connection._read(3, 1.0) == b"abc"
    assert connection._read(3, 1.0) == b"def"
    with pytest.raises(ConnectionDropped):
        connection._read(1, 1.0)


def test_a_reply_is_complete_when_all_its_bytes_have_arrived() -> None:
    """Then it is passed on without another read of the socket."""
    reply = struct.pack("!i", 4) + b"1234"
    for cut in range(len(reply)):
        connection = connected()
        connection._received += reply[:cut]
        assert not connection._whole_reply_received()
    connection._received[:] = reply
    assert connection._whole_reply_received()
