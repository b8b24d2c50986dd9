"""A watcher's process: the real service with its publisher, its beats and its reading of the topics.

The rule: the clock calls its turns, and nothing is decided here. What it takes in and what it
publishes is recorded for the oracle. A paused process takes no turn, but messages in flight arrive.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from prometheus_client import CollectorRegistry

from controller_model.records.changes import ChangeKind, ZnodeChange
from controller_model.records.views import ClusterView
from pipeline.runtime import ConflictError, EnvironmentProblemError
from source_log.lease import LeaseLostError, SoleWatcher
from source_log.terms import Term
from tests.simulation.election import SimulatedCandidacy
from tests.simulation.kafka_clients import Producer, Thread
from tests.simulation.sockets import SESSION_MS, Sockets
from tests.simulation.stage import CLUSTER, NotedPublisher
from tests.simulation.zookeeper import Connection
from zk_source.config import WatchSettings
from zk_source.service.metrics import WatcherMetrics
from zk_source.service.service import WatcherService
from zk_source.watcher.subscriptions import OneShotWatches
from zk_source.wire.inbox import Inbox, Item, Notification
from zk_source.wire.operations import Request, Sync

if TYPE_CHECKING:
    from tests.simulation.world import World

_ENDS = (LeaseLostError, ConflictError, EnvironmentProblemError)
"""The errors that may end a watcher; any other error is a bug, and is raised: no topic is deleted."""


class Proof(NamedTuple):
    """The range that a resync or a reconciliation may have read: the server's zxids at its start and end."""

    era: int
    first: int
    last: int


