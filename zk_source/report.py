"""From the watcher's and the publisher's own counts to metrics, each with its help text."""

from __future__ import annotations

from zk_source.metrics import WatcherMetrics
from zk_source.publisher import Publisher
from zk_source.watcher import Watcher


def report_figures(
    metrics: WatcherMetrics, watcher: Watcher, publisher: Publisher, queue_length: int
) -> None:
    """Bring the metrics up to date."""
    figures = watcher.figures
    metrics.session(watcher.sight.state)
    metrics.gauge("znodes", "Znodes that the log says exist.", len(watcher.recorder.published))
    metrics.gauge(
        "denied_paths",
        "Paths that the watcher may not read; 0 in health.",
        len(watcher.recorder.denied),
    )
    metrics.gauge(
        "queue_length",
        "Notifications and replies that wait to be looked at; near 0 in health.",
        queue_length,
    )
    metrics.gauge("dirty_paths", "Changed paths that wait to be read.", len(watcher.reading.dirty))
    metrics.gauge(
        "buffer_changes", "Changes that wait for the pipeline's Kafka.", publisher.waiting
    )
    metrics.gauge(
        "buffer_bytes",
        "Bytes of changes that the pipeline's Kafka has not acknowledged.",
        publisher.bytes_held,
    )
    metrics.total("events", "Notifications from ZooKeeper.", figures.events)
    metrics.total("reads", "Znodes read.", watcher.reading.figures.reads)
    metrics.total("resyncs", "Resyncs begun.", figures.resyncs)
    metrics.total("audits", "Audits ended.", figures.audits)
    metrics.total(
        "audit_differences",
        "Values that an audit found and no notification had told; 0 in health.",
        watcher.reading.figures.audit_differences,
    )
    metrics.total(
        "dropped_notifications",
        "Notifications dropped for want of memory; each time a resync follows.",
        figures.overflows,
    )
    metrics.total(
        "dropped_changes",
        "Changes dropped because the pipeline's Kafka was away; a resync follows.",
        watcher.recorder.dropped,
    )
    metrics.total(
        "omitted_data", "Changes too large for the log that went without data.", publisher.omitted
    )
    metrics.total(
        "published_bytes", "Bytes that the pipeline's Kafka took.", publisher.bytes_published
    )
