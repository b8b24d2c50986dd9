"""Read the metrics that each part serves about itself from the instruments that serve them.

The rule: an instrument has its own name, type, labels and help, so the page cannot state others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from exporter.core.metrics import ExporterMetrics
from kraft_source.service.metrics import KraftWatcherMetrics
from streaming.metrics import FoldMetrics
from streaming.progress import BatchReport
from web.health import PartHealth
from zk_source.service.metrics import WatcherMetrics

_SUFFIXES = {"counter": "_total", "info": "_info"}
"""What the names of samples have after the family's name."""

ANY_CLUSTER = "kafka"


class OwnMetric(NamedTuple):
    """One metric of a part about itself."""

    name: str
    """The name in samples; for a histogram without _bucket, _sum and _count."""
    type: str
    labels: tuple[str, ...]
    help: str


def watcher_registry() -> CollectorRegistry:
    """Return what the watcher serves on its own port."""
    registry = CollectorRegistry()
    WatcherMetrics(registry, ANY_CLUSTER, bool)
    PartHealth(registry, lambda: 0.0)
    return registry


def kraft_watcher_registry() -> CollectorRegistry:
    """Return what the watcher of a KRaft cluster serves on its own port."""
    registry = CollectorRegistry()
    KraftWatcherMetrics(registry, ANY_CLUSTER, bool)
    PartHealth(registry, lambda: 0.0)
    return registry


def fold_registry() -> CollectorRegistry:
    """Return what the fold serves on its own port."""
    registry = CollectorRegistry()
    metrics = FoldMetrics(registry)
    metrics.observe(BatchReport(batch=0, took_ms=0))
    PartHealth(registry, lambda: 0.0)
    return registry


def exporter_registry() -> CollectorRegistry:
    """Return what the exporter serves about itself, in addition to the clusters' metrics."""
    registry = CollectorRegistry()
    ExporterMetrics(registry)
    PartHealth(registry, lambda: 0.0)
    return registry


def described(registry: CollectorRegistry) -> Iterator[OwnMetric]:
    """Yield the metrics of a registry."""
    # Neither the registry's list nor an instrument's labels are public, and nothing public has both.
    for instrument in list(registry._collector_to_names):  # noqa: SLF001  # see above
        for family in instrument.describe():  # type: ignore[attr-defined]  # each of ours has it
            has_labels = instrument if hasattr(instrument, "_labelnames") else family
            labels: tuple[str, ...] = tuple(getattr(has_labels, "_labelnames", ()))
            suffix = _SUFFIXES.get(family.type, "")
            yield OwnMetric(family.name + suffix, family.type, labels, family.documentation)
