"""The watched ensemble: one client after the other, and the warnings about it.

The rule: a problem is logged at once, then ever more rarely; with `fail_fast` it ends the watcher.
"""

from __future__ import annotations

import time

from structlog.typing import FilteringBoundLogger

from pipeline.runtime import EnvironmentProblemError, KcmError, UnreachableError, UsageError
from zk_source.config import WatchSettings
from zk_source.wire.connection import ZooKeeperClient
from zk_source.wire.inbox import Inbox, SessionChanged
from zk_source.wire.operations import Request

FIRST_WARNING_S = 2.0
MOST_WARNING_PAUSE_S = 60.0
"""An unreachable ZooKeeper is logged after the first, then ever more rarely up to the second."""


class WatchedEnsemble:
    """The client of the watched ensemble; what the socket brings goes into the inbox."""

    def __init__(self, settings: WatchSettings, inbox: Inbox, log: FilteringBoundLogger) -> None:
        self._settings = settings
        self._inbox = inbox
        self._log = log
        self._client: ZooKeeperClient | None = None
        self._clients = 0
        self._down_since = time.monotonic()
        self._next_warning_s = FIRST_WARNING_S
        self._no_brokers_warning_at = 0.0

    def connect(self) -> None:
        """Give up the client that there is, and make a new one."""
        self.close()
        self._clients += 1
        self._client = ZooKeeperClient(self._settings, self._inbox, number=self._clients)
        self._client.start()

    def close(self) -> None:
        """End the client."""
        if self._client is not None:
            self._client.close()

    def send(self, token: int, request: Request) -> None:
        """Queue a request; nothing without a client."""
        if self._client is not None:
            self._client.send(token, request)

    def is_own(self, change: SessionChanged) -> bool:
        """Note a change of the session; False when it is of a client that was given up."""
        if change.client != self._clients:
            return False
        self._down_since = time.monotonic()
        self._next_warning_s = FIRST_WARNING_S
        return True

    def check(self, *, resynced: bool) -> None:
        """Warn of a client that is not connected, or replace it; raises what ends the watcher."""
        client = self._client
        if client is None:
            return
        if client.auth_failed:
            raise EnvironmentProblemError(
                f"ZooKeeper at {self._settings.hosts} refused the credentials in zk_auth: "
                "correct them"
            )
        waited_s = time.monotonic() - self._down_since
        all_tried = client.failures >= len(self._settings.hosts.split(","))
        if self._settings.fail_fast and all_tried and not resynced:
            raise self._unreachable(client, waited_s)
        if waited_s >= self._next_warning_s and client.last_error:
            self._next_warning_s = min(waited_s * 2, waited_s + MOST_WARNING_PAUSE_S)
            self._log.warning(str(self._unreachable(client, waited_s)))
        if client.ended:
            self._log.warning("new ZooKeeper client", reason="the old one ended by itself")
            self.connect()

    def report_no_brokers(self) -> None:
        """Log that there is no Kafka under the chroot; with fail_fast raise a UsageError."""
        now = time.monotonic()
        if now < self._no_brokers_warning_at:
            return
        self._no_brokers_warning_at = now + MOST_WARNING_PAUSE_S
        error = UsageError(self._describe_root())
        if self._settings.fail_fast:
            raise error
        self._log.warning(f"{error}; waiting for it to appear")

    def _describe_root(self) -> str:
        settings = self._settings
        wanted = settings.chroot or "/"
        found, names = self._client.nearest(wanted) if self._client else ("/", ())
        held = ", ".join(names) or "nothing"
        missing = f"{found} holds {held}"
        if found != wanted:
            missing = f"there is no {wanted}; {missing}"
        return (
            f"no Kafka cluster at {settings.zookeeper}: no /brokers under the chroot {wanted} "
            f"({missing}); correct the chroot in the setting zookeeper"
        )

    def _unreachable(self, client: ZooKeeperClient, waited_s: float) -> KcmError:
        advice = client.tls_advice or "start it or correct the setting zookeeper"
        return UnreachableError(
            f"ZooKeeper at {self._settings.hosts} does not answer (for {waited_s:.0f} s): "
            f"{client.last_error}; {advice}"
        )
