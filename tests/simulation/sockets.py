"""Replaces the client of the watched ensemble: connections to the simulated servers, and their ends.

The rule: a server's messages arrive in the inbox in order; a client that was closed delivers
nothing more. A connection that cannot be made is retried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller_model.records.changes import SessionState
from tests.simulation.zookeeper import Answer, Connection, Notice, Server
from zk_source.watcher.commands import Send
from zk_source.wire.inbox import Inbox, Reply, SessionChanged
from zk_source.wire.operations import Err, Request

if TYPE_CHECKING:
    from tests.simulation.edge import Edge
    from tests.simulation.world import World

SESSION_MS = 6_000


class Sockets:
    """One client after another, like `WatchedEnsemble`."""

    def __init__(self, world: World, edge: Edge, inbox: Inbox) -> None:
        self._world = world
        self._edge = edge
        self._inbox = inbox
        self.connection: Connection | None = None
        self._client = 0
        self._client_zxid = 0
        self._down_at: int | None = None

    def connect(self) -> None:
        """Close the current client, and make a new one."""
        self.close()
        self._client += 1
        self._client_zxid = 0
        self._down_at = None
        self._try_to_connect(self._client)

    def close(self) -> None:
        """End the client."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def is_own(self, change: SessionChanged) -> bool:
        """Return whether it comes from the newest client."""
        return change.client == self._client

    def check(self, *, resynced: bool) -> None:
        """Report no problem: a client that cannot connect retries."""

    def report_no_brokers(self) -> None:
        """Trace that there is no Kafka yet."""
        self._world.trace(f"{self._edge.name} finds no brokers")

    def send(self, token: int, request: Request) -> None:
        """Send a request; it fails at once without a connection."""
        self._edge.on_sent(token, request)
        if self.connection is not None:
            self.connection.send(Send(token, request))
        else:
            self._inbox.put(Reply(token, 0, Err.CONNECTION_LOSS, b"", 0))

    def cut(self) -> None:
        """Lose the connection; reconnect soon."""
        if self.connection is None:
            return
        server = self.connection.server
        self.close()
        self._down_at = self._world.clock.now
        self._put(SessionState.SUSPENDED, server)
        client = self._client
        pause = self._world.rng.randint(20, 600)
        self._world.clock.after(pause, lambda: self._try_to_connect(client))

    def _try_to_connect(self, client: int) -> None:
        world, edge = self._world, self._edge
        if not edge.alive or client != self._client or self.connection is not None:
            return
        server = world.server_for(edge)
        if edge.paused or server is None or server.zxid < self._client_zxid:
            pause = world.rng.randint(100, 900)
            world.clock.after(pause, lambda: self._try_to_connect(client))
            return
        self._connect(server)

    def _connect(self, server: Server) -> None:
        world = self._world
        if self._down_at is not None and world.clock.now - self._down_at > SESSION_MS:
            self._put(SessionState.LOST, server)
            self._client_zxid = 0
        self._down_at = None
        self.connection = Connection(server, world.clock, world.rng, self._deliver)
        server.connect(self.connection)
        self._put(SessionState.CONNECTED, server)

    def _put(self, state: SessionState, server: Server) -> None:
        self._inbox.put(SessionChanged(self._client, state.value, server.name))
        self._edge.wake(0)

    def _deliver(self, connection: Connection, item: Answer | Notice | None) -> None:
        if connection is not self.connection or not self._edge.alive:
            return
        if item is None:
            self.cut()
        elif isinstance(item, Notice):
            self._inbox.put_notification(item.type, item.path)
        else:
            self._client_zxid = max(self._client_zxid, item.zxid)
            values: Any = (
                item.results
            )  # the service's decoder is replaced by one that passes them through
            self._inbox.put(Reply(item.token, item.zxid, item.err, values, 0))
        self._edge.wake(0)
