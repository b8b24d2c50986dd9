"""Runs the watcher: passes what happens to the decisions, and carries out their commands.

One thread pops from the inbox, lets `watcher` decide, sends and publishes. Everything
that blocks for long happens before the loop (the pipeline's Kafka) or in other threads (sockets).
The loop ends when `stop` is set, or raises the error that the user must see. The log, its lease and
the beats are those of every source (`log_writer`); each poll of the loop checks every other thread.
"""

import threading
import time
from typing import Any

from prometheus_client import CollectorRegistry

from controller_model.records.changes import ChangeKind, SessionState, ZnodeChange
from controller_model.records.views import ClusterView, WatcherBeat
from pipeline.clock import clock_ms, steady_ms
from pipeline.runtime import ConflictError, EnvironmentProblemError, get_logger
from pipeline.stop_signal import StopSignal
from pipeline.supervised_thread import STANDSTILL_S
from source_log.generation_fencing import OtherWatcher
from source_log.log_writer import LogWriter
from source_log.publisher import Publisher
from source_log.readback import ViewsCut
from source_log.terms import Term, run_terms
from web.health import PartHealth
from web.server import metrics_server
from zk_source.config import WatchSettings
from zk_source.election.leader_elector import make_elector
from zk_source.ensemble.server_health import watched_health
from zk_source.ensemble.watched_ensemble import WatchedEnsemble
from zk_source.service.metrics import WatcherMetrics
from zk_source.watcher.commands import (
    Command,
    GiveUp,
    GiveWay,
    NoBrokers,
    ReplaceClient,
    Send,
    Warn,
)
from zk_source.watcher.pulse import Pulse
from zk_source.watcher.subscriptions import Watches
from zk_source.watcher.urgency import Urgency
from zk_source.watcher.watcher import Intervals, Watcher
from zk_source.watcher.zookeeper_clock import ZookeeperClock
from zk_source.wire.inbox import Inbox, Item, Notification, Overflow, Reply, SessionChanged
from zk_source.wire.jute import BadReplyError, decode
from zk_source.wire.operations import Err, EventType, Result, Sync

MAX_ITEMS_AT_ONCE = 500
"""Inbox items handled before anything else: some milliseconds of work."""

_MS = 1000

STORM_NOTIFICATIONS = 2
"""A poll in which this many watches fired is part of a storm; such a poll lasts a millisecond."""

STORM_PAUSE_S = 0.01
"""How long the next poll of a storm waits for more. Dozens of changes then share the cost of one
poll, and of one message for Kafka, the fold and all other readers: this halves the work of the
watcher and of the pipeline's Kafka."""

METRICS_INTERVAL_S = 0.5


def run(settings: WatchSettings, stop: StopSignal) -> None:
    """Watch one cluster until `stop` is set; raise a KcmError for what the user must fix."""
    registry = CollectorRegistry()
    health = PartHealth(registry, lambda: stop.age_s)
    metrics = WatcherMetrics(registry, settings.cluster, lambda: health.hangs)
    with metrics_server(registry, health, settings, settings.watcher_metrics_port) as server:
        log = get_logger("watcher")
        log.info("metrics are served", host=settings.metrics_host, port=server.port)
        run_terms(
            settings,
            make_elector(settings),
            stop,
            lead=lambda term: WatcherService(settings, metrics, term).run(stop),
            on_standby=metrics.standby,
        )


def run_term(
    settings: WatchSettings, term: Term, registry: CollectorRegistry, stop: StopSignal
) -> None:
    """Watch for one term until `stop` is set; the watcher's metrics go to `registry`, which somebody else serves."""
    metrics = WatcherMetrics(registry, settings.cluster, lambda: stop.age_s > STANDSTILL_S)
    WatcherService(settings, metrics, term).run(stop)


