"""Runs the watcher: passes what happens to the decisions, and carries out their commands.

The rule: one thread takes from the inbox, lets `watcher` decide, sends and publishes. Everything
that blocks for long happens before the loop (the pipeline's Kafka) or in other threads (sockets).
The loop ends when `stop` is set, or raises the error that the user must see. The lease is checked
before each publish; without a valid lease, changes wait (`leader_elector`). Each turn of the loop
checks every other thread. While all of them work, a beat is sent once a second (`beats`).
"""

import secrets
import threading
import time

from prometheus_client import CollectorRegistry

from controller_model.records.changes import ChangeKind, SessionState, ZnodeChange
from controller_model.records.views import ClusterView
from pipeline.clock import clock_ms, steady_ms
from pipeline.kafka_errors import ReadTrouble, TopicReadError
from pipeline.runtime import (
    Backoff,
    ConflictError,
    EnvironmentProblemError,
    UnreachableError,
    get_logger,
)
from pipeline.topics import EnsuredTopics, check_writable, ensure_topics
from pipeline.web import metrics_server
from zk_source.config import WatchSettings
from zk_source.election.candidacy import LeaseStatus
from zk_source.election.leader_elector import Lease, make_elector
from zk_source.log.beats import Beats
from zk_source.log.publisher import Publisher
from zk_source.log.readback import Readback
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
from zk_source.watcher.fold_lag import FoldLag
from zk_source.watcher.log_completeness import LogCompleteness
from zk_source.watcher.pulse import Pulse
from zk_source.watcher.subscriptions import Watches
from zk_source.watcher.watcher import Intervals, Watcher
from zk_source.watcher.zookeeper_clock import ZookeeperClock
from zk_source.wire.inbox import (
    Inbox,
    Item,
    Notification,
    OtherWatcher,
    Overflow,
    Reply,
    SessionChanged,
    ViewsCut,
)
from zk_source.wire.jute import BadReplyError, decode
from zk_source.wire.operations import Err, EventType, Result, Sync
from zk_source.zookeeper.ensemble import WatchedEnsemble
from zk_source.zookeeper.server_health import watched_health

MAX_ITEMS_AT_ONCE = 500
"""Inbox items taken before everything else gets its turn: some milliseconds of work."""

_MS = 1000

STORM_NOTIFICATIONS = 2
"""A turn in which this many watches fired is part of a storm; such a turn lasts a millisecond."""

STORM_PAUSE_S = 0.01
"""How long the next turn of a storm waits for more. Dozens of changes then share the cost of one
turn, and of one message for Kafka, the fold and all other readers: this halves the work of the
watcher and of the pipeline's Kafka."""

DELIVERY_WAIT_S = 0.005
"""How long to wait for the inbox while changes wait for the producer."""

SOUND_S = 60.0
"""A watcher that has run for at least this long starts over at once when its log is lost."""

GOODBYE_S = 2.0
METRICS_INTERVAL_S = 0.5


def run(settings: WatchSettings, stop: threading.Event) -> None:
    """Watch one cluster until `stop` is set; raise a KcmError for what the user must fix."""
    registry = CollectorRegistry()
    metrics = WatcherMetrics(registry, settings.cluster)
    with metrics_server(registry, settings, settings.watcher_metrics_port) as server:
        log = get_logger("watcher")
        log.info("metrics are served", host=settings.metrics_host, port=server.port)
        _watch(settings, metrics, stop)


