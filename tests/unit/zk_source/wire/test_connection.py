"""What the socket brings arrives in the inbox, in its order and without the chroot."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KeeperState

from pipeline.settings import load
from zk_source.config import WatchSettings
from zk_source.wire.connection import OrderedConnection
from zk_source.wire.inbox import Inbox, Notification, Reply
from zk_source.wire.kazoo_client import make_client
from zk_source.wire.operations import Err, EventType, Sync

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


class Header(NamedTuple):
    """A reply's header."""

    xid: int
    zxid: int
    err: int


@pytest.fixture
def inbox() -> Inbox:
    """The inbox that everything is put into."""
    return Inbox()


@pytest.fixture
def connection(inbox: Inbox) -> OrderedConnection:
    """A connection handler whose client is not started, with two requests sent."""
    settings = load(WatchSettings, zookeeper="zk1:2181/kafka")
    client, made = make_client(
        settings, OrderedConnection, most_reconnect_s=1.0, inbox=inbox, chroot=settings.chroot
    )
    client._state = KeeperState.CONNECTED
    made._write_sock = SimpleNamespace(send=lambda _wake_up: 1)
    for token in (7, 8):
        made.send(token, Sync("/"))
    while client._queue:
        request, sink = client._queue.popleft()
        client._pending.append((request, sink, len(client._pending) + 1))
    return made


def test_notifications_and_replies_come_in_the_order_of_the_socket(
    connection: OrderedConnection, inbox: Inbox
) -> None:
    """A reply is passed on undecoded, with its token; the client learns the zxid."""
    path = b"/kafka/controller"
    event = struct.pack("!iii", EventType.CREATED, 3, len(path)) + path
    connection._read_watch_event(event, 0)
    connection._read_response(Header(1, 42, Err.OK), b"body", 0)
    assert inbox.pop(0) == Notification(EventType.CREATED, "/controller")
    assert inbox.pop(0) == Reply(7, 42, Err.OK, b"body", 0)
    assert connection.client.last_zxid == 42


def test_a_reply_to_another_request_ends_the_connection(
    connection: OrderedConnection, inbox: Inbox
) -> None:
    """Its request has failed: no request takes another one's values for its own."""
    with pytest.raises(ConnectionDropped, match="expected 1, received 2"):
        connection._read_response(Header(2, 42, Err.OK), b"", 0)
    assert inbox.pop(0) == Reply(7, 0, Err.CONNECTION_LOSS, b"", 0)


def test_a_request_without_a_session_fails_at_once(
    connection: OrderedConnection, inbox: Inbox
) -> None:
    """Nobody waits for a reply that cannot arrive."""
    connection.client._state = KeeperState.CLOSED
    connection.send(9, Sync("/"))
    assert inbox.pop(0) == Reply(9, 0, Err.CONNECTION_LOSS, b"", 0)


def test_failed_attempts_to_connect_are_counted_until_one_succeeds(
    monkeypatch: pytest.MonkeyPatch, connection: OrderedConnection
) -> None:
    """The user is told when all hosts have failed; the server of the session is named."""
    outcomes: list[Exception | None] = [ConnectionDropped(), KazooTimeoutError(), None]

    def connect(*_: object) -> tuple[int, int]:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return 4_000, 2_000

    monkeypatch.setattr(ConnectionHandler, "_connect", connect)
    for failures, error in ((1, ConnectionDropped), (2, KazooTimeoutError)):
        with pytest.raises(error):
            connection._connect("zk1", "10.0.0.1", 2181)
        assert connection.failures == failures
    connection._received += b"of the connection before"
    assert connection._connect("zk2", "10.0.0.2", 2181) == (4_000, 2_000)
    assert (connection.failures, connection.server) == (0, "zk2:2181")
    assert not connection._received


# --- bytes received together ----------------------------------------------------------------


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


def received(connection: OrderedConnection, *pieces: bytes) -> OrderedConnection:
    """Return the connection handler on such a socket."""
    socket: Any = Socket(*pieces)
    connection._socket = socket
    connection._received.clear()
    return connection


def test_a_read_returns_exactly_the_requested_bytes(connection: OrderedConnection) -> None:
    """However the network splits them: the rest waits for the next read."""
    received(connection, b"ab", b"cdef")
    assert connection._read(3, 1.0) == b"abc"
    assert connection._read(3, 1.0) == b"def"
    with pytest.raises(ConnectionDropped):
        connection._read(1, 1.0)


def test_a_reply_is_complete_when_all_its_bytes_have_arrived(connection: OrderedConnection) -> None:
    """Then it is passed on without another read of the socket."""
    reply = struct.pack("!i", 4) + b"1234"
    for cut in range(len(reply)):
        received(connection)
        connection._received += reply[:cut]
        assert not connection._whole_reply_received()
    connection._received[:] = reply
    assert connection._whole_reply_received()
