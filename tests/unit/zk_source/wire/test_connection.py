"""What the socket brings arrives in the inbox, in its order and without the chroot."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import CLOSE_RESPONSE, ConnectionHandler
from kazoo.protocol.serialization import Close
from kazoo.protocol.states import KeeperState

from pipeline.settings import load
from zk_source.config import WatchSettings
from zk_source.wire import connection as connection_module
from zk_source.wire.connection import OrderedConnection
from zk_source.wire.inbox import Inbox, Notification, Reply
from zk_source.wire.jute import encode
from zk_source.wire.kazoo_client import make_client
from zk_source.wire.operations import Err, EventType, Op, Request, SingleRead, Sync

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


def test_a_name_that_does_not_resolve_counts_as_a_failed_attempt(
    monkeypatch: pytest.MonkeyPatch, connection: OrderedConnection
) -> None:
    """It is told in place of an earlier error; no socket was opened that could fail."""

    def find_none(*_: object) -> None:
        raise socket.gaierror

    connection.last_error, connection.tls_advice = "zk1:2181: refused", "give zk_tls_ca"
    connection.client.hosts = [("127.0.0.1", 2181)]
    assert connection._expand_client_hosts() == [("127.0.0.1", "127.0.0.1", 2181)]
    assert (connection.failures, connection.last_error) == (0, "zk1:2181: refused")
    monkeypatch.setattr(socket, "getaddrinfo", find_none)
    assert connection._expand_client_hosts() == []
    assert (connection.failures, connection.last_error) == (1, "no host name resolves")
    assert connection.tls_advice == ""


# --- requests sent together -----------------------------------------------------------------


@pytest.fixture
def server(connection: OrderedConnection) -> Iterator[socket.socket]:
    """The other end of the connection's socket; nothing is sent yet, and each request wakes the thread up."""
    ours, theirs = socket.socketpair()
    wakes, woken = socket.socketpair()
    with ours, theirs, wakes, woken:
        theirs.settimeout(0)
        woken.settimeout(0)
        connection.client._pending.clear()
        connection._socket, connection._write_sock, connection._read_sock = ours, wakes, woken
        connection._xid = 0
        yield theirs


def frames(server: socket.socket) -> list[tuple[int, int, bytes]]:
    """Return the xid, the type and the body of each request that has arrived."""
    sent, found = server.recv(1 << 20), []
    while sent:
        length, xid, kind = struct.unpack_from("!iii", sent)
        found.append((xid, kind, sent[12 : 4 + length]))
        sent = sent[4 + length :]
    return found


@pytest.mark.parametrize("most", [2, 64])
def test_single_reads_that_wait_are_sent_together(
    monkeypatch: pytest.MonkeyPatch,
    connection: OrderedConnection,
    server: socket.socket,
    most: int,
) -> None:
    """Up to a limit and to the next other request, each with its own xid, which begins again after the largest."""
    monkeypatch.setattr(connection_module, "MAX_TOGETHER", most)
    client = connection.client
    reads = [SingleRead(Op.GET_DATA, f"/{name}") for name in "abc"]
    requests: list[Request] = [*reads, Sync("/"), reads[0]]
    for token, request in enumerate(requests):
        connection.send(token, request)
    connection._xid = largest = 2**31 - 1
    connection._xid -= 2
    arrived = []
    together = []
    while client._queue:
        before = len(client._pending)
        connection._send_request(1.0, 1.0)
        arrived += frames(server)
        together.append(len(client._pending) - before)
    assert together == ([2, 1, 1, 1] if most == 2 else [3, 1, 1])
    xids = [largest - 1, largest, 1, 2, 3]
    encoded = [encode(request, "/kafka") for request in requests]
    assert arrived == [(xid, each.type, each.body) for xid, each in zip(xids, encoded, strict=True)]
    assert [(sink.token, xid) for _, sink, xid in client._pending] == list(enumerate(xids))
    with pytest.raises(BlockingIOError):
        connection._read_sock.recv(1)  # nothing is left that would wake the thread up


def test_replies_that_arrived_together_are_read_together(
    connection: OrderedConnection, inbox: Inbox, server: socket.socket
) -> None:
    """Up to the one that closes the session, which ends kazoo's loop."""
    client = connection.client
    for token in (7, 8):
        connection.send(token, SingleRead(Op.GET_DATA, "/a"))
    connection._send_request(1.0, 1.0)
    client._pending.append((Close(), None, 3))
    server.sendall(b"".join(struct.pack("!iiqi", 16, xid, 40 + xid, 0) for xid in (1, 2, 3)))
    assert connection._read_socket(1.0) == CLOSE_RESPONSE
    replies = [inbox.pop(0), inbox.pop(0)]
    assert [reply[:3] for reply in replies if isinstance(reply, Reply)] == [
        (7, 41, Err.OK),
        (8, 42, Err.OK),
    ]


# --- bytes received together ----------------------------------------------------------------


class Socket:
    """A fake socket: returns these pieces or raises these errors, then the connection ends."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self._pieces = list(pieces)

    def pending(self) -> int:
        """Return that data is buffered, as TLS may."""
        return 1

    def recv(self, _most: int) -> bytes:
        """Return the next piece."""
        piece = self._pieces.pop(0) if self._pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return piece


def received(connection: OrderedConnection, *pieces: bytes | Exception) -> OrderedConnection:
    """Return the connection handler on such a socket."""
    fake: Any = Socket(*pieces)
    connection._socket = fake
    connection._received.clear()
    return connection


def test_a_read_returns_exactly_the_requested_bytes(connection: OrderedConnection) -> None:
    """However the network and TLS's records split them: the rest waits for the next read."""
    received(connection, b"ab", ssl.SSLWantReadError(), ssl.SSLWantWriteError(), b"cdef")
    assert connection._read(3, 1.0) == b"abc"
    assert connection._read(3, 1.0) == b"def"
    with pytest.raises(ConnectionDropped):
        connection._read(1, 1.0)


def test_a_server_that_sends_nothing_in_time_is_given_up(
    connection: OrderedConnection, server: socket.socket
) -> None:
    """Then the next server is tried; what arrives in time is read."""
    connection._socket.setblocking(False)  # as kazoo does
    server.sendall(b"abc")
    assert connection._read(3, 1.0) == b"abc"
    with pytest.raises(KazooTimeoutError, match="time-out during read"):
        connection._read(1, 0.01)


def test_a_reply_is_complete_when_all_its_bytes_have_arrived(connection: OrderedConnection) -> None:
    """Then it is passed on without another read of the socket."""
    reply = struct.pack("!i", 4) + b"1234"
    for cut in range(len(reply)):
        received(connection)
        connection._received += reply[:cut]
        assert not connection._whole_reply_received()
    connection._received[:] = reply
    assert connection._whole_reply_received()
