"""Run the exporter as a part of the pipeline: start, serve until asked to stop, end cleanly.

The port is bound first, so that a conflict is reported before anything else happens, and /readyz
answers, with the reason, while Kafka is not available yet.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from exporter.core.alert_settings import changed_thresholds
from exporter.core.config import ExportSettings
from exporter.core.metrics import ExporterMetrics
from exporter.core.status import ReadingState, ReadingStatus
from exporter.intake.event_store import EventStore
from exporter.partitions.worst_topics import WorstTopicsThread
from exporter.scrape.collector import Collector
from exporter.serve.main_loop import Feed, MainLoop
from exporter.serve.pages import Pages
from exporter.serve.server import HttpServer, make_app
from pipeline.clock import clock_ms
from pipeline.runtime import KcmError, get_logger
from pipeline.stop_signal import StopSignal
from web.health import PartHealth
from web.server import WebOptions

_CHECK_INTERVAL_S = 0.2
"""How soon the end of a thread is noticed."""


class Exporter(NamedTuple):
    """An exporter that serves."""

    url: str
    """At which this machine reaches it."""
    collector: Collector
    registry: CollectorRegistry
    """What is served as the exporter's own metrics."""
    check: Callable[[], None]
    """Raises the error that ended a thread of it."""


def run(settings: ExportSettings, stop: StopSignal) -> None:
    """Serve until `stop` is set. Raises KcmError for an error that the user must fix."""
    with serving(settings, stop) as exporter:
        while not stop.wait(_CHECK_INTERVAL_S):
            exporter.check()


@contextmanager
def serving(
    settings: ExportSettings, stop: StopSignal, feed: Feed | None = None
) -> Iterator[Exporter]:
    """Serve what `feed` or, without one, the pipeline's Kafka returns; the caller asks `stop` and `check` regularly."""
    log = get_logger("exporter")
    servers = settings.bootstrap_servers if feed is None else None
    metrics = ExporterMetrics(CollectorRegistry())
    events = EventStore(kept=settings.events_kept)
    state = ReadingState(ReadingStatus(bootstrap_servers=servers))
    collector = Collector(state.of_cluster)
    reader = MainLoop(
        settings,
        events=events,
        collector=collector,
        state=state,
        metrics=metrics,
        clock=clock_ms,
        feed=feed,
    )
    # Each of the two loops does its turns alone: the one reads, the other checks all threads and ends the exporter.
    health = PartHealth(metrics.registry, lambda: max(reader.age_s, stop.age_s))
    pages = Pages(
        collector,
        events,
        metrics,
        state=state,
        health=health,
        clock=clock_ms,
        kafka_gone_s=settings.kafka_gone_s,
        partition_metrics=settings.partition_metrics,
        thresholds=changed_thresholds(settings.alerts),
    )
    worst = WorstTopicsThread(collector.worst_topics, lambda: collector.clusters, clock_ms)
    app, web = make_app(pages, metrics), WebOptions.of(settings)
    with HttpServer(app, settings.host, settings.port, web) as server, worst:
        log.info("serving", url=server.url, kafka=servers)
        reader.start()
        try:
            yield Exporter(
                server.local_url, collector, metrics.registry, lambda: _check(reader, server, worst)
            )
        finally:
            reader.close()
    log.info("stopped")


def _check(reader: MainLoop, server: HttpServer, worst: WorstTopicsThread) -> None:
    reader.check()
    if not server.alive:
        raise KcmError("exporter: the HTTP server has ended; see the log above, then restart it")
    if not worst.alive:
        raise KcmError("exporter: the search for the worst topics has ended; restart it")
