"""The watcher's metrics, each with its HELP text and where its value is read.

The rule: one entry for each metric, from which it is served and documented.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zk_source.log.publisher import Publisher
from zk_source.service.metrics import WatcherMetrics
from zk_source.watcher.watcher import Watcher


class Sources(NamedTuple):
    """Where the values are read."""

    watcher: Watcher
    publisher: Publisher
    queue_length: int


class WatcherMetric(NamedTuple):
    """One metric: kcm_watcher_<name>, with _total behind it if it only grows."""

    name: str
    help: str
    read: Callable[[Sources], float]


GAUGES = (
    WatcherMetric(
        "znodes",
        "Znodes that exist according to the log.",
        lambda sources: len(sources.watcher.recorder.published),
    ),
    WatcherMetric(
        "denied_paths",
        "Znodes that ZooKeeper's ACLs do not let the watcher read; 0 in health.",
        lambda sources: len(sources.watcher.recorder.denied),
    ),
    WatcherMetric(
        "queue_length",
        "Notifications and replies from ZooKeeper that wait to be handled; near 0 in health.",
        lambda sources: sources.queue_length,
    ),
    WatcherMetric(
        "dirty_paths",
        "Znodes that changed and are not yet read again; near 0 in health.",
        lambda sources: len(sources.watcher.reader.dirty),
    ),
    WatcherMetric(
        "buffer_changes",
        "Changes that wait to be sent to the pipeline's Kafka; near 0 in health.",
        lambda sources: sources.publisher.waiting,
    ),
    WatcherMetric(
        "buffer_bytes",
        "Bytes of changes that the pipeline's Kafka has not acknowledged yet.",
        lambda sources: sources.publisher.bytes_held,
    ),
)

TOTALS = (
    WatcherMetric(
        "events",
        "Notifications received from ZooKeeper.",
        lambda sources: sources.watcher.counts.events,
    ),
    WatcherMetric(
        "reads",
        "Reads of znodes answered by ZooKeeper.",
        lambda sources: sources.watcher.reader.counts.reads,
    ),
    WatcherMetric(
        "resyncs",
        "Resyncs that began: each publishes every znode again.",
        lambda sources: sources.watcher.counts.resyncs,
    ),
    WatcherMetric(
        "audits",
        "Reconciliations that ended: each compares the whole tree with the log.",
        lambda sources: sources.watcher.counts.reconciliations,
    ),
    WatcherMetric(
        "audit_differences",
        "Changes that only a reconciliation found, without a notification; 0 in health.",
        lambda sources: sources.watcher.reader.counts.reconciliation_differences,
    ),
    WatcherMetric(
        "dropped_notifications",
        "Notifications dropped because too many waited; a resync follows each time.",
        lambda sources: sources.watcher.counts.overflows,
    ),
    WatcherMetric(
        "dropped_changes",
        "Changes dropped because the pipeline's Kafka did not take them in time; a resync follows.",
        lambda sources: sources.watcher.recorder.dropped,
    ),
    WatcherMetric(
        "omitted_data",
        "Changes published without their data because they were too large for the log.",
        lambda sources: sources.publisher.omitted,
    ),
    WatcherMetric(
        "published_bytes",
        "Bytes of changes that the pipeline's Kafka acknowledged.",
        lambda sources: sources.publisher.bytes_published,
    ),
)


def report_metrics(
    metrics: WatcherMetrics, watcher: Watcher, publisher: Publisher, queue_length: int
) -> None:
    """Bring the metrics up to date."""
    sources = Sources(watcher, publisher, queue_length)
    metrics.session(watcher.session.state)
    for metric in GAUGES:
        metrics.gauge(metric.name, metric.help, metric.read(sources))
    for metric in TOTALS:
        metrics.total(metric.name, metric.help, metric.read(sources))
