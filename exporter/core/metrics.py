"""The exporter's metrics about itself.

The number of series stays small however many clusters are watched, and the registry is
passed in. The metrics of clusters are in the model's catalogue and are not defined again here.
"""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import exposition as text_format
from prometheus_client.openmetrics import exposition as openmetrics_format

from exporter.core.render import Format

_DELAY_BUCKETS_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    *(30, 60, 120, 300, 600, 1800),
)
"""From the few milliseconds that the pipeline takes to half an hour: Prometheus never shows a quantile above the
last finite bucket."""

_WORK_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5)
"""For rendering and scrapes: a tenth of a millisecond for one cluster, tens of milliseconds for a large fleet."""


class ExporterMetrics:
    """The exporter's instruments; `registry` holds no others."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.ready = gauge(
            "kcm_exporter_ready",
            "1 while /readyz answers 200: both topics were read to their ends, and the pipeline's "
            "Kafka answers and is being read.",
        )
        self.records = counter("kcm_exporter_records", "Records read from the topic.", ["topic"])
        self.unreadable = counter(
            "kcm_exporter_unreadable_records",
            "Records skipped because they are damaged, of another version or not the monitor's; 0 in a "
            "healthy pipeline.",
            ["topic"],
        )
        self.commits = counter(
            "kcm_exporter_batches", "Complete batches of the fold that reached /metrics."
        )
        self.resets = counter(
            "kcm_exporter_rereads",
            "Times that the topic was read again from its beginning because it was re-created or "
            "truncated; 0 in a healthy pipeline.",
            ["topic"],
        )
        self.kafka_answered = gauge(
            "kcm_exporter_kafka_answered_timestamp_seconds",
            "Unix time in seconds of the last answer of the pipeline's Kafka; it advances every "
            "few seconds.",
        )
        self.lag = gauge(
            "kcm_exporter_lag_records",
            "Records of the topic that are not read yet; 0 or a few in a healthy pipeline.",
            ["topic"],
        )
        self.clusters = gauge("kcm_exporter_clusters", "Clusters served in /metrics.")
        self.record_delay = histogram(
            "kcm_exporter_record_delay_seconds",
            "Time from when Kafka received a cluster view until its figures are in /metrics, by two clocks.",
            buckets=_DELAY_BUCKETS_S,
        )
        self.change_delay = histogram(
            "kcm_exporter_change_delay_seconds",
            "Time from the watcher seeing a znode change until the change is in /metrics; compares "
            "two machines' clocks.",
            buckets=_DELAY_BUCKETS_S,
        )
        self.render = histogram(
            "kcm_exporter_render_seconds",
            "Time to render the clusters that one read changed.",
            buckets=_WORK_BUCKETS_S,
        )
        self.scrape = histogram(
            "kcm_exporter_scrape_seconds",
            "Time to assemble the answer of /metrics.",
            buckets=_WORK_BUCKETS_S,
        )
        self.requests = counter(
            "kcm_exporter_http_requests",
            "Requests answered; `route` is `none` for a path or a method that is not served.",
            ["route", "code"],
        )

    def exposition(self, format_: Format) -> bytes:
        """Return the samples, without the "# EOF" of OpenMetrics."""
        if format_ is Format.TEXT:
            return text_format.generate_latest(self.registry)
        body: bytes = openmetrics_format.generate_latest(self.registry)  # type: ignore[no-untyped-call]  # the package leaves it untyped
        return body.removesuffix(format_.end)