def _watch(settings: WatchSettings, metrics: WatcherMetrics, stop: threading.Event) -> None:
    """Stand by and lead in turns until `stop` is set."""
    log = get_logger("watcher")
    pause = Backoff(first_s=1.0, most_s=30.0)
    dropped = 0
    # The fold adds up dropped changes by watcher name, so a watcher keeps both its name and its
    # count.
    name = secrets.token_hex(3)
    elector = make_elector(settings)
    try:
        while not stop.is_set():
            metrics.standby(dropped)
            topics = ensure_topics(settings, stop=stop)
            check_readable(settings, topics, stop)
            check_writable(settings, topics.names.changes)
            lease = elector.wait(stop)
            if lease is None:
                break
            # A standby may have waited for weeks, so the topics are checked again.
            topics = ensure_topics(settings, stop=stop)
            began_at = time.monotonic()
            service = WatcherService(settings, topics, metrics, lease, name=name, dropped=dropped)
            try:
                service.run(stop)
            except LeaseLostError:
                log.warning("the lease is lost: nothing more is published, standing by")
                name, dropped = secrets.token_hex(3), 0
            except LogLostError as error:
                dropped = error.dropped
                metrics.standby(dropped)
                elector.resign()
                if time.monotonic() - began_at > SOUND_S:
                    pause.reset()
                wait_s = pause.next_s()
                log.warning(
                    "the watcher starts over", reason=str(error), dropped=dropped, next_try_s=wait_s
                )
                stop.wait(wait_s)
    except UnreachableError:
        if not stop.is_set():
            raise
    finally:
        elector.close()


def check_readable(settings: WatchSettings, topics: EnsuredTopics, stop: threading.Event) -> None:
    """Read the pipeline's topics before the lead is taken; raise TopicReadError if Kafka denies that.

    Topics that were deleted in the meantime are created again when the lead is taken.
    """
    readback = Readback(settings, topics, "")
    try:
        readback.history(stop, while_=lambda: True)
    except TopicReadError as error:
        if error.trouble is not ReadTrouble.MISSING:
            raise
    finally:
        readback.close()


