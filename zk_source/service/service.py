"""The watcher at work: passes what happens to the decisions, and carries their commands out.

The rule: one thread takes from the inbox, lets `watcher` decide, sends, publishes. Everything that
blocks for long happens before the loop (the pipeline's Kafka) or in other threads (sockets). It
ends when `stop` is set, or by raising the error that the user must see. The lease is checked each
time before anything is published: without a valid one changes wait (`leader_elector`).
"""

from __future__ import annotations

import secrets
import threading
import time

from prometheus_client import CollectorRegistry

from controller_model.records.changes import ChangeKind, SessionState, ZnodeChange
from pipeline.clock import clock_ms, steady_ms
from pipeline.runtime import (
    Backoff,
    ConflictError,
    EnvironmentProblemError,
    MetricsServer,
    UnreachableError,
    get_logger,
)
from pipeline.topics import EnsuredTopics, ensure_topics
from zk_source.config import WatchSettings
from zk_source.election.leader_elector import Lease, LeaseStatus, make_elector
from zk_source.log.publisher import Limits, Publisher
from zk_source.log.readback import Readback
from zk_source.service.metrics import WatcherMetrics
from zk_source.service.report import report_metrics
from zk_source.watcher.commands import (
    Command,
    GiveUp,
    GiveUpReason,
    NoBrokers,
    ReplaceClient,
    Send,
    Warn,
)
from zk_source.watcher.subscriptions import Watches
from zk_source.watcher.watcher import Intervals, Watcher
from zk_source.wire.inbox import (
    FoldView,
    Inbox,
    Item,
    Notification,
    OtherWatcher,
    Overflow,
    Reply,
    SessionChanged,
)
from zk_source.wire.jute import BadReplyError, decode
from zk_source.wire.operations import Err, Result
from zk_source.zookeeper.ensemble import WatchedEnsemble
from zk_source.zookeeper.server_health import watched_health

MOST_ITEMS_AT_ONCE = 500
"""Inbox items taken before everything else gets its turn: some milliseconds of work."""

_MS = 1000

DELIVERY_WAIT_S = 0.005
"""How long to wait for the inbox while changes wait for the producer."""

GOODBYE_S = 2.0
METRICS_EVERY_S = 0.5


def run(settings: WatchSettings, stop: threading.Event) -> None:
    """Watch one cluster until `stop` is set; raises a KcmError for what the user must mend."""
    registry = CollectorRegistry()
    metrics = WatcherMetrics(registry, settings.cluster)
    server = MetricsServer(registry, settings.metrics_host, settings.watcher_metrics_port)
    log = get_logger("watcher")
    log.info("metrics are served", host=settings.metrics_host, port=server.port)
    pause = Backoff(first_s=1.0, most_s=30.0)
    dropped = 0
    # The fold adds up dropped changes by watcher name: a name is kept with its count.
    name = secrets.token_hex(3)
    elector = make_elector(settings)
    try:
        while not stop.is_set():
            ensure_topics(settings, stop=stop)
            metrics.standby(dropped)
            lease = elector.wait(stop)
            if lease is None:
                break
            # A standby may have waited for weeks: the topics are checked again.
            topics = ensure_topics(settings, stop=stop)
            service = WatcherService(settings, topics, metrics, lease, name=name, dropped=dropped)
            try:
                service.run(stop)
            except LeaseLostError:
                log.warning("the lease is lost: nothing more is published, standing by")
                name, dropped = secrets.token_hex(3), 0
            except LogLostError as error:
                dropped = error.dropped
                wait_s = pause.next_s()
                log.warning("starting over", reason=str(error), dropped=dropped, next_try_s=wait_s)
                stop.wait(wait_s)
    except UnreachableError:
        if not stop.is_set():
            raise
    finally:
        elector.close()
        server.close()


class LogLostError(Exception):
    """The log takes no more changes from this producer: topics gone, fenced, not allowed."""

    def __init__(self, reason: str, dropped: int) -> None:
        super().__init__(f"the pipeline's Kafka refused changes: {reason}")
        self.dropped = dropped


class LeaseLostError(Exception):
    """Another watcher leads, or soon will."""


