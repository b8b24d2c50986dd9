"""A fold as its own process on a real broker, a writer of its log, and a reader of what comes out."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from controller_model.kafka.ids import AsOf
from controller_model.records.changes import MAX_CHANGES_PER_MESSAGE, ZnodeChange
from controller_model.records.event_records import EventRecord, decode_event
from controller_model.records.views import ClusterView, Deleted, FoldView, WatcherBeat, decode_view
from kcm.servers.class_archive import SPARK_CLASSES, find_class_archive
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import free_port
from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from pipeline.java import find_java
from pipeline.topics import TopicNames, topic_names
from tests.support.histories import History, encode_changes
from tests.support.waiting import DEADLINE_S, wait_until

FOLD_DEADLINE_S = 120.0  # a cold JVM on a busy machine takes 50 s to its first batch


class Outcome:
    """The records of views and events, read from their beginnings as a reader would."""

    def __init__(self, bootstrap_servers: str, names: TopicNames) -> None:
        self._names = names
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"test-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 5,
                "log_level": 2,
            }
        )
        self.read_again()
        self.views: dict[str, FoldView | Deleted] = {}
        self.events: list[EventRecord] = []
        """By rising id, as a reader keeps them: what is not above the highest is a duplicate."""
        self.duplicates = 0

    def read_again(self) -> None:
        """Read both topics from their beginnings, as a reader does that sees that one was made anew."""
        topics = (self._names.views, self._names.events)
        self._consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING) for name in topics])

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def read(self) -> None:
        """Take in what has come."""
        for message in self._consumer.consume(500, timeout=0.02):
            if message.error() is not None:
                continue
            key, value = (message.key() or b"").decode(), message.value()
            if value is None:
                self.views.pop(key, None)
                continue
            if message.topic() == self._names.events:
                self._take_event(decode_event(value))
                continue
            view = decode_view(value)
            if isinstance(view, WatcherBeat):
                continue
            if key not in self.views or view.as_of >= self.views[key].as_of:
                self.views[key] = view

    def _take_event(self, record: EventRecord) -> None:
        held = [other.id for other in self.events if other.cluster == record.cluster]
        if held and record.id <= max(held):
            self.duplicates += 1
        else:
            self.events.append(record)

    def events_of(self, cluster: str) -> list[EventRecord]:
        """Return a cluster's events."""
        return [record for record in self.events if record.cluster == cluster]

    def folded(self, history: History, *, lineage: str | None = None) -> Any:
        """Wait until a history is folded (in another lineage than this one); return its view."""

        def look() -> FoldView | Deleted | None:
            self.read()
            return self.views.get(f"{history.cluster}/cluster")

        def holds(view: FoldView | Deleted | None) -> bool:
            return (
                isinstance(view, ClusterView)
                and view.as_of.lineage != lineage
                and view.as_of >= AsOf(view.as_of.lineage, history.generation, history.seq)
            )

        view = wait_until(look, holds, deadline_s=FOLD_DEADLINE_S)
        assert isinstance(view, ClusterView)
        return view


class Stream:
    """`python -m streaming` under a supervisor, and the log that it folds."""

    def __init__(
        self, supervisor: Supervisor, broker: KraftBroker, jars: Jars, folder: Path
    ) -> None:
        self.prefix = f"fold-{uuid.uuid4().hex[:8]}"
        self.names = topic_names(self.prefix)
        self.checkpoint_dir = folder / "checkpoint"
        self.metrics_port = free_port()
        self.bootstrap_servers = broker.bootstrap_servers
        self._supervisor = supervisor
        self._jars = jars
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "linger.ms": 0,
                "message.max.bytes": 8 << 20,
                "log_level": 2,
            }
        )
        self._appended: dict[str, int] = {}
        self.process: Process | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The fold's settings."""
        return {
            "KCM_BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "KCM_TOPIC_PREFIX": self.prefix,
            "KCM_CHECKPOINT_DIR": os.fspath(self.checkpoint_dir),
            "KCM_CONNECTOR_JARS": ",".join(os.fspath(jar) for jar in self._jars.connector),
            "KCM_CLASS_ARCHIVE": os.fspath(
                find_class_archive(SPARK_CLASSES, self._jars.connector, find_java(os.environ)) or ""
            ),
            "KCM_STREAM_METRICS_PORT": str(self.metrics_port),
            "KCM_TOPIC_CHECK_INTERVAL_S": "0.5",
            "KCM_DRIVER_MEMORY": "512m",
            "KCM_LOG_FORMAT": "json",
        }

    def start(self) -> Process:
        """Start the fold and wait until its query runs."""
        self.process = Process(
            self._supervisor,
            f"stream-{self.prefix}",
            [sys.executable, "-m", "streaming"],
            env=self.environment,
            health=self._seen,
            ready_deadline_s=FOLD_DEADLINE_S,
            stop_deadline_s=FOLD_DEADLINE_S,
        )
        self.process.start()
        self.process.wait_ready()
        return self.process

    def _seen(self) -> str | None:
        try:
            up = self.sample("kcm_fold_up")
        except OSError as error:
            return f"no metrics yet: {error}"
        return None if up == 1 else f"kcm_fold_up is {up}"

    def sample(self, name: str, **labels: str) -> float | None:
        """Return one of the fold's own figures, by labels of it; None when it is absent."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:  # our own port
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return None

    def write(self, message: bytes | None, *, key: str | bytes | None) -> None:
        """Append any message to the log."""
        self._producer.produce(self.names.changes, value=message, key=key, partition=0)
        assert self._producer.flush(DEADLINE_S) == 0

    def append_new(self, history: History, *, at_a_time: int = MAX_CHANGES_PER_MESSAGE) -> None:
        """Append what is new in a history."""
        changes: Sequence[ZnodeChange] = history.changes[self._appended.get(history.cluster, 0) :]
        self._appended[history.cluster] = len(history.changes)
        for start in range(0, len(changes), at_a_time):
            self.write(encode_changes(changes[start : start + at_a_time]), key=history.cluster)