class LogLostError(Exception):
    """The log accepts no more changes from this producer: topics gone, fenced, or not authorized."""

    def __init__(self, reason: str, dropped: int) -> None:
        super().__init__(reason)
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
        dropped: int,
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
            intervals=intervals(settings),
            watches=Watches(settings.zk_watches),
            elected=lease.czxid,
        )
        self._watcher.recorder.dropped = dropped
        self._publisher = Publisher(settings, topics)
        self._beats = Beats(settings, topics, name)
        self._readback = Readback(settings, topics, name)
        self._pulse = Pulse(int(settings.beat_s * _MS))
        self._log_completeness = LogCompleteness()
        self._fold_lag = FoldLag()
        self._zookeeper_clock = ZookeeperClock()
        self._ensemble = WatchedEnsemble(settings, self._inbox, self._log)
        self._contested_generation = 0
        self._notifications = 0
        """How many items the last turn took in."""
        self._in_resync = False
        self._metrics_at = 0.0

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set."""
        try:
            if not self._begin(stop):
                return
            with watched_health(self._server, self._metrics.zookeeper) as check_health:
                while not stop.is_set():
                    self._turn()
                    check_health()
            self._watcher.on_stop(steady_ms())
            self._carry_out()
        except TopicReadError as error:
            if error.trouble is not ReadTrouble.MISSING:
                raise
            raise self._lost(str(error)) from None
        finally:
            self._close()

    def _begin(self, stop: threading.Event) -> bool:
        """Read what existed before the start, then follow and connect; return False when `stop` is set first."""
        history = self._readback.history(stop, while_=self._leads)
        if stop.is_set():
            return False
        if history is None:
            raise LeaseLostError  # everything that follows needs the lead
        self._lease.keep()
        self._metrics.leads(leads=True)
        self._watcher.generations.saw(history.generation)
        if history.view is not None:
            self._watcher.on_view(history.view, steady_ms())
        self._readback.follow(self._inbox)
        self._ensemble.connect()
        self._log.info("watching", zookeeper=self._settings.zookeeper)
        return True

    def _leads(self) -> bool:
        return self._lease.status is not LeaseStatus.LOST

    def _server(self) -> str:
        """Return the server whose health may be requested; empty with TLS or without a session."""
        session = self._watcher.session
        return session.server if session.connected and not self._settings.zk_tls else ""

    def _close(self) -> None:
        self._ensemble.close()
        self._readback.close()
        self._beats.close()
        if self._lease.status is not LeaseStatus.VALID:
            self._publisher.abandon()
        elif not self._publisher.close(GOODBYE_S):
            self._log.warning(
                "the pipeline's Kafka did not take the last changes in time",
                bytes_held=self._publisher.bytes_held,
            )

    def _turn(self) -> None:
        """Handle what has happened, decide, act."""
        self._lease.keep()
        now_ms = steady_ms()
        wait_s = self._watcher.wait_ms(now_ms) / 1000
        if not self._publisher.idle:
            wait_s = min(wait_s, DELIVERY_WAIT_S)
        in_storm = self._notifications >= STORM_NOTIFICATIONS
        item = self._inbox.take(wait_s, pause_s=STORM_PAUSE_S if in_storm else 0.0)
        taken = self._notifications = 0
        while item is not None:
            self._take_in(item, steady_ms())
            taken += 1
            self._notifications += isinstance(item, Notification)
            item = self._inbox.take(0) if taken < MAX_ITEMS_AT_ONCE else None
        now_ms = steady_ms()
        self._check_delivery(now_ms)
        self._readback.check()
        self._ask_zookeeper(now_ms)
        if not self._watcher.session.connected:
            self._ensemble.check(resynced=bool(self._watcher.resyncs))
        self._watcher.reader.room = self._publisher.has_room and (
            not self._readback.is_shared
            or self._fold_lag.allows_walk(self._watcher.generations.position, now_ms)
        )
        self._watcher.recorder.clock_ahead_ms = clock_ms() - now_ms
        self._watcher.recorder.sends_beats = not self._beats.refused
        self._watcher.on_tick(now_ms)
        self._carry_out()
        self._zookeeper_clock.on_carried_out()
        self._beat(steady_ms())
        self._update_metrics()

    def _ask_zookeeper(self, now_ms: int) -> None:
        """Ask ZooKeeper continuously: the answers, and when they were asked for, show whether it still responds."""
        if not self._watcher.armed:
            self._pulse.give_up()
            self._log_completeness.reads_forgotten()
            return
        silent_ms = self._pulse.waits_ms(now_ms)
        if silent_ms > self._settings.most_silent_ms:
            self._pulse.give_up()
            self._watcher.on_silence(silent_ms, now_ms)
            return
        token = self._pulse.ask(now_ms)
        if token is not None:
            self._ensemble.send(token, Sync("/"))

    def _beat(self, now_ms: int) -> None:
        """Send a beat, if everything works, that says up to when the log is complete."""
        self._log_completeness.advance(
            oldest_round=self._watcher.reader.dirty.oldest_round,
            published=self._watcher.generations.position,
            acknowledged=self._publisher.acknowledged,
        )
        if self._unproven:
            return
        self._beats.beat(
            now_ms,
            generation=self._watcher.generations.generation,
            acknowledged=self._publisher.acknowledged,
            session=self._watcher.session.state,
            zookeeper_answered_ms=self._pulse.answered_ms(now_ms),
            log_complete_ms=self._log_completeness.complete_ms(now_ms),
            zookeeper_ahead_ms=self._zookeeper_clock.ahead_ms(clock_ms() - now_ms),
        )
        refused = self._beats.take_refusal()
        if refused is not None:
            self._log.warning(
                "the pipeline's Kafka does not take the watcher's signs of life", reason=refused
            )

    def _take_in(self, item: Item, now_ms: int) -> None:
        match item:
            case Notification(type=type_, path=path):
                self._watcher.on_event(type_, path, now_ms)
                if type_ in {EventType.CREATED, EventType.DATA_CHANGED}:
                    as_of_ms = self._log_completeness.as_of_ms
                    self._zookeeper_clock.on_notification(path, as_of_ms, now_ms)
            case Reply():
                self._take_in_reply(item, now_ms)
            case SessionChanged() if self._ensemble.is_own(item):
                self._take_in_session(item, now_ms)
            case Overflow(dropped=dropped):
                self._watcher.on_overflow(dropped, now_ms)
            case ClusterView():
                self._check_writer(item.log.watcher, item.as_of.generation)
                published = self._watcher.generations.position
                self._fold_lag.on_view(item.as_of.position, published, now_ms)
                self._watcher.on_view(item, now_ms)
            case OtherWatcher():
                self._check_writer(item.watcher, item.generation)
                self._watcher.on_other_watcher(item, now_ms)
            case ViewsCut():
                self._watcher.on_views_cut()

    def _take_in_reply(self, reply: Reply, now_ms: int) -> None:
        if reply.token < 0:
            self._take_in_answer(reply)
            return
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

    def _take_in_answer(self, reply: Reply) -> None:
        """Handle the answer to a question that shows that ZooKeeper still responds."""
        if reply.err == Err.CONNECTION_LOSS:
            return  # a change of the session's state follows
        if reply.err != Err.OK:
            self._pulse.refuse(reply.token)
            return
        asked_ms = self._pulse.answer(reply.token)
        if asked_ms is not None:
            dirty = self._watcher.reader.dirty
            dirty.round += 1
            self._log_completeness.answered(asked_ms, dirty.round)

    def _take_in_session(self, change: SessionChanged, now_ms: int) -> None:
        state = SessionState(change.state)
        # A new connection may be armed before the next question is due, and questions to the old
        # one get no answer.
        self._pulse.give_up()
        self._zookeeper_clock.on_session()
        self._watcher.on_session(state, change.server, now_ms)
        log = self._log.info if state is SessionState.CONNECTED else self._log.warning
        log("ZooKeeper session", state=state.value, zookeeper=change.server)

    def _check_writer(self, watcher: str, generation: int) -> None:
        """Invalidate the lease when another watcher writes: it may be the leader that succeeded us."""
        generations = self._watcher.generations
        if generation > self._contested_generation and generations.competes(watcher, generation):
            self._contested_generation = generation
            self._lease.invalidate()

    # --- acting -----------------------------------------------------------------------------

    def _carry_out(self) -> None:
        for command in self._watcher.commands():
            self._do(command)
        # Changes that the producer accepts at once do not wait: a resync's replies alone must not
        # overflow the bound.
        if self._may_publish():
            self._publisher.pump()
        if self._publisher.overflowing() and not self._watcher.muted:
            dropped = self._publisher.drop_waiting()
            reason = (
                "the lease could not be proved"
                if self._unproven
                else "the pipeline's Kafka did not take changes"
            )
            self._watcher.on_dropped(dropped, f"{reason} in time", steady_ms())

    def _may_publish(self) -> bool:
        """Return whether the lease is valid; raise LeaseLostError when it has ended."""
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
                if command.kind is ChangeKind.SET and command.mtime is not None:
                    self._zookeeper_clock.on_value(command.path, command.mtime, steady_ms())
                self._metrics.published(command.kind, self._delay_ms(command))
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

    def _delay_ms(self, change: ZnodeChange) -> int | None:
        """Return how old a change is in milliseconds; None during a resync, whose values are not news."""
        if change.kind in {ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED}:
            self._in_resync = change.kind is ChangeKind.RESYNC_STARTED
        news = change.kind is ChangeKind.SET and not self._in_resync
        return clock_ms() - (change.mtime or 0) if news else None

    # --- what else can go wrong -------------------------------------------------------------

    def _check_delivery(self, now_ms: int) -> None:
        failure = self._publisher.poll()
        if failure is not None:
            reason = f"the pipeline's Kafka refused changes: {failure.reason}"
            raise self._lost(reason, failure.changes)
        if self._watcher.muted and self._publisher.idle and not self._unproven:
            self._log.info("the pipeline's Kafka takes changes again")
            self._watcher.on_pipeline_back(now_ms)

    def _lost(self, reason: str, changes: int = 0) -> LogLostError:
        """Return the error that the log is lost; count these changes and those that wait as dropped."""
        changes += self._publisher.drop_waiting()
        return LogLostError(reason, self._watcher.recorder.dropped + changes)

    def _update_metrics(self) -> None:
        now = time.monotonic()
        if now >= self._metrics_at:
            self._metrics_at = now + METRICS_INTERVAL_S
            self._metrics.session(self._watcher.session.state)
            self._metrics.show(figures(self._watcher, self._publisher, len(self._inbox)))


def figures(watcher: Watcher, publisher: Publisher, queue_length: int) -> dict[str, float]:
    """Return the values of `metrics.GAUGES` and `metrics.TOTALS`."""
    return {
        "znodes": len(watcher.recorder.published),
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
        "omitted_data": publisher.omitted,
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
