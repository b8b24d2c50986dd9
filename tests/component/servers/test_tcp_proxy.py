"""The proxies that faults are played with do to connections what networks do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kcm.servers.ports import HOST
from tests.support.garbage import left_open
from tests.support.tcp_proxy import Network, TcpProxy

SILENCE_S = 0.3
"""How long nothing must come for it to count as silence."""


class Echo:
    """A server that sends back what it gets; `ended` counts connections whose end it saw."""

    def __init__(self) -> None:
        self._socket = socket.create_server((HOST, 0))
        self.port: int = self._socket.getsockname()[1]
        self.ended = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        while data := connection.recv(1024):
            connection.sendall(data)
        self.ended += 1
        connection.close()

    def close(self) -> None:
        """Take no more connections."""
        self._socket.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    """A server behind the proxy."""
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[TcpProxy]:
    """A proxy before it."""
    with Network() as network:
        yield network.proxy(echo.port)


def connect(proxy: TcpProxy) -> socket.socket:
    """Return a connection that passes."""
    connection = socket.create_connection((HOST, proxy.port), 5)
    connection.sendall(b"a")
    assert connection.recv(1) == b"a"
    return connection


def test_a_silent_connection_is_half_open_and_a_new_one_passes(proxy: TcpProxy, echo: Echo) -> None:
    """What is sent is lost, and neither end learns of the other's end."""
    with connect(proxy) as old:
        assert proxy.silence() == 1
        old.sendall(b"b")
        old.settimeout(SILENCE_S)
        with pytest.raises(TimeoutError):
            old.recv(1)
        connect(proxy).close()
    deadline = time.monotonic() + 5
    while echo.ended < 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(SILENCE_S)
    assert echo.ended == 1, "the end of the silent one was seen"


def test_a_delayed_connection_keeps_the_order(proxy: TcpProxy) -> None:
    """Delayed data arrives late, and before data that was sent after the delay was removed."""
    with connect(proxy) as connection:
        proxy.delay_s = SILENCE_S
        began = time.monotonic()
        connection.sendall(b"late")
        time.sleep(0.05)
        proxy.delay_s = 0.0
        connection.sendall(b"soon")
        got = b""
        while len(got) < 8:
            got += connection.recv(8)
        assert got == b"latesoon"
        assert time.monotonic() - began >= SILENCE_S


def test_a_proxy_that_refuses_ends_connections_until_it_accepts(proxy: TcpProxy) -> None:
    """As a server that was stopped and started."""
    with connect(proxy) as connection:
        proxy.refuse()
        assert connection.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, proxy.port), 5)
        proxy.accept()
        connect(proxy).close()


def test_data_that_a_peer_does_not_read_is_dropped_at_the_end() -> None:
    """A paused process reads nothing: without the drop its connection would never be closed."""

    def fill(client: socket.socket) -> None:
        while True:
            client.sendall(b"x" * (1 << 20))

    with socket.create_server((HOST, 0)) as deaf:
        with Network() as network:
            proxy = network.proxy(deaf.getsockname()[1])
            with socket.create_connection((HOST, proxy.port), timeout=1.0) as client:
                taken, _ = deaf.accept()
                with pytest.raises(TimeoutError):
                    fill(client)
        left = left_open()
        taken.close()
    assert left == []


def test_connections_that_arrive_at_the_end_are_closed() -> None:
    """Whether the proxy has accepted them, and knows them, when its network ends."""
    with socket.create_server((HOST, 0)) as silent:
        for _ in range(50):
            with ExitStack() as clients, Network() as network:
                proxy = network.proxy(silent.getsockname()[1])
                for _ in range(3):
                    client = clients.enter_context(socket.socket())
                    client.setblocking(False)
                    client.connect_ex((HOST, proxy.port))
    assert left_open() == []
