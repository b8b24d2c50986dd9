"""Runs the watcher of a KRaft cluster: passes what is observed and read back to the decisions, and writes what they say.

One thread takes from the inbox, lets `watcher` decide, and publishes. The observer and the reading of the pipeline's
topics have threads of their own. There is no election: any number of watchers may run (`watcher`). What waits is
bounded by not taking more from the observer; nothing is dropped.
"""

import queue
import threading
import time
from collections import deque
from typing import Any

from prometheus_client import CollectorRegistry

from controller_model.kafka.ids import Position
from controller_model.records.changes import SessionState
from controller_model.records.metadata_log import MetadataSlice, SnapshotFinished
from controller_model.records.views import ClusterView, WatcherBeat
from kraft_source.config import KraftSettings
from kraft_source.observer.observer import ObserverStatus
from kraft_source.observer.released import Committed
from kraft_source.service.metrics import KraftWatcherMetrics
from kraft_source.service.observing import Observed, Observing
from kraft_source.service.published_log import PublishedRecord, decode_published
from kraft_source.service.quorum_sampler import QuorumSampler
from kraft_source.service.reconciling import Reconciling
from kraft_source.service.urgency import may_wait
from kraft_source.service.watcher import SILENCE_MS, MetadataWatcher, Sight
from kraft_source.slices import Made
from kraft_source.wire.messages import EpochLeader
from pipeline.clock import clock_ms, steady_ms
from pipeline.runtime import UnreachableError, get_logger
from pipeline.stop_signal import StopSignal
from pipeline.supervised_thread import STANDSTILL_S
from source_log.generation_fencing import Generations
from source_log.lease import SoleWatcher
from source_log.log_writer import LogWriter
from source_log.readback import History, ReadBack
from source_log.recorder import LogRecorder
from source_log.terms import Term, run_terms
from web.health import PartHealth
from web.server import metrics_server

_MS = 1000
MAX_ITEMS_AT_ONCE = 100
"""Inbox items handled before anything else."""
MAX_WAIT_MS = 250
"""How long the inbox is waited for: beats are due each second."""
METRICS_INTERVAL_S = 0.5
BLIND_MS = 1_000
"""So long no controller, or not the leader, may answer before the watcher says so: a leader that ends has a successor by then."""
CLOSE_TIMEOUT_S = 1.0
_CLOCK_SAMPLES = 60
"""Batches by which the controllers' clocks are compared with ours: those of half a minute."""


def run(settings: KraftSettings, stop: StopSignal) -> None:
    """Watch one cluster until `stop` is set; raise a KcmError for what the user must fix."""
    registry = CollectorRegistry()
    health = PartHealth(registry, lambda: stop.age_s)
    metrics = KraftWatcherMetrics(registry, settings.cluster, lambda: health.hangs)
    with metrics_server(registry, health, settings, settings.watcher_metrics_port) as server:
        log = get_logger("watcher")
        log.info("metrics are served", host=settings.metrics_host, port=server.port)
        run_terms(
            settings,
            SoleWatcher(),
            stop,
            lead=lambda term: KraftService(settings, metrics, term).run(stop),
            on_standby=metrics.standby,
        )


def run_term(
    settings: KraftSettings, term: Term, registry: CollectorRegistry, stop: StopSignal
) -> None:
    """Watch for one term until `stop` is set; the watcher's metrics go to `registry`, which somebody else serves."""
    metrics = KraftWatcherMetrics(registry, settings.cluster, lambda: stop.age_s > STANDSTILL_S)
    KraftService(settings, metrics, term).run(stop)


