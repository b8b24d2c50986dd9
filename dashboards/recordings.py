"""Recording rules: the few figures of a cluster that are worth keeping for years, or federating.

The rule: a recorded series is a signal as it is, one per cluster, whatever exporter it came from.
Neither boards nor alerts need them: both work where nobody loads these rules.
"""

from __future__ import annotations

from dashboards import signals_controller, signals_fleet, signals_partitions, signals_pipeline
from dashboards.signal import Signal

RECORDED: tuple[tuple[str, Signal], ...] = (
    ("cluster:kcm_trouble:sum", signals_fleet.TROUBLE),
    ("cluster:kcm_cluster_up:max", signals_pipeline.FOLLOWED),
    ("cluster:kafka_controller_elections:grown1h", signals_controller.ELECTIONS_HOUR),
    ("cluster:kafka_controller_vacancy_seconds:grown1h", signals_controller.VACANCY_HOUR),
    ("cluster:kafka_cluster_offline_partitions:max", signals_partitions.OFFLINE),
    ("cluster:kafka_cluster_under_min_isr_partitions:max", signals_partitions.UNDER_MIN_ISR),
    ("cluster:kafka_cluster_under_replicated_partitions:max", signals_partitions.UNDER_REPLICATED),
    ("cluster:kafka_cluster_isr_shrinks:grown1h", signals_partitions.ISR_SHRINKS_HOUR),
    ("cluster:kafka_cluster_preferred_replica_imbalance:max", signals_partitions.IMBALANCE),
)
"""Names in Prometheus's form: level:metric:operation."""


def rules() -> list[dict[str, object]]:
    """Return the rules as Prometheus reads them."""
    return [{"record": name, "expr": signal.in_rules()} for name, signal in RECORDED]