class WatcherService:
    """The watcher's main loop and what it holds open."""

    def __init__(
        self,
        settings: WatchSettings,
        topics: EnsuredTopics,
        metrics: WatcherMetrics,
        lease: Lease,
        *,
        name: str,
        dropped: int = 0,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._lease = lease
        self._unproven = False
        self._name = name
        self._log = get_logger("watcher").bind(cluster=settings.cluster, watcher=self._name)
        self._inbox = Inbox()
        self._watcher = Watcher(
            settings.cluster,
            self._name,
            steady_ms(),
            intervals=_intervals(settings),
            watches=Watches(settings.zk_watches),
            elected=lease.czxid,
        )
        self._watcher.recorder.dropped = dropped
        limits = Limits(int(settings.buffer_mib * 1024 * 1024), settings.buffer_changes)
        self._publisher = Publisher(settings, topics, settings.cluster, limits=limits)
        self._readback = Readback(settings, topics, settings.cluster, self._name)
        self._ensemble = WatchedEnsemble(settings, self._inbox, self._log)
        self._contested_generation = 0
        self._muted = False
        self._in_resync = False
        self._metrics_at = 0.0

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set."""
        self._metrics.leads(leads=True)
        try:
            history = self._readback.history(stop)
            if stop.is_set():
                return
            self._watcher.generations.saw(history.generation)
            if history.view is not None:
                self._watcher.on_view(history.view, steady_ms())
            self._readback.follow(self._inbox)
            self._ensemble.connect()
            self._log.info("watching", zookeeper=self._settings.zookeeper)
            with watched_health(self._server, self._metrics.zookeeper):
                while not stop.is_set():
                    self._turn()
            self._watcher.on_stop(steady_ms())
            self._carry_out()
        finally:
            self._close()

    def _server(self) -> str:
        """Return the server whose health may be asked for; empty with TLS or without a session."""
        session = self._watcher.session
        return session.server if session.connected and not self._settings.zk_tls else ""

    def _close(self) -> None:
        self._ensemble.close()
        self._readback.close()
        if self._lease.status is not LeaseStatus.VALID:
            self._publisher.abandon()
        elif not self._publisher.close(GOODBYE_S):
            self._log.warning(
                "the pipeline's Kafka did not take the last changes in time",
                bytes_held=self._publisher.bytes_held,
            )

    def _turn(self) -> None:
        """Take in what has happened, decide, act."""
        now_ms = steady_ms()
        wait_s = self._watcher.wait_ms(now_ms) / 1000
        if not self._publisher.idle:
            wait_s = min(wait_s, DELIVERY_WAIT_S)
        item = self._inbox.take(wait_s)
        taken = 0
        while item is not None:
            self._take_in(item, steady_ms())
            taken += 1
            item = self._inbox.take(0) if taken < MOST_ITEMS_AT_ONCE else None
        now_ms = steady_ms()
        self._check_delivery(now_ms)
        self._readback.check()
        if not self._watcher.session.connected:
            self._ensemble.check(resynced=bool(self._watcher.counts.resyncs))
        self._watcher.reader.room = self._publisher.has_room
        self._watcher.recorder.clock_ahead_ms = clock_ms() - now_ms
        self._watcher.on_tick(now_ms)
        self._carry_out()
        self._update_metrics()

    def _take_in(self, item: Item, now_ms: int) -> None:
        match item:
            case Notification(type=type_, path=path):
                self._watcher.on_event(type_, path, now_ms)
            case Reply():
                self._take_in_reply(item, now_ms)
            case SessionChanged() if self._ensemble.is_own(item):
                self._take_in_session(item, now_ms)
            case Overflow(dropped=dropped):
                self._watcher.on_overflow(dropped, now_ms)
            case FoldView():
                self._check_writer(item.watcher, item.generation)
                self._watcher.on_view(item, now_ms)
            case OtherWatcher():
                self._check_writer(item.watcher, item.generation)
                self._watcher.on_other_watcher(item, now_ms)

    def _take_in_reply(self, reply: Reply, now_ms: int) -> None:
        request = self._watcher.request(reply.token)
        if request is None:
            return  # it was given up, or belongs to an earlier connection
        err = reply.err
        results: tuple[Result, ...] = ()
        if err == Err.OK:
            try:
                results = decode(request, reply.body, reply.offset)
            except BadReplyError as error:
                self._log.warning("ZooKeeper's reply cannot be read", reason=str(error))
                err = Err.MARSHALLING
        self._watcher.on_reply(reply.token, reply.zxid, err, results, now_ms)

    def _take_in_session(self, change: SessionChanged, now_ms: int) -> None:
        state = SessionState(change.state)
        self._watcher.on_session(state, change.server, now_ms)
        log = self._log.info if state is SessionState.CONNECTED else self._log.warning
        log("ZooKeeper session", state=state.value, zookeeper=change.server)

    def _check_writer(self, watcher: str, generation: int) -> None:
        """Invalidate the lease when another watcher writes: it may be the leader that came after us."""
        generations = self._watcher.generations
        if generation > self._contested_generation and generations.competes(watcher, generation):
            self._contested_generation = generation
            self._lease.invalidate()

    # --- acting -----------------------------------------------------------------------------

    def _carry_out(self) -> None:
        for command in self._watcher.commands():
            self._do(command)
        # What the producer takes at once does not wait: a resync's replies alone must not overflow.
        if self._may_publish():
            self._publisher.pump()
        if self._publisher.overflowing() and not self._muted:
            self._muted = True
            dropped = self._publisher.drop_waiting()
            reason = (
                "the lease could not be proved"
                if self._unproven
                else "the pipeline's Kafka did not take changes"
            )
            self._watcher.on_dropped(dropped, f"{reason} in time", steady_ms())

    def _may_publish(self) -> bool:
        """Return whether the lease is valid; raises LeaseLostError when it has ended."""
        status = self._lease.status
        if status is LeaseStatus.LOST:
            raise LeaseLostError
        unproven = status is LeaseStatus.UNPROVEN
        if unproven is not self._unproven:
            self._unproven = unproven
            self._metrics.leads(leads=not unproven)
            self._log.warning(
                "the lease is unproven: changes wait"
                if unproven
                else "the lease is proved again: changes are published"
            )
        return not unproven

    def _do(self, command: Command) -> None:
        match command:
            case ZnodeChange():
                self._publisher.add(command)
                self._metrics.published(command.kind, self._delay_ms(command))
            case Send(token=token, request=request):
                self._ensemble.send(token, request)
            case ReplaceClient(reason=reason):
                self._log.warning("new ZooKeeper client", reason=reason)
                self._ensemble.connect()
            case NoBrokers():
                self._ensemble.report_no_brokers()
            case GiveUp(reason=GiveUpReason.OTHER_WATCHER, message=message):
                raise ConflictError(message)
            case GiveUp(message=message):
                raise EnvironmentProblemError(message)
            case Warn(text=text, about=about):
                self._log.warning(text, **about)

    def _delay_ms(self, change: ZnodeChange) -> int | None:
        """Return how old a change is; None during a resync, whose values are not news."""
        if change.kind in {ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED}:
            self._in_resync = change.kind is ChangeKind.RESYNC_STARTED
        news = change.kind is ChangeKind.SET and not self._in_resync
        return clock_ms() - (change.mtime or 0) if news else None

    # --- what else can go wrong -------------------------------------------------------------

    def _check_delivery(self, now_ms: int) -> None:
        delivery = self._publisher.poll()
        if delivery.failed:
            lost = delivery.failed + self._publisher.drop_waiting()
            raise LogLostError(delivery.error, self._watcher.recorder.dropped + lost)
        if self._muted and self._publisher.idle and not self._unproven:
            self._muted = False
            self._log.info("the pipeline's Kafka takes changes again")
            self._watcher.on_pipeline_back(now_ms)

    def _update_metrics(self) -> None:
        now = time.monotonic()
        if now >= self._metrics_at:
            self._metrics_at = now + METRICS_EVERY_S
            report_metrics(self._metrics, self._watcher, self._publisher, len(self._inbox))


def _intervals(settings: WatchSettings) -> Intervals:
    """Return the intervals and limits that the watcher's decisions depend on."""
    return Intervals(
        heartbeat_ms=int(settings.heartbeat_s * _MS),
        reconciliation_ms=int(settings.audit_s * _MS),
        resync_ms=int(settings.full_resync_s * _MS),
        resync_reads_per_s=settings.resync_reads_per_s,
        reconciliation_reads_per_s=settings.audit_reads_per_s,
        new_client_ms=settings.most_silent_ms,
    )
