"""Planned work on brokers: which marks there are, and how far the work has come.

The rule: marks are read beside the figures and never in their way: without the topic, or with a
damaged one, every figure is still served. A mark ends by its own time, whatever became of whoever
set it. How far a restart has come is told by the broker's epoch, which no two clocks can confuse.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.records.views import BrokerView
from exporter.core.config import ExportSettings
from exporter.core.metrics import ExporterMetrics
from exporter.intake.consumer import Notice, Reading, ViewConsumer
from pipeline.maintenance import (
    PARTITION,
    PlannedWork,
    decode_mark,
    ensure_maintenance_topic,
    maintenance_topic,
)
from pipeline.runtime import Backoff, get_logger
from pipeline.topics import client_properties

_READ_TIMEOUT_S = 0.1
"""How soon a stop is noticed."""
LOOK_EVERY_S = 5.0
"""How soon a topic that was made anew is noticed: a consumer does not tell."""
_CLOSE_TIMEOUT_S = 6.0
"""A question to Kafka may be under way for 5 s."""


class Progress(enum.StrEnum):
    """How far the restart of a broker has come."""

    WAITING = "waiting"
    """It runs on as it did when it was marked: not stopped yet."""
    DOWN = "down"
    BACK = "back"
    """It has started anew, and is not in every ISR yet."""
    CAUGHT_UP = "caught_up"
    """It has started anew, and is in every ISR that it belongs to."""


Marks = Mapping[tuple[str, int], PlannedWork]
"""By cluster and broker."""


class WrittenTo(NamedTuple):
    """Where marks stand: `kcm up` starts a Kafka whose port nobody could know else."""

    bootstrap_servers: str
    topic: str


class PlannedWorkStore:
    """The marks as they are shown: replaced, never changed, so any thread may ask."""

    def __init__(self) -> None:
        self.written_to: WrittenTo | None = None
        """Where a mark is to be written; None before the topic is read."""
        self._marks: Marks = {}

    def show(self, marks: Marks) -> None:
        """Show these marks from now on."""
        self._marks = dict(sorted(marks.items()))

    def lasting(self, cluster: str, now: int) -> dict[int, PlannedWork]:
        """Return the marks of a cluster that have not ended, by broker."""
        return {
            broker: work
            for (name, broker), work in self._marks.items()
            if name == cluster and now < work.until
        }


def progress_of(broker: BrokerView | None, work: PlannedWork) -> Progress | None:
    """Return how far the work has come; None for a broker that the figures do not know."""
    if broker is None:
        return None
    if not broker.live:
        return Progress.DOWN
    if broker.epoch == work.epoch:
        return Progress.WAITING
    return Progress.CAUGHT_UP if broker.in_isr >= broker.replicas else Progress.BACK


def planned_answer(work: PlannedWork, broker: BrokerView | None) -> dict[str, Any]:
    """Return a mark and its progress, in the API's words."""
    return {
        "broker": work.broker,
        "started_at": work.started_at,
        "until": work.until,
        "reason": work.reason,
        "epoch": None if work.epoch is None else str(work.epoch),
        "progress": progress_of(broker, work),
        "since": None if broker is None else broker.since,
        "in_isr": None if broker is None else broker.in_isr,
        "replicas": None if broker is None else broker.replicas,
    }


class MaintenanceReader:
    """A thread that keeps a store as the topic is; a context manager."""

    def __init__(
        self, settings: ExportSettings, store: PlannedWorkStore, metrics: ExporterMetrics
    ) -> None:
        self._settings = settings
        self._store = store
        self._metrics = metrics
        self._topic = maintenance_topic(settings.topic_prefix)
        self._log = get_logger("maintenance")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(_CLOSE_TIMEOUT_S)

    def stop(self) -> None:
        """Tell the thread to end; leaving the context waits for it, for a few seconds at most."""
        self._stop.set()

    def _run(self) -> None:
        pause = Backoff(first_s=0.5)
        told = None
        admin = AdminClient(client_properties(self._settings), logger=None)
        while not self._stop.is_set():
            try:
                topic_id = ensure_maintenance_topic(admin, self._settings)
                servers = self._settings.bootstrap_servers
                self._store.written_to = WrittenTo(servers, self._topic)
                told = None
                self._read(admin, topic_id)
                pause.reset()
            except KafkaException as error:
                reason = error.args[0].str()
                if reason != told:
                    self._log.warning("planned work is not read", topic=self._topic, reason=reason)
                told = reason
            self._stop.wait(pause.next_s())

    def _read(self, admin: AdminClient, topic_id: str) -> None:
        """Read until the stop, or until the topic has to be looked after."""
        place = (self._topic, PARTITION)
        consumer = ViewConsumer(self._settings, [place])
        # What was known stays shown until the topic was read to its end once more.
        marks: dict[tuple[str, int], PlannedWork] = {}
        is_whole = False
        look_at_s = time.monotonic() + LOOK_EVERY_S
        try:
            while not self._stop.is_set():
                reading = consumer.read(_READ_TIMEOUT_S)
                self._take_in(reading, marks)
                notices = {notice for notice, _, _ in reading.notices}
                is_whole = is_whole or Notice.AT_END in notices
                if is_whole and (reading.records or reading.notices):
                    self._store.show(marks)
                if notices - {Notice.AT_END}:
                    return
                if time.monotonic() >= look_at_s:
                    if ensure_maintenance_topic(admin, self._settings) != topic_id:
                        return
                    look_at_s = time.monotonic() + LOOK_EVERY_S
        finally:
            consumer.close()

    def _take_in(self, reading: Reading, marks: dict[tuple[str, int], PlannedWork]) -> None:
        for record in reading.records:
            self._metrics.records.labels(record.topic).inc()
            try:
                mark = decode_mark(record.key, record.value, record.timestamp)
            except UnreadableRecordError as error:
                self._metrics.unreadable.labels(record.topic).inc()
                self._log.warning("a mark of planned work cannot be read", reason=str(error))
                continue
            marks.pop((mark.cluster, mark.broker), None)
            if mark.work is not None:
                marks[mark.cluster, mark.broker] = mark.work