class WatcherService:
    """The watcher's main loop and what it holds open, for one term."""

    def __init__(self, settings: WatchSettings, metrics: WatcherMetrics, term: Term) -> None:
        self._settings = settings
        self._metrics = metrics
        self._lease = metrics.lease = term.lease
        self._log = get_logger("watcher").bind(cluster=settings.cluster, watcher=term.watcher)
        self._inbox = Inbox()
        self._watcher = Watcher(
            settings.cluster,
            term.watcher,
            steady_ms(),
            intervals=intervals(settings),
            watches=Watches(settings.zk_watches),
            term=term.lease.term,
        )
        self._watcher.recorder.dropped = term.dropped
        self._writer = LogWriter(
            settings,
            term.topics,
            term.lease,
            self._watcher.recorder,
            on_lead=metrics.leads,
            on_sent=metrics.sent,
            open_clients=term.open_clients,
        )
        self._pulse = Pulse(int(settings.beat_s * _MS))
        self._zookeeper_clock = ZookeeperClock()
        self._urgency = Urgency()
        self._ensemble = WatchedEnsemble(settings, self._inbox, self._log)
        self._notifications = 0
        """How many watches fired in the last poll."""
        self._in_resync = False
        self._metrics_at = 0.0

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set."""
        try:
            self._begin(stop)
            with watched_health(self._server, self._metrics.zookeeper) as check_health:
                while not stop.is_set():
                    self._poll()
                    check_health()
            self._watcher.on_stop(steady_ms())
            self._carry_out_commands()
        finally:
            self.close()

    def _begin(self, stop: threading.Event) -> None:
        """Read what existed before the start, then connect, unless `stop` is set first."""
        history = self._writer.begin(stop, self._inbox.put)
        if history is None:
            return
        if history.view is not None:
            self._watcher.on_view(history.view, steady_ms())
        self._ensemble.connect()
        self._log.info("watching", zookeeper=self._settings.zookeeper)

    def _server(self) -> str:
        """Return the server whose health may be requested; empty with TLS or without a session."""
        session = self._watcher.session
        return session.server if session.connected and not self._settings.zk_tls else ""

    def close(self) -> None:
        """Close the connections to ZooKeeper and Kafka."""
        self._ensemble.close()
        self._writer.close()

    def _poll(self) -> None:
        """Handle what has happened, decide, act."""
        now_ms = steady_ms()
        wait_ms = self._writer.publisher.wait_ms(now_ms, self._watcher.wait_ms(now_ms))
        in_storm = self._notifications >= STORM_NOTIFICATIONS
        item = self._inbox.pop(wait_ms / _MS, pause_s=STORM_PAUSE_S if in_storm else 0.0)
        handled = self._notifications = 0
        self._lease.report_alive()
        while item is not None:
            self._handle_item(item, steady_ms())
            self._lease.report_alive()
            handled += 1
            self._notifications += isinstance(item, Notification)
            item = self._inbox.pop(0) if handled < MAX_ITEMS_AT_ONCE else None
        now_ms = steady_ms()
        self._writer.check(now_ms)
        if self._watcher.muted and self._writer.is_flushed:
            self._log.info("the pipeline's Kafka accepts changes again")
            self._watcher.on_pipeline_back(now_ms)
        self._query_zookeeper(now_ms)
        if not self._watcher.session.connected:
            self._ensemble.check(resynced=bool(self._watcher.resyncs))
        self._watcher.reader.room = self._writer.has_room(now_ms)
        self._watcher.on_tick(now_ms)
        self._carry_out_commands()
        self._zookeeper_clock.on_published()
        if not self._watcher.session.watching:
            self._writer.completeness.reads_forgotten()
        self._writer.beat(
            steady_ms(),
            oldest_round=self._watcher.reader.dirty.oldest_round,
            complete=self._complete_beat,
        )
        self._update_metrics()

    def _query_zookeeper(self, now_ms: int) -> None:
        """Ask ZooKeeper continuously: the answers, and when they were asked for, show whether it still responds."""
        if not self._watcher.armed:
            self._pulse.give_up()
            return
        silent_ms = self._pulse.waits_ms(now_ms)
        if silent_ms > self._settings.most_silent_ms:
            self._pulse.give_up()
            self._watcher.on_silence(silent_ms, now_ms)
        elif (token := self._pulse.ask(now_ms)) is not None:
            self._ensemble.send(token, Sync("/"))

    def _complete_beat(self, header: dict[str, Any]) -> WatcherBeat:
        now_ms: int = header["sent_steady"]
        return WatcherBeat(
            **header,
            session=self._watcher.session.state,
            source_answered_ms=self._pulse.answered_ms(now_ms),
            source_ahead_ms=self._zookeeper_clock.ahead_ms(clock_ms() - now_ms),
        )

    def _handle_item(self, item: Item, now_ms: int) -> None:
        match item:
            case Notification(type=type_, path=path):
                self._watcher.on_event(type_, path, now_ms)
                if type_ in {EventType.CREATED, EventType.DATA_CHANGED}:
                    as_of_ms = self._writer.completeness.as_of_ms
                    self._zookeeper_clock.on_notification(path, as_of_ms, now_ms)
            case Reply(token=token) if token < 0:
                self._handle_pulse(item)
            case Reply():
                self._handle_reply(item, now_ms)
            case SessionChanged() if self._ensemble.is_own(item):
                self._handle_session(item, now_ms)
            case Overflow(dropped=dropped):
                self._watcher.on_overflow(dropped, now_ms)
            case ClusterView():
                self._writer.on_view(item, now_ms)
                self._watcher.on_view(item, now_ms)
            case OtherWatcher():
                self._writer.observe_writer(item.watcher, item.generation)
                self._watcher.on_other_watcher(item, now_ms)
            case ViewsCut():
                self._watcher.on_views_cut()

    def _handle_reply(self, reply: Reply, now_ms: int) -> None:
        request = self._watcher.request(reply.token)
        if request is None:
            return  # the request was given up, or belongs to an earlier connection
        err = reply.err
        results: tuple[Result, ...] = ()
        if err == Err.OK:
            try:
                results = decode(request, reply.body, reply.offset)
            except BadReplyError as error:
                self._log.warning("ZooKeeper's reply cannot be read", reason=str(error))
                err = Err.MARSHALLING
        self._watcher.on_reply(reply.token, reply.zxid, err, results, now_ms)

    def _handle_pulse(self, reply: Reply) -> None:
        """Handle the answer to a question that shows that ZooKeeper still responds."""
        if reply.err != Err.OK:
            self._pulse.refuse(reply.token)
        elif (asked_ms := self._pulse.answer(reply.token)) is not None:
            dirty = self._watcher.reader.dirty
            dirty.round += 1
            self._writer.completeness.answered(asked_ms, dirty.round)

    def _handle_session(self, change: SessionChanged, now_ms: int) -> None:
        state = SessionState(change.state)
        silent_ms = self._pulse.answered_ms(now_ms) or 0
        # A new connection may be armed before the next question is due, and questions to the old
        # one get no answer.
        self._pulse.give_up()
        self._zookeeper_clock.on_session()
        self._watcher.on_session(state, change.server, now_ms, silent_ms=silent_ms)
        log = self._log.info if state is SessionState.CONNECTED else self._log.warning
        log("ZooKeeper session", state=state.value, zookeeper=change.server)

    def _carry_out_commands(self) -> None:
        for command in self._watcher.commands():
            self._lease.report_alive()
            self._carry_out(command)
        dropped = self._writer.send(steady_ms(), may_drop=not self._watcher.muted)
        if dropped is not None:
            self._watcher.on_dropped(dropped.changes, dropped.reason, steady_ms())

    def _carry_out(self, command: Command) -> None:
        match command:
            case ZnodeChange():
                self._publish(command)
            case Send(token=token, request=request):
                self._ensemble.send(token, request)
            case ReplaceClient(reason=reason):
                self._log.warning("new ZooKeeper client", reason=reason)
                self._ensemble.connect()
            case NoBrokers():
                self._ensemble.report_no_brokers()
            case GiveWay(message=message):
                raise ConflictError(message)
            case GiveUp(message=message):
                raise EnvironmentProblemError(message)
            case Warn(text=text, about=about):
                self._log.warning(text, **about)

    def _publish(self, change: ZnodeChange) -> None:
        happened_ms = None  # a resync's values are not news
        if change.kind in {ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED}:
            self._in_resync = change.kind is ChangeKind.RESYNC_STARTED
        if change.kind is ChangeKind.SET and change.mtime is not None:
            self._zookeeper_clock.on_value(change.path, change.mtime, steady_ms())
            if not self._in_resync:
                happened_ms = change.mtime
        self._writer.publisher.add(
            self._watcher.recorder.encode(change),
            change.position,
            may_wait=self._urgency.may_wait(change),
            happened_ms=happened_ms,
        )
        self._metrics.published(change.kind)

    def _update_metrics(self) -> None:
        now = time.monotonic()
        if now >= self._metrics_at:
            self._metrics_at = now + METRICS_INTERVAL_S
            self._metrics.session(self._watcher.session.state)
            self._metrics.show(figures(self._watcher, self._writer.publisher, len(self._inbox)))


def figures(watcher: Watcher, publisher: Publisher, queue_length: int) -> dict[str, float]:
    """Return the values of `metrics.GAUGES` and `metrics.TOTALS`."""
    return {
        "znodes": len(watcher.recorder.published.mzxids),
        "denied_paths": len(watcher.recorder.denied),
        "queue_length": queue_length,
        "dirty_paths": len(watcher.reader.dirty),
        "buffer_changes": publisher.waiting,
        "buffer_bytes": publisher.bytes_held,
        "events": watcher.events,
        "reads": watcher.reader.reads,
        "resyncs": watcher.resyncs,
        "reconciliations": watcher.reconciliations,
        "reconciliation_differences": watcher.reader.reconciliation_differences,
        "dropped_notifications": watcher.overflows,
        "dropped_changes": watcher.recorder.dropped,
        "omitted_data": watcher.recorder.omitted,
        "published_bytes": publisher.bytes_published,
    }


def intervals(settings: WatchSettings) -> Intervals:
    """Return the intervals and limits that the watcher's decisions depend on."""
    return Intervals(
        heartbeat_ms=int(settings.heartbeat_s * _MS),
        reconciliation_ms=int(settings.reconciliation_interval_s * _MS),
        resync_ms=int(settings.full_resync_s * _MS),
        resync_reads_per_s=settings.resync_reads_per_s,
        reconciliation_reads_per_s=settings.reconciliation_reads_per_s,
        new_client_ms=settings.most_silent_ms,
    )
