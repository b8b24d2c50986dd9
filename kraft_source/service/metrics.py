"""Serves the own metrics of the watcher of a KRaft cluster.

All have a `cluster` label. Their values come from the counts that the decisions and the publisher keep.
"""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_DELAY_BUCKETS_S = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    *(10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0),
)

GAUGES = {
    "queue_length": "Answers of controllers that wait to be handled; normally near 0.",
    "buffer_changes": "Records that wait to be written: of a watcher that stands by, those that it has "
    "not read back yet.",
    "buffer_bytes": "Bytes of records that wait or that the pipeline's Kafka has not acknowledged.",
    "metadata_end": "The offset of the metadata log behind what this watcher has written or read back.",
    "metadata_high_watermark": "The offset behind the last committed record that a controller has named.",
}
"""HELP of kcm_watcher_<name>."""

TOTALS = {
    "requests": "Requests sent to controllers.",
    "connection_failures": "Connections and requests to controllers that failed.",
    "repairs": "Holes in the log that were filled from the metadata log.",
    "reconciliations": "Times that what the controllers hold was read anew and written for a comparison.",
    "published_bytes": "Bytes of records that the pipeline's Kafka acknowledged.",
}
"""HELP of kcm_watcher_<name>_total."""


class KraftWatcherMetrics:
    """The metrics of one watcher."""

    def __init__(
        self, registry: CollectorRegistry, cluster: str, hangs: Callable[[], bool]
    ) -> None:
        """Make the instruments. `hangs` returns whether the main loop hangs, which then updates none of them."""
        self._cluster = cluster
        self.leads = False
        Gauge(
            "kcm_watcher_leader",
            "1 while this watcher writes the log, 0 while it leaves that to another one or its main loop hangs; "
            "normally, the sum over a cluster's watchers is 1.",
            ["cluster"],
            registry=registry,
        ).labels(cluster).set_function(lambda: self.leads and not hangs())
        self._records = Counter(
            "kcm_watcher_changes",
            "Records that the watcher appended to the log, by kind.",
            ["cluster", "kind"],
            registry=registry,
        )
        self._delay = Histogram(
            "kcm_watcher_change_delay_seconds",
            "Seconds from the append of a change to the metadata log, by the active controller's clock, until "
            "the watcher appends it to the log.",
            ["cluster"],
            buckets=_DELAY_BUCKETS_S,
            registry=registry,
        ).labels(cluster)
        self._gauges = {
            name: Gauge(f"kcm_watcher_{name}", text, ["cluster"], registry=registry).labels(cluster)
            for name, text in GAUGES.items()
        }
        self._totals = {
            name: Counter(f"kcm_watcher_{name}", text, ["cluster"], registry=registry).labels(
                cluster
            )
            for name, text in TOTALS.items()
        }
        self._shown: dict[str, float] = {}

    def standby(self, _dropped: int) -> None:
        """Show a watcher that begins anew: its counts begin at 0."""
        self.leads = False
        self._shown = {}

    def published(self, kind: str) -> None:
        """Count a record."""
        self._records.labels(self._cluster, kind).inc()

    def sent(self, delay_ms: int) -> None:
        """Note the delay of news that is given to the pipeline's Kafka."""
        self._delay.observe(max(0, delay_ms) / 1000)

    def show(self, figures: Mapping[str, float]) -> None:
        """Show the values of `GAUGES` and `TOTALS`; the totals are counts that are kept elsewhere."""
        for name, gauge in self._gauges.items():
            gauge.set(figures[name])
        for name, total in self._totals.items():
            total.inc(max(0.0, figures[name] - self._shown.get(name, 0.0)))
            self._shown[name] = figures[name]
