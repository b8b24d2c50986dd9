"""Serves the fold's own metrics.

A figure that is not known yet is absent. Lag is measured against the log's own end, by a
separate client in its own thread, so it also grows when Spark hangs.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from streaming.failures import FailureKind
from streaming.progress import BatchReport

BATCH_BUCKETS_S = (
    *(0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10),
    *(30, 60, 120, 300, 600, 1800),
)
"""Buckets around the 0.2-0.3 s of a warm batch, and up to half an hour: a quantile is never
reported above the last finite bucket."""


_COUNTED = {
    "messages": "Messages of the log that were folded.",
    "changes": "Changes of the log that were folded.",
    "records": "Records written to views and events.",
    "unreadable": "Records of the log that could not be read; 0 unless somebody else writes to it.",
    "unattributed": "Messages of the log that belong to no cluster; 0 unless somebody else writes to it.",
    "errors": "Changes that were skipped because of an error in the fold, which is a bug to "
    "report; normally 0.",
}
"""The counters that follow a report's counts, by its field names, each with its meaning."""


class FoldMetrics(Collector):
    """The fold's instruments on a registry."""

    def __init__(self, registry: CollectorRegistry, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        self.up = gauge(
            "kcm_fold_up", "1 while the query runs; 0 for longer than a minute is a fault."
        )
        self.batch_seconds = Histogram(
            "kcm_fold_batch_seconds",
            "Time of a batch that had something to fold; 0.2 to 0.4 s when warm.",
            buckets=BATCH_BUCKETS_S,
            registry=registry,
        )
        self.stage_seconds = counter(
            "kcm_fold_stage_seconds", "Time spent on batches, by Spark's stages.", ["stage"]
        )
        self.state_commit_seconds = counter(
            "kcm_fold_state_commit_seconds", "Time that batches spent writing the state."
        )
        self._counted = {
            field: counter(f"kcm_fold_{field}", meaning) for field, meaning in _COUNTED.items()
        }
        self.restarts = counter(
            "kcm_fold_restarts", "Restarts of the query, by reason.", ["reason"]
        )
        for reason in (*(kind.value for kind in FailureKind), "topics"):
            self.restarts.labels(reason)  # creates the counter with the value 0
        self.lineages = counter(
            "kcm_fold_lineages",
            "Lineages begun (new starts from the log); with each, the "
            "counters in the views start again at 0.",
        )
        self.last_batch = gauge(
            "kcm_fold_last_batch_timestamp_seconds",
            "Unix time in seconds when the last batch ended; heartbeats cause one every 10 s.",
        )
        self._folded_to: int | None = None
        self._log_end: int | None = None
        self._newest_ms: int | None = None
        registry.register(self)

    def observe(self, report: BatchReport) -> None:
        """Count one batch."""
        self.batch_seconds.observe(report.took_ms / 1000)
        for stage, took_ms in report.stage_ms.items():
            self.stage_seconds.labels(stage).inc(took_ms / 1000)
        self.state_commit_seconds.inc(report.state_commit_ms / 1000)
        for field, counter in self._counted.items():
            counter.inc(getattr(report, field))
        self.last_batch.set(self._now_s())
        self._folded_to = report.end_offset
        if report.newest_ms is not None:
            self._newest_ms = report.newest_ms

    def start_over(self) -> None:
        """Forget how far the log was folded: a new lineage reads it from its beginning."""
        self._folded_to = None
        self._newest_ms = None

    def measure_lag(self, log_end: int | None) -> None:
        """Note where the log ends; None when that is not known, and then the lag is not known either."""
        self._log_end = log_end

    def collect(self) -> Iterator[Metric]:
        """Yield the lag as of this scrape (`prometheus_client.registry.Collector`)."""
        log_end, folded_to = self._log_end, self._folded_to
        if log_end is None or folded_to is None:
            return
        behind = max(0, log_end - folded_to)
        late_s: float | None = 0.0
        if behind:
            newest_ms = self._newest_ms
            late_s = None if newest_ms is None else max(0.0, self._now_s() - newest_ms / 1000)
        yield from _lag(behind, late_s)

    def describe(self) -> Iterator[Metric]:
        """Yield the names of the lag's metrics, which are known before the lag is."""
        return _lag(0, 0)


def _lag(records: int, seconds: float | None) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "kcm_fold_lag_records",
        "Messages of the log that are not folded yet; near 0 except for moments.",
        value=records,
    )
    if seconds is None:  # no message that is folded had a time that could be read
        return
    yield GaugeMetricFamily(
        "kcm_fold_lag_seconds",
        "Age of the oldest message that is not folded yet, as an upper bound; 0 when there is none.",
        value=seconds,
    )
