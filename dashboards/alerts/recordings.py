"""Recording rules: the few figures of a cluster that are worth keeping for years, or federating.

The rule: a recorded series is a signal as it is, one per cluster, whatever exporter it came from.
Neither boards nor alerts need them: both work where nobody loads these rules.
"""

from __future__ import annotations

from dashboards.signals import controller, fleet, partitions, pipeline
from dashboards.signals.signal import Signal

RECORDED: tuple[tuple[str, Signal], ...] = (
    ("cluster:kcm_trouble:sum", fleet.TROUBLE),
    ("cluster:kcm_cluster_up:max", pipeline.FOLLOWED),
    ("cluster:kafka_controller_elections:grown1h", controller.ELECTIONS_HOUR),
    ("cluster:kafka_controller_vacancy_seconds:grown1h", controller.VACANCY_HOUR),
    ("cluster:kafka_cluster_offline_partitions:max", partitions.OFFLINE),
    ("cluster:kafka_cluster_under_min_isr_partitions:max", partitions.UNDER_MIN_ISR),
    ("cluster:kafka_cluster_under_replicated_partitions:max", partitions.UNDER_REPLICATED),
    ("cluster:kafka_cluster_isr_shrinks:grown1h", partitions.ISR_SHRINKS_HOUR),
    ("cluster:kafka_cluster_preferred_replica_imbalance:max", partitions.IMBALANCE),
)
"""Names in Prometheus's form: level:metric:operation."""


def rules() -> list[dict[str, object]]:
    """Return the rules as Prometheus reads them."""
    return [{"record": name, "expr": signal.in_rules()} for name, signal in RECORDED]
