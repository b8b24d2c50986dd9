"""Chooses how a connection watches, recursively or one-shot, and sets its watches on the server.

Recursive watches are tried first, one request at a time. After a refusal one-shot watches
are used, and recursive ones are tried again later: after a day if the server does not know them,
after a minute and then ever longer if it gave another error. A server before 3.6 answers that it
does not know the request, and then closes the connection. The session survives, and the next
connection needs nothing armed. That answer may be lost, so `MAX_CLOSINGS` connections in a row
that close at the request count as a refusal, too. Otherwise the watcher could reconnect for ever.
"""

import math

from controller_model.records.changes import SessionState
from zk_source.watcher.commands import GiveUp, Outbox
from zk_source.watcher.subscriptions import OneShotWatches, RecursiveWatches, Subscription, Watches
from zk_source.wire.operations import AddWatch, Err

MAX_CLOSINGS = 3
"""Connections in a row that close at the request before that counts as a refusal."""

CLOSED_AT_ONCE_MS = 1_000
"""An old server closes the connection within milliseconds; from one that does not answer, the client disconnects after most of a session timeout."""


FIRST_PAUSE_MS = 60_000
"""Pause after an error other than an old server's; it doubles up to `OLD_PAUSE_MS`."""

OLD_PAUSE_MS = 86_400_000
"""Pause after an old server's refusal: an ensemble is not upgraded more often."""


class Arming:
    """The way of watching in use, and which of its watches are armed."""

    def __init__(self, watches: Watches, outbox: Outbox) -> None:
        self._watches = watches
        self._outbox = outbox
        self._server = ""
        self._to_arm: list[str] = []
        self._asked_ms = 0
        self._closings = 0
        self.again_ms: float = math.inf
        """When to try recursive watches again after a refusal."""
        self._pause_ms = FIRST_PAUSE_MS
        self.subscription: Subscription = RecursiveWatches()
        if watches is Watches.ONE_SHOT:
            self.subscription = OneShotWatches()

    @property
    def done(self) -> bool:
        """Whether nothing is left to be armed."""
        return not self._to_arm

    def on_session(self, state: SessionState, server: str, now_ms: int) -> None:
        """Start arming on a new connection; stop when the connection is gone."""
        closed_at_once = bool(self._to_arm) and now_ms - self._asked_ms < CLOSED_AT_ONCE_MS
        if self._to_arm:
            self._closings = self._closings + 1 if closed_at_once else 0
        if self._closings >= MAX_CLOSINGS and self._watches is Watches.AUTO:
            self._fall_back("it closes the connection at the request", now_ms, OLD_PAUSE_MS)
        self._to_arm = []
        if state is SessionState.CONNECTED:
            if now_ms >= self.again_ms:
                self.subscription = RecursiveWatches()
            self._server = server
            self._asked_ms = now_ms
            self._to_arm = list(reversed(self.subscription.arm()))
            self._ask()

    def on_answer(self, path: str, err: int, now_ms: int) -> None:
        """Handle the answer to the request for one watch, and request the next one."""
        if err == Err.OK:
            self._closings = 0
            self.again_ms = math.inf
            self._to_arm.pop()
            if not self._to_arm:
                self._pause_ms = FIRST_PAUSE_MS
            self._ask()
            return
        old = err == Err.UNIMPLEMENTED
        why = "it is older than 3.6" if old else f"error {err}"
        if self._watches is Watches.AUTO:
            self._fall_back(why, now_ms, OLD_PAUSE_MS if old else self._pause_ms)
            self._pause_ms = min(2 * self._pause_ms, OLD_PAUSE_MS)
            return
        message = (
            f"ZooKeeper at {self._server} refuses a persistent recursive watch on {path} ({why}): "
            "set zk_watches to auto or one-shot"
        )
        self._outbox.add(GiveUp(message))

    def _ask(self) -> None:
        if self._to_arm:
            self._outbox.send(AddWatch(self._to_arm[-1]))

    def _fall_back(self, why: str, now_ms: int, pause_ms: int) -> None:
        self.again_ms = now_ms + pause_ms
        self._to_arm = []
        self._closings = 0
        self.subscription = OneShotWatches()
        self._outbox.warn(
            "ZooKeeper refuses recursive watches: one-shot watches are used until they are tried again",
            zookeeper=self._server,
            reason=why,
            next_try_s=pause_ms // 1000,
        )