class Edge:
    """One process of `kcm watch`."""

    def __init__(
        self, world: World, name: str, settings: WatchSettings, lease: SimulatedCandidacy | None
    ) -> None:
        self.world = world
        self.name = name
        self.lease = lease
        """Its candidacy; None where it runs without election."""
        self.requests = 0
        """The requests to ZooKeeper so far."""
        self.alive = True
        self.paused = False
        self.hangs = False
        self.clock_ahead_ms = 0
        self._steady_ahead_ms = world.clock.steady_ahead_ms()
        self._wake_at = 0
        self._fires_once = False
        """Whether watches were one-shot when this turn began: by its end they may be of the other kind."""
        self._reads_back_at = 0
        self._noticed: set[str] = set()
        """Paths with a notification since their values were last published."""
        self._noticed_last: list[str] = []
        """The paths notified in this turn, whose values may be published only after it."""
        self._reported: list[str] = []
        self._resyncing = True
        self._walk: object = None
        self._walk_first = 0
        self._view_zxid = 0
        self._synced_for = 0
        """The zxid in the view when the server was asked to catch up."""
        self._rebased_at = (0, 0)
        world.stage.edge = self
        metrics = WatcherMetrics(CollectorRegistry(), CLUSTER, bool)
        term = Term(world.stage.topics, lease or SoleWatcher(), name, 0)
        self.service = WatcherService(settings, metrics, term)
        self.watcher = self.service._watcher
        self.inbox = self.service._inbox
        self.sockets = cast("Sockets", self.service._ensemble)
        self.writer = self.service._writer
        self.publisher = cast("NotedPublisher", self.writer.publisher)
        vars(self.inbox)["pop"] = self._pop
        if world.kafka_starts is not None:
            world.kafka_starts.rest()  # reading the topics' ends waits for that
        self._do(lambda: self.service._begin(threading.Event()))
        self.wake(0)

    @property
    def connection(self) -> Connection | None:
        """The connection to ZooKeeper; None while there is none."""
        return self.sockets.connection

    @property
    def steady(self) -> int:
        """The process's steady clock."""
        return self.world.clock.now + self._steady_ahead_ms

    def end(self) -> None:
        """Kill the process."""
        self.alive = False
        self.sockets.close()
        if self.lease is not None:
            self.lease.fall_silent()

    def pause(self) -> None:
        """Pause the process as SIGSTOP does; its session expires in time."""
        self.paused = True
        if self.lease is not None:
            self.lease.fall_silent()
        self.world.clock.after(SESSION_MS, lambda: self.cut() if self.paused else None)

    def go_on(self) -> None:
        """Resume after a pause."""
        self.paused = False
        self.wake(0)
        self.send_what_waits()
        self.plan_reading_back()
        if self.lease is not None:
            self.lease.reconnect()
            self.lease._prove_soon()

    def hang(self) -> None:
        """Let the main loop take no turn; the session, the producers and the reading thread work."""
        self.hangs = True

    def turn_again(self) -> None:
        """End that; nothing happens to a loop that does not hang."""
        if self.hangs:
            self.hangs = False
            self.wake(0)

    @property
    def _producers(self) -> list[Producer]:
        return [cast("Producer", each._producer) for each in (self.publisher, self.writer._beats)]

    def send_what_waits(self) -> None:
        """Let the producers send their queued messages."""
        for producer in self._producers:
            producer.send_next()

    def hear_of_missing_topics(self) -> None:
        """Let the producers read in Kafka's metadata that it has no such topics."""
        for producer in self._producers:
            producer.lose_topic()

    def cut(self) -> None:
        """Lose the connection; reconnect soon."""
        self.sockets.cut()

    # --- the loop ---------------------------------------------------------------------------

    def wake(self, delay_ms: int) -> None:
        """Plan the next turn, unless an earlier one is planned."""
        now = self.world.clock.now
        when = now + delay_ms
        if now < self._wake_at <= when:
            return
        self._wake_at = when
        self.world.clock.at(when, lambda: self._wake(when))

    def _wake(self, when: int) -> None:
        if when == self._wake_at and self.alive and not self.paused and not self.hangs:
            self._wake_at = 0
            self._fires_once = self.watches_fire_once
            self._do(self.service._poll)
            if self.alive:
                self._noticed.difference_update(self._reported)
                self._reported.clear()
                self._noticed.update(self._noticed_last)
                self._noticed_last.clear()
                self._note_walk()
                self.wake(max(1, self._wait_ms()))

    def _wait_ms(self) -> int:
        """Return when the next turn is due by time alone."""
        wait_ms = self.watcher.wait_ms(self.steady)
        if not self.world.settings.linger_ms:
            return wait_ms  # Kafka's acknowledgements wake it as they arrive
        return self.publisher.wait_ms(self.steady, wait_ms)

    def _do(self, act: Any) -> None:
        self.world.stage.edge = self
        try:
            act()
        except _ENDS as error:
            self.world.trace(f"{self.name} ends: {error!r}")
            self.service.close()
            if self.lease is not None:
                self.lease.close()
            self.end()

    def plan_reading_back(self) -> None:
        """Plan the next turn of the thread that reads the topics back."""
        rng, now = self.world.rng, self.world.clock.now
        if self.alive and not self.paused and self._reads_back_at <= now:
            self._reads_back_at = now + rng.choice((2, 10, 100))
            self.world.clock.at(self._reads_back_at, self._read_back)

    def _read_back(self) -> None:
        thread = cast("Thread | None", self.writer._readback._thread)
        if thread is None or not self.alive or self.paused:
            return
        self.world.stage.edge = self
        before = len(self.inbox)
        thread.poll()
        if len(self.inbox) > before:
            self.wake(0)
        reader = self.writer._readback._reader
        if any(self.world.at(place).end > at for place, at in reader.next_offset.items()):
            self._reads_back_at = 0
            self.plan_reading_back()

    # --- what is noted for the oracle -------------------------------------------------------

    def _pop(self, _wait_s: float, **_: float) -> Item | None:
        item = Inbox.pop(self.inbox, 0)
        if isinstance(item, Notification):
            self._noticed.add(item.path)
            self._noticed_last.append(item.path)
        elif isinstance(item, ClusterView) and item.as_of.position >= self._rebased_at:
            self._view_zxid = item.log.read_zxid
        return item

    def on_sent(self, token: int, request: Request) -> None:
        """Record a request of the watcher: a sync makes the server catch up before a resync."""
        self.requests += 1
        if token > 0 and isinstance(request, Sync):
            self._synced_for = self._view_zxid

    def on_published(self, change: ZnodeChange) -> None:
        """Record a change that is about to be written to the log."""
        self._note_proof(change)
        self._note_value(change)

    def _note_walk(self) -> None:
        walk = self.watcher.reader.walk
        if walk is not self._walk:
            self._walk = walk
            if walk is not None and self.connection is not None:
                self._walk_first = self.connection.server.zxid

    def _note_value(self, change: ZnodeChange) -> None:
        if change.kind is ChangeKind.RESYNC_STARTED:
            self._resyncing = True
        elif change.kind is ChangeKind.RESYNC_FINISHED:
            self._resyncing = False
        elif change.path and not self._resyncing:
            # A one-shot watch may need several reads to follow a change, and no event reports that
            # a refusal of reads has ended: such a value may have no event of its own.
            once = self._fires_once or self.watches_fire_once
            if not (once or self.world.zk.was_refused(change.path)):
                self.world.oracle.on_value(change, noticed=change.path in self._noticed)
                self._reported.append(change.path)

    @property
    def watches_fire_once(self) -> bool:
        """Whether its watches are one-shot now."""
        return isinstance(self.watcher._arming.subscription, OneShotWatches)

    def tries_watches_within(self, ms: int) -> bool:
        """Return whether it tries recursive watches again, with a resync, within this time."""
        return self.watcher._arming.again_ms <= self.steady + ms

    def _note_proof(self, change: ZnodeChange) -> None:
        if change.kind is ChangeKind.RESYNC_STARTED and self.connection is not None:
            if change.rebase:
                self._rebased_at = change.position
                self._view_zxid = 0
            zxid = self.connection.server.zxid
            self.world.oracle.on_resync_started(change, zxid, self._synced_for)
        if change.kind in {ChangeKind.RESYNC_FINISHED, ChangeKind.RECONCILED}:
            era = self.world.zk.era
            last = self.connection.server.zxid if self.connection is not None else 0
            if self.connection is not None:
                self.world.proofs[change.watcher, change.position] = Proof(
                    era, self._walk_first, last
                )
