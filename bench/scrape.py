"""Measure the cost and size of a scrape and of the live page: the exporter over HTTP, with views of large clusters.

The views are those that the model makes from a cluster's log. Kafka is not needed for that: a
scrape does not wait for it.
"""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from bench import machine, page
from bench.load import LogLoad, messages
from bench.map_state import TopicsInMemory
from controller_model.fold.projection import SentViews, project
from controller_model.fold.replay import replay
from controller_model.kafka.ids import AsOf
from controller_model.records.changes import decode_message
from controller_model.records.completeness import ReaderProgress
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import Assumed, ControlPlane
from exporter.core.metrics import ExporterMetrics
from exporter.core.status import ReadingState, ReadingStatus
from exporter.intake.event_store import EventStore
from exporter.intake.view_store import ViewStore
from exporter.scrape.collector import Collector
from exporter.serve.pages import Pages
from exporter.serve.server import HttpServer, make_app
from pipeline.clock import clock_ms, steady_ms
from pipeline.topic_records import Record
from web.health import PartHealth

SUMMARY = (
    "a scrape of /metrics and of /metrics/partitions, the live page opened and searched, at 10,000 and "
    "200,000 partitions"
)

CLUSTER = "bench"
SIZES = (
    {"topics": 1_000, "partitions": 10, "brokers": 3},
    {"topics": 2_000, "partitions": 100, "brokers": 100},
)
SCRAPES = 200
LARGE_SCRAPES = 5  # of /metrics/partitions: tens of megabytes each


class Shown:
    """The state of a reader of the topics."""

    def __init__(self) -> None:
        self.views = ViewStore()
        self.state = ReadingState(ReadingStatus(read_to_end_once=True, read_at=steady_ms()))
        self.collector = Collector(lambda _snapshot: ReaderProgress(read_ms=0, watcher_ms=0))

    def apply_record(self, key: str, value: bytes) -> None:
        """Take in a view, and show the batch that it completes."""
        name = self.views.apply(Record("kcm.views", 0, 0, key.encode(), value, clock_ms()))
        if name is not None:
            self.collector.update([name], self.views.clusters)


def measure() -> dict[str, Any]:
    """Scrape a cluster of each size; times in milliseconds, on a connection that stays open."""
    return {
        "scenario": "scrape",
        "clusters": [_measure(**size) for size in SIZES],
        "peak_memory_mib_with_the_model": machine.peak_memory_mib(os.getpid()),
        "machine": machine.describe(),
    }


def _measure(*, topics: int, partitions: int, brokers: int) -> dict[str, Any]:
    _shown, app = served(CLUSTER, topics=topics, partitions=partitions, brokers=brokers)
    with HttpServer(app, "127.0.0.1", 0) as server:
        return {
            "partitions": topics * partitions,
            "brokers": brokers,
            "/metrics": _scrape(server, "/metrics", SCRAPES),
            "/metrics/partitions": _scrape(server, "/metrics/partitions", LARGE_SCRAPES),
            "live page": page.measure(server, CLUSTER, topic=f"topic-{topics - 1}"),
        }


def served(cluster: str, *, topics: int, partitions: int, brokers: int) -> tuple[Shown, Starlette]:
    """Return a reader that has read the views of a cluster, and the exporter's application over it."""
    shown = Shown()
    _fill(shown, LogLoad(cluster, topics=topics, partitions=partitions, brokers=brokers))
    return shown, application(shown, partition_metrics=True)


def application(
    shown: Shown, clock: Callable[[], int] = clock_ms, *, partition_metrics: bool
) -> Starlette:
    """Return the exporter's application over what is shown."""
    metrics = ExporterMetrics(CollectorRegistry())
    pages = Pages(
        shown.collector,
        EventStore(kept=1),
        metrics,
        state=shown.state,
        health=PartHealth(metrics.registry, lambda: 0.0),
        clock=clock,
        kafka_gone_s=15,
        partition_metrics=partition_metrics,
    )
    return make_app(pages, metrics)


def _fill(shown: Shown, load: LogLoad) -> None:
    """Fold a resync as the fold does, and pass the views on."""
    control = ControlPlane(CLUSTER, assumed=Assumed(), counters_since=0)
    state = ClusterState(control, TopicsInMemory().batch(), ZOOKEEPER)
    for message in messages(load.resync()):
        for change in decode_message(message).changes:
            replay(state, change)
    as_of = AsOf(CLUSTER, *state.control.log.position)
    for key, _, value in project(state, as_of=as_of, folded_at=clock_ms(), sent=SentViews()):
        if value is not None:
            shown.apply_record(key, value)


def _scrape(server: HttpServer, path: str, times: int) -> dict[str, Any]:
    client = http.client.HTTPConnection(server.host, server.port, timeout=60)
    took_ms = []
    body = b""
    for _ in range(times):
        began = time.perf_counter()
        client.request("GET", path)
        body = client.getresponse().read()
        took_ms.append((time.perf_counter() - began) * 1000)
    client.close()
    series = sum(1 for line in body.splitlines() if line and not line.startswith(b"#"))
    return {
        "p50_ms": round(machine.percentile(took_ms, 50), 2),
        "p99_ms": round(machine.percentile(took_ms, 99), 2),
        "series": series,
        "bytes": len(body),
    }
