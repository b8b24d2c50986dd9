"""TCP proxies on the loopback address that disturb connections as networks do.

The rule: a silenced connection is half-open. Neither side notices, bytes sent are lost, and the
close of one end is not seen at the other. New connections are not affected.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from kcm.servers.ports import HOST, free_port

T = TypeVar("T")

CHUNK_BYTES = 1 << 16
CHUNKS_UNDER_WAY = 10_000
LOOP_DEADLINE_S = 10.0
TURNS_UNTIL_KNOWN = 3
"""Turns of the event loop after which a connection that was just accepted is known."""


class _Connection:
    """One connection through a proxy: two streams that forward to each other."""

    def __init__(self, proxy: TcpProxy, client_port: int) -> None:
        self.client_port = client_port
        self.silent = proxy.shuns(client_port)
        self._proxy = proxy

    async def pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Forward data in order until its end; data that arrives while it is silent is lost."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_UNDER_WAY)
        delivery = asyncio.create_task(self._deliver(under_way, sink))
        chunk = b"the first"
        while chunk:
            try:
                chunk = await source.read(CHUNK_BYTES)
            except OSError:
                chunk = b""
            await under_way.put((time.monotonic() + self._proxy.delay_s, chunk))
        await delivery

    async def _deliver(
        self, under_way: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter
    ) -> None:
        while True:
            due, chunk = await under_way.get()
            await asyncio.sleep(due - time.monotonic())
            if not chunk:
                break
            if not self.silent:
                with suppress(OSError):
                    sink.write(chunk)
                    await sink.drain()
        if not self.silent:
            sink.close()


class TcpProxy:
    """A port of this machine that forwards to another one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target_port: int) -> None:
        """Describe a proxy; `Network.proxy` makes one that listens."""
        self.port = free_port()
        self.target_port = target_port
        self.delay_s = 0.0
        """The delay of each piece of data."""
        self.shuns: Callable[[int], bool] = _shun_nobody
        """Whether a client at a port of this machine has a half-open connection from its beginning on."""
        self._loop = loop
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()
        """This includes closed ones that wait for a peer that does not read."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """The address for clients, `host:port`."""
        return f"{HOST}:{self.port}"

    def silence(self) -> int:
        """Make the current connections half-open for ever; return how many there are."""
        connections = list(self._connections)
        for connection in connections:
            connection.silent = True
        return len(connections)

    def shun(self, is_shunned: Callable[[int], bool]) -> None:
        """Make the connections of clients at these ports half-open, also those to come, until `accept`."""
        self.shuns = is_shunned
        for connection in list(self._connections):
            connection.silent = connection.silent or is_shunned(connection.client_port)

    def cut(self) -> None:
        """Make all connections half-open, and refuse new ones until `accept`."""
        self.silence()
        _run(self._loop, self._refuse(close=False))

    def refuse(self) -> None:
        """Close all connections, and refuse new ones until `accept`."""
        _run(self._loop, self._refuse())

    def accept(self) -> None:
        """Accept connections of everybody."""
        self.shuns = _shun_nobody
        _run(self._loop, self._accept())

    async def _accept(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._connected, HOST, self.port)

    async def _refuse(self, *, close: bool = True) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            for listening in server.sockets:
                self._loop.remove_reader(listening.fileno())
            for _ in range(TURNS_UNTIL_KNOWN):  # a server that is closed earlier leaks a connection
                await asyncio.sleep(0)
            server.close()
        for writer in self._writers if close else ():
            writer.close()

    def abort(self) -> None:
        """End all connections, in any state of their peers; runs in the network's thread."""
        for transport in list(self._transports):
            transport.abort()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a new connection; `abort` ends it even if its task is cancelled before it runs."""
        self._transports.add(writer.transport)
        task = self._loop.create_task(self._connect(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there = await asyncio.open_connection(HOST, self.target_port)
        except (OSError, asyncio.CancelledError):
            writer.close()
            return
        self._transports.add(there.transport)
        connection = _Connection(self, writer.get_extra_info("peername")[1])
        both = {writer, there}
        self._connections.add(connection)
        self._writers |= both
        try:
            with suppress(asyncio.CancelledError):  # the network ends
                await asyncio.gather(
                    connection.pass_on(reader, there), connection.pass_on(there_reader, writer)
                )
        finally:
            self._connections.discard(connection)
            self._writers -= both
            for each in both:
                each.close()


def _shun_nobody(_port: int) -> bool:
    return False


class Network:
    """The proxies of one test environment, run by one thread."""

    def __init__(self) -> None:
        self._proxies: list[TcpProxy] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """End all connections."""
        for proxy in self._proxies:
            proxy.refuse()
        _run(self._loop, self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LOOP_DEADLINE_S)
        self._loop.close()

    def proxy(self, target_port: int) -> TcpProxy:
        """Return a proxy that listens."""
        proxy = TcpProxy(self._loop, target_port)
        proxy.accept()
        self._proxies.append(proxy)
        return proxy

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for proxy in self._proxies:
            proxy.abort()
        await asyncio.sleep(0)  # they are closed in the next round of the event loop


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result(LOOP_DEADLINE_S)


def ports_of(pid: int) -> set[int]:
    """Return the local ports of a process's TCP connections over IPv4."""
    sockets = set[str]()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            sockets.add(each.readlink().name)
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {
        int(local.rpartition(":")[2], 16)
        for _, local, *_, inode in (row[:10] for row in rows)
        if f"socket:[{inode}]" in sockets
    }
