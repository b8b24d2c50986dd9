"""Keeps one client of the watched ensemble after the other, and logs the warnings about it.

A problem is logged at once, then ever more rarely; with `fail_fast` it ends the watcher.
"""

import contextlib
import time
from collections.abc import Sequence

from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from structlog.typing import FilteringBoundLogger

from pipeline.runtime import EnvironmentProblemError, UsageError
from zk_source.config import WatchSettings
from zk_source.wire.connection import OrderedConnection
from zk_source.wire.inbox import Inbox, SessionChanged
from zk_source.wire.kazoo_client import MAX_WARNING_PAUSE_S, Outage, make_client, stop_client
from zk_source.wire.operations import Request

MAX_RECONNECT_S = 2.0
"""Pauses between attempts to reach all hosts double up to this, so that an overloaded ensemble is not flooded."""

ANSWER_TIMEOUT_S = 2.0


class WatchedEnsemble:
    """The client of the watched ensemble; what the socket brings goes into the inbox."""

    def __init__(self, settings: WatchSettings, inbox: Inbox, log: FilteringBoundLogger) -> None:
        self._settings = settings
        self._inbox = inbox
        self._log = log
        self._connection: OrderedConnection | None = None
        self._clients = 0
        self._outage = Outage(f"ZooKeeper at {settings.hosts}", "zookeeper", time.monotonic)
        self._no_brokers_warning_at = 0.0

    def connect(self) -> None:
        """Give up the current client, if any, and make a new one."""
        self.close()
        self._clients += 1
        client, self._connection = make_client(
            self._settings,
            OrderedConnection,
            most_reconnect_s=MAX_RECONNECT_S,
            inbox=self._inbox,
            chroot=self._settings.chroot,
        )
        number, connection = self._clients, self._connection
        client.add_listener(
            lambda state: self._inbox.put(SessionChanged(number, state, connection.server))
        )
        client.start_async()

    def close(self) -> None:
        """End the client's session and threads; wait at most a few seconds."""
        if self._connection is not None:
            stop_client(self._connection.client)

    def send(self, token: int, request: Request) -> None:
        """Queue a request; do nothing without a client."""
        if self._connection is not None:
            self._connection.send(token, request)

    def is_own(self, change: SessionChanged) -> bool:
        """Note a change of the session; return False when it belongs to a client that was given up."""
        if change.client != self._clients:
            return False
        self._outage.end()
        return True

    def check(self, *, resynced: bool) -> None:
        """Warn of a client that is not connected, or replace it; raise the error that ends the watcher."""
        connection = self._connection
        if connection is None:
            return
        if connection.auth_failed:
            raise EnvironmentProblemError(
                f"ZooKeeper at {self._settings.hosts} {connection.refusal.format(setting='zk_auth')}"
            )
        all_tried = connection.failures >= len(self._settings.hosts.split(","))
        if self._settings.fail_fast and all_tried and not resynced:
            raise self._outage.error(connection)
        if connection.last_error and self._outage.warning_is_due():
            self._log.warning(str(self._outage.error(connection)))
        if connection.connection_stopped.is_set():
            self._log.warning("new ZooKeeper client", reason="the old one ended by itself")
            self.connect()

    def report_no_brokers(self) -> None:
        """Log that there is no Kafka under the chroot; with fail_fast, raise a UsageError instead."""
        now = time.monotonic()
        if now < self._no_brokers_warning_at:
            return
        self._no_brokers_warning_at = now + MAX_WARNING_PAUSE_S
        error = UsageError(self._describe_root())
        if self._settings.fail_fast:
            raise error
        self._log.warning(f"{error}; waiting for it to appear")

    def _describe_root(self) -> str:
        settings = self._settings
        wanted = settings.chroot or "/"
        return (
            f"no Kafka cluster at {settings.zookeeper}: no /brokers under the chroot {wanted}"
            f"{self._what_is_there(wanted)}; correct the chroot in the setting zookeeper"
        )

    def _what_is_there(self, wanted: str) -> str:
        """Return, in brackets, what there is instead; nothing without an answer or the right to list it."""
        try:
            found, names = self._nearest(wanted)
        except (KazooException, KazooTimeoutError):
            return ""
        there = f"{found} holds {', '.join(names) or 'nothing'}"
        return f" ({there})" if found == wanted else f" (there is no {wanted}; {there})"

    def _nearest(self, path: str) -> tuple[str, Sequence[str]]:
        """Return the nearest existing ancestor of a whole path, and its children. Block for a moment."""
        while path not in {"", "/"}:
            with contextlib.suppress(NoNodeError):
                return path, self._children(path)
            path = path.rpartition("/")[0]
        return "/", self._children("/")

    def _children(self, path: str) -> Sequence[str]:
        if self._connection is None:
            return ()
        client = self._connection.client
        return sorted(client.get_children_async(path).get(timeout=ANSWER_TIMEOUT_S))
