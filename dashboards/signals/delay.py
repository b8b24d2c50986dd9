"""Signals about how late a figure is, stage by stage, from the parts' own metrics.

The rule: each part measures its own stage, so the watcher's and the fold's ports must be scraped, too. The
fold and the exporter measure all clusters together; a watcher has only one.
"""

import functools

from dashboards.signals.signal import DrillStep, Signal, selected

RATE_WINDOW = "5m"
"""Contains several heartbeats, so that there is something to measure in a quiet cluster, too."""

MOST = 0.99
"""The quantile: one in a hundred may take longer."""

_SCRAPED = "Needs the /metrics of the watcher and of the fold to be scraped."


def _slowest(metric: str, *labels: str) -> str:
    """Return the delay that 99 of 100 did not exceed; without labels, over all clusters."""
    of = selected(f"{metric}_bucket") if labels else f"{metric}_bucket{{}}"
    kept = ", ".join((*labels, "le"))
    return f"histogram_quantile({MOST}, sum by ({kept}) (rate({of}[{RATE_WINDOW}])))"


_delay = functools.partial(Signal, unit="s", moved_by=DrillStep.INVITE)

WATCHER_DELAY = _delay(
    expr=_slowest("kcm_watcher_change_delay_seconds", "cluster"),
    description="99th percentile of the age of changes when the watcher sent them to the log; tens "
    f"of milliseconds. Compares ZooKeeper's clock with the watcher's. {_SCRAPED}",
    legend="watcher",
)
FOLD_DELAY = _delay(
    expr=_slowest("kcm_fold_batch_seconds"),
    description="99th percentile of the time of the fold's batches, all clusters together; 0.2 to "
    "0.4 s when warm.",
    legend="fold",
)
EXPORTER_DELAY = _delay(
    expr=_slowest("kcm_exporter_record_delay_seconds"),
    description="99th percentile of the time from the production of a cluster's view to its "
    "figures in /metrics, all clusters together; milliseconds.",
    legend="exporter",
)
WHOLE_DELAY = _delay(
    expr=_slowest("kcm_exporter_change_delay_seconds"),
    description="99th percentile of the time from the watcher seeing a change to the change in "
    "/metrics, all clusters together; under a second.",
    legend="watcher to /metrics",
)
FOLD_LAG = Signal(
    expr="max(kcm_fold_lag_records{})",
    description="Messages of the log that are not folded yet; 0 or a few, and growing when the fold "
    f"is too slow or down. {_SCRAPED}",
    legend="fold",
    moved_by=DrillStep.HOLE,
)
EXPORTER_LAG = Signal(
    expr="max by (topic) (kcm_exporter_lag_records{})",
    description="Records of views and events that the exporter has not read yet; 0 or a few.",
    legend="exporter: {{topic}}",
    moved_by=DrillStep.UNSERVED,
)
BUFFERED = Signal(
    expr=f"max by (cluster) ({selected('kcm_watcher_buffer_changes')})",
    description="Changes that wait in the watcher for the pipeline's Kafka; 0 or a few, growing "
    "while it is away.",
    legend="watcher",
    moved_by=DrillStep.FLOOD,
)
