"""Make the reference of metrics: docs/metrics.md.

The rule: it lists the metrics of the catalogue and of the parts' own instruments, in their order
and words.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller_model.metrics.catalogue import CATALOGUE
from tools.docs.markdown import page, plain, table
from tools.docs.parts_metrics import (
    OwnMetric,
    described,
    exporter_registry,
    fold_registry,
    kraft_watcher_registry,
    watcher_registry,
)

ABOUT = """What the exporter serves at `/metrics` about each watched cluster. A figure that is not known
has no sample: it is never 0 instead. Each part's metrics about itself follow below."""

_HEAD = ("Metric", "Type", "Labels", "What to expect")

PARTS = (
    (
        "The watcher about itself",
        "On its own port (`watcher_metrics_port`), one series for each cluster that it watches.",
        watcher_registry,
    ),
    (
        "The watcher of a KRaft cluster about itself",
        "On its own port (`watcher_metrics_port`).",
        kraft_watcher_registry,
    ),
    ("The fold about itself", "On its own port (`stream_metrics_port`).", fold_registry),
    (
        "The exporter about itself",
        "On the same port as the clusters.",
        exporter_registry,
    ),
)


def metrics_page() -> str:
    """Return the page."""
    rows = (
        (
            f"`{metric.name}`",
            str(metric.type),
            ", ".join(f"`{label}`" for label in metric.labels),
            plain(metric.help),
        )
        for metric in CATALOGUE
    )
    parts = (_part(title, where, described(made())) for title, where, made in PARTS)
    return page("Metrics", ABOUT, table(_HEAD, rows), *parts)


def _part(title: str, where: str, metrics: Iterable[OwnMetric]) -> str:
    rows = (
        (
            f"`{metric.name}`",
            metric.type,
            ", ".join(f"`{label}`" for label in metric.labels),
            plain(metric.help),
        )
        for metric in metrics
    )
    return f"## {title}\n\n{where}\n\n{table(_HEAD, rows)}"
