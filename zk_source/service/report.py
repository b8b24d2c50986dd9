"""From the watcher's and the publisher's own counts to metrics, each with its help text.

The rule: one entry for each figure, from which it is shown and documented.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zk_source.log.publisher import Publisher
from zk_source.service.metrics import WatcherMetrics
from zk_source.watcher.watcher import Watcher


class Counted(NamedTuple):
    """What keeps the counts."""

    watcher: Watcher
    publisher: Publisher
    queue_length: int


class Figure(NamedTuple):
    """One metric: kcm_watcher_<name>, with _total behind it if it only grows."""

    name: str
    help: str
    read: Callable[[Counted], float]


GAUGES = (
    Figure(
        "znodes",
        "Znodes that the log says exist.",
        lambda counted: len(counted.watcher.recorder.published),
    ),
    Figure(
        "denied_paths",
        "Paths that the watcher may not read; 0 in health.",
        lambda counted: len(counted.watcher.recorder.denied),
    ),
    Figure(
        "queue_length",
        "Notifications and replies that wait to be looked at; near 0 in health.",
        lambda counted: counted.queue_length,
    ),
    Figure(
        "dirty_paths",
        "Changed paths that wait to be read.",
        lambda counted: len(counted.watcher.reading.dirty),
    ),
    Figure(
        "buffer_changes",
        "Changes that wait for the pipeline's Kafka.",
        lambda counted: counted.publisher.waiting,
    ),
    Figure(
        "buffer_bytes",
        "Bytes of changes that the pipeline's Kafka has not acknowledged.",
        lambda counted: counted.publisher.bytes_held,
    ),
)

TOTALS = (
    Figure(
        "events", "Notifications from ZooKeeper.", lambda counted: counted.watcher.figures.events
    ),
    Figure("reads", "Znodes read.", lambda counted: counted.watcher.reading.figures.reads),
    Figure("resyncs", "Resyncs begun.", lambda counted: counted.watcher.figures.resyncs),
    Figure("audits", "Audits ended.", lambda counted: counted.watcher.figures.audits),
    Figure(
        "audit_differences",
        "Values that an audit found and no notification had told; 0 in health.",
        lambda counted: counted.watcher.reading.figures.audit_differences,
    ),
    Figure(
        "dropped_notifications",
        "Notifications dropped for want of memory; each time a resync follows.",
        lambda counted: counted.watcher.figures.overflows,
    ),
    Figure(
        "dropped_changes",
        "Changes dropped because the pipeline's Kafka was away; a resync follows.",
        lambda counted: counted.watcher.recorder.dropped,
    ),
    Figure(
        "omitted_data",
        "Changes too large for the log that went without data.",
        lambda counted: counted.publisher.omitted,
    ),
    Figure(
        "published_bytes",
        "Bytes that the pipeline's Kafka took.",
        lambda counted: counted.publisher.bytes_published,
    ),
)


def report_figures(
    metrics: WatcherMetrics, watcher: Watcher, publisher: Publisher, queue_length: int
) -> None:
    """Bring the metrics up to date."""
    counted = Counted(watcher, publisher, queue_length)
    metrics.session(watcher.sight.state)
    for figure in GAUGES:
        metrics.gauge(figure.name, figure.help, figure.read(counted))
    for figure in TOTALS:
        metrics.total(figure.name, figure.help, figure.read(counted))