class KraftService:
    """The watcher's main loop and what it holds open, until the log is lost."""

    def __init__(self, settings: KraftSettings, metrics: KraftWatcherMetrics, term: Term) -> None:
        self._settings, self._metrics = settings, metrics
        self._log = get_logger("watcher").bind(cluster=settings.cluster, watcher=term.watcher)
        self._inbox: queue.SimpleQueue[Observed | ReadBack] = queue.SimpleQueue()
        self._held: deque[Observed] = deque()
        """What was observed and is not taken yet, because enough waits to be written."""
        self._watcher = MetadataWatcher(
            settings.cluster,
            term.watcher,
            settings.controller_cluster_id or None,
            heartbeat_ms=int(settings.heartbeat_s * _MS),
            now=steady_ms(),
        )
        self._recorder = LogRecorder(settings.cluster, Generations(term.watcher))
        self._recorder.dropped = term.dropped
        self._writer = LogWriter(
            settings,
            term.topics,
            term.lease,
            self._recorder,
            on_lead=lambda _: None,
            on_sent=metrics.sent,
            decode=decode_published,
            open_clients=term.open_clients,
        )
        self._observing = Observing(settings, self._inbox.put)
        self._reconciling = Reconciling(settings, time.monotonic())
        self._most_bytes = int(settings.buffer_mib * 1024 * 1024)
        self._asked: int | None = None
        """When a controller was asked for what is released in full, and may still wait to be written."""
        self._ahead: deque[int] = deque(maxlen=_CLOCK_SAMPLES)
        """By how much the controller's clock seemed ahead at each batch, in ms: too little by its delay."""
        self._leader: EpochLeader | None = None
        self._problem = ""
        self._metrics_at = 0.0

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set."""
        try:
            history = self._writer.begin(stop, self._inbox.put)
            if history is None:
                return
            self._begin(history)
            while not stop.is_set():
                self._poll()
        finally:
            self._observing.close(CLOSE_TIMEOUT_S)
            self._reconciling.close(CLOSE_TIMEOUT_S)
            self._writer.close()

    def _begin(self, history: History) -> None:
        records = [each for each in history.records if isinstance(each, PublishedRecord)]
        beat = history.beat
        is_alone = beat is None or clock_ms() - beat.sent_at > SILENCE_MS
        if beat is not None:
            self._writer.observe_beat(beat)
        now = steady_ms()
        place = self._watcher.begin(history.generation, records, is_alone=is_alone, now=now)
        if history.view is not None:
            self._handle(history.view, now)
        self._observing.begin(place)
        self._log.info(
            "watching",
            controllers=self._settings.controllers,
            generation=self._watcher.generation,
            offset=place.end_offset,
            epoch=place.epoch,
        )

    def _poll(self) -> None:
        """Handle what has happened, decide, write."""
        now = steady_ms()
        wait_ms = min(MAX_WAIT_MS, self._watcher.wait_ms(now))
        wait_ms = self._writer.publisher.wait_ms(now, wait_ms)
        item = self._pop(0 if self._held and self._has_room else wait_ms / _MS)
        handled = 0
        while item is not None:
            if isinstance(item, Observed):
                self._held.append(item)
            else:
                self._handle(item, steady_ms())
            handled += 1
            item = self._pop(0) if handled < MAX_ITEMS_AT_ONCE else None
        while self._held and self._has_room:
            self._observe(self._held.popleft(), steady_ms())
        now = steady_ms()
        self._writer.check(now)
        self._observing.check()
        status = self._observing.status
        if status is not None:
            self._report(status)
            self._watcher.tick(_sight_of(status, self._observing.sampler), now)
        if self._watcher.restart_at is not None:
            place, self._watcher.restart_at = self._watcher.restart_at, None
            self._asked = None
            self._log.warning(
                "the metadata log is read again",
                offset=place.end_offset,
                generation=self._watcher.generation,
            )
            self._held.clear()
            self._observing.begin(place)
        image = self._reconciling.poll(self._watcher.reconciles_at, time.monotonic())
        if image is not None:
            self._watcher.reconcile(image, now)
        self._write()
        self._beat(status)
        self._update_metrics(status)

    def _pop(self, wait_s: float) -> Observed | ReadBack | None:
        try:
            return self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait()
        except queue.Empty:
            return None

    @property
    def _has_room(self) -> bool:
        return self._watcher.waiting_bytes < self._most_bytes and self._watcher.restart_at is None

    def _handle(self, item: ReadBack, now: int) -> None:
        match item:
            case PublishedRecord():
                self._watcher.handle_published(item, now)
            case WatcherBeat():
                self._writer.observe_beat(item)
                self._watcher.hear(item.watcher, item.generation, now)
            case ClusterView():
                self._writer.on_view(item, now)
                self._watcher.handle_view(item, now)

    def _observe(self, item: Observed, now: int) -> None:
        self._observing.taken(item)
        if item.run != self._observing.run:
            return
        cluster_id = self._observing.sampler.cluster_id
        if cluster_id is not None:
            self._watcher.name_cluster(cluster_id, now)
            if self._watcher.restart_at is not None:
                return
        status = self._observing.status
        leader = None if status is None else status.leader
        self._watcher.handle_released(item.released, leader, now)
        if isinstance(item.released, Committed):
            if item.released.batches:
                self._ahead.append(item.released.batches[-1].at - clock_ms())
            if self._watcher.maker.released >= item.released.high_watermark:
                self._asked = item.asked_ms

    def _write(self) -> None:
        publisher = self._writer.publisher
        while publisher.has_room and (made := self._watcher.pop()) is not None:
            record = made.record
            is_news = isinstance(record, MetadataSlice) and record.batches
            publisher.add(
                made.data,
                self._place(made),
                may_wait=may_wait(record),
                happened_ms=record.observed_at if is_news else None,
            )
            self._metrics.published(str(type(record).__struct_config__.tag))
        self._writer.send(steady_ms(), may_drop=False)
        generations = self._recorder.generations
        generations.generation, generations.seq = self._watcher.position
        if self._asked is not None and not self._watcher.waiting:
            self._writer.completeness.answered(self._asked, 0)
            self._asked = None

    def _place(self, made: Made) -> Position:
        """Return up to where a reader holds the log once it has a record."""
        record = made.record
        if isinstance(record, MetadataSlice | SnapshotFinished):
            return record.position
        return self._watcher.position

    def _beat(self, status: ObserverStatus | None) -> None:
        if self._watcher.leads:
            self._writer.beat(
                steady_ms(),
                oldest_round=0,
                complete=lambda header: _beat_of(header, status, self._ahead),
            )

    def _report(self, status: ObserverStatus) -> None:
        """Tell in the log of this process who leads, and what goes wrong."""
        if status.leader is not None and status.leader != self._leader and status.leader.id >= 0:
            self._leader = status.leader
            self._log.info(
                "active controller", controller=status.leader.id, epoch=status.leader.epoch
            )
        if status.problem and status.problem != self._problem:
            self._log.warning("no answer from the metadata log's leader", reason=status.problem)
            if self._settings.fail_fast and status.answered_at is None:
                raise UnreachableError(status.problem)
        self._problem = status.problem

    def _update_metrics(self, status: ObserverStatus | None) -> None:
        if self._watcher.leads is not self._metrics.leads:
            self._metrics.leads = self._watcher.leads
            text = "this watcher writes the log" if self._watcher.leads else "another one writes"
            self._log.info(text, generation=self._watcher.generation, end=self._watcher.published)
        if time.monotonic() < self._metrics_at:
            return
        self._metrics_at = time.monotonic() + METRICS_INTERVAL_S
        publisher = self._writer.publisher
        self._metrics.show(
            {
                "queue_length": self._inbox.qsize() + len(self._held),
                "buffer_changes": self._watcher.waiting + publisher.waiting,
                "buffer_bytes": self._watcher.waiting_bytes + publisher.bytes_held,
                "metadata_end": self._watcher.published,
                "metadata_high_watermark": 0 if status is None else max(0, status.high_watermark),
                "requests": self._observing.requests,
                "connection_failures": self._observing.connection_failures,
                "repairs": self._watcher.repairs,
                "reconciliations": self._reconciling.finished,
                "published_bytes": publisher.bytes_published,
            }
        )


def _sight_of(status: ObserverStatus, sampler: QuorumSampler) -> Sight:
    """Return what is known of the controllers, dated by the clock of this machine."""
    now = clock_ms()
    if (ms := _silent_ms(status.unreachable_since)) is not None:
        return Sight(now, None, now - ms)
    ms = _silent_ms(status.leader_silent_since)
    silent_since = None if ms is None else now - ms
    return Sight(now, status.leader, None, sampler.sample, silent_since, sampler.snapshot)


def _beat_of(
    header: dict[str, Any], status: ObserverStatus | None, ahead: deque[int]
) -> WatcherBeat:
    """Complete a beat with what is known of the controllers.

    Only an answer with another high watermark proves anything: a leader that has lost its majority answers as before.
    """
    session = answered_ms = None
    if status is not None and status.high_watermark_since is not None:
        answered_ms = _ago_ms(status.high_watermark_since)
        is_blind = _silent_ms(status.unreachable_since) is not None
        session = SessionState.SUSPENDED if is_blind else SessionState.CONNECTED
    return WatcherBeat(
        **header,
        session=session,
        source_answered_ms=answered_ms,
        source_ahead_ms=max(ahead, default=None),
    )


def _silent_ms(since: float | None) -> int | None:
    """Return for how long nobody has answered since a time; None: somebody does, or did a moment ago."""
    silent_ms = 0 if since is None else _ago_ms(since)
    return silent_ms if silent_ms > BLIND_MS else None


def _ago_ms(at_s: float) -> int:
    """Return how long ago a time of the observer's clock was."""
    return max(0, int((time.monotonic() - at_s) * _MS))
