"""Signals about how late a figure is, stage by stage, from the parts' own metrics.

Each part measures its own stage, so the watcher's and the fold's ports must be scraped, too. The
fold and the exporter measure all clusters together; a watcher has only one.
"""

from dashboards.signals.signal import Signal, selected

RATE_WINDOW = "5m"
"""Contains several heartbeats, so that there is something to measure in a quiet cluster, too."""

QUANTILE = 0.99
"""One in a hundred may take longer."""


def _slowest(metric: str, *labels: str) -> str:
    """Return the delay that 99 of 100 did not exceed; without labels, over all clusters."""
    of = selected(f"{metric}_bucket") if labels else f"{metric}_bucket{{}}"
    kept = ", ".join((*labels, "le"))
    return f"histogram_quantile({QUANTILE}, sum by ({kept}) (rate({of}[{RATE_WINDOW}])))"


WATCHER_DELAY = Signal(
    expr=_slowest("kcm_watcher_change_delay_seconds", "cluster"),
    unit="s",
    meaning="Age of a change when the watcher sends it to the log, 99th percentile. It compares ZooKeeper's clock with "
    "the watcher's.",
    normal="up to half a second, for which changes that are not urgent wait for others (linger_ms).",
    action="Check the watcher's CPU and the clocks. If it is empty, scrape the watcher's /metrics.",
    legend="watcher",
)
FOLD_DELAY = Signal(
    expr=_slowest("kcm_fold_batch_seconds"),
    unit="s",
    meaning="Duration of the fold's batches, 99th percentile, of all clusters together.",
    normal="0.2 to 0.4 s; more in the first minutes after a start.",
    action="Check the fold's CPU and memory. If it is empty, scrape the fold's /metrics.",
    legend="fold",
)
EXPORTER_DELAY = Signal(
    expr=_slowest("kcm_exporter_record_delay_seconds"),
    unit="s",
    meaning="Time from the production of a cluster's view to its figures in /metrics, 99th percentile, of all clusters "
    "together.",
    normal="milliseconds.",
    action="Check the exporter's CPU and the pipeline's Kafka.",
    legend="exporter",
)
WHOLE_DELAY = Signal(
    expr=_slowest("kcm_exporter_change_delay_seconds"),
    unit="s",
    meaning="Time from when the watcher sees a change until it is in /metrics, 99th percentile, of all "
    "clusters together.",
    normal="below 1 s.",
    action="Find the stage whose own delay is high.",
    legend="watcher to /metrics",
)
FOLD_LAG = Signal(
    expr="max(kcm_fold_lag_records{})",
    meaning="Records of the log that the fold has not processed yet.",
    normal="0 or a few.",
    action="If it grows, the fold is down or too slow: read its log. If it is empty, scrape the fold's "
    "/metrics.",
    runbook="KcmBehind",
    legend="fold",
)
EXPORTER_LAG = Signal(
    expr="max by (topic) (kcm_exporter_lag_records{})",
    meaning="Records of views and events that the exporter has not read yet.",
    normal="0 or a few.",
    action="If it grows, check the exporter's CPU and the pipeline's Kafka.",
    runbook="KcmBehind",
    legend="exporter: {{topic}}",
)
BUFFERED = Signal(
    expr=f"max by (cluster) ({selected('kcm_watcher_buffer_changes')})",
    meaning="Changes that wait in the watcher for others (linger_ms), or until the pipeline's Kafka accepts them.",
    normal="0 or a few.",
    action="If it grows, the pipeline's Kafka does not answer: check its brokers.",
    runbook="KcmBehind",
    legend="watcher",
)
