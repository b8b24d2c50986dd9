"""What is absent while the watcher is denied it."""

from __future__ import annotations

import pytest

from controller_model.metrics.metric import Metric
from tests.support.metric_samples import of_cluster
from tests.support.samples import cluster_view, log_view


@pytest.mark.parametrize(
    ("denied", "controller", "offline"),
    [
        ((), 1, 1),
        (("/config/brokers",), 1, 1),
        (("/controller",), 0, 1),
        (("/brokers/ids/1",), 1, 0),
        (("/",), 0, 0),
    ],
)
def test_metrics_that_depend_on_denied_paths_have_no_sample(
    denied: tuple[str, ...], controller: int, offline: int
) -> None:
    """An id of -1, or partitions offline because no registration was read, would be wrong figures."""
    view = cluster_view(log=log_view(denied=denied))
    assert len(of_cluster("kafka_controller_id", view)) == controller
    assert len(of_cluster("kafka_cluster_offline_partitions", view)) == offline
    assert of_cluster("kcm_cluster_denied_paths", view) == [((), len(denied))]
    # What Kafka's own ACLs deny everybody is assumed: otherwise no such cluster would be complete.
    missed = bool(denied) and denied != ("/config/brokers",)
    assert of_cluster("kcm_cluster_incomplete", view) == [((), int(missed))]


@pytest.mark.parametrize(
    ("name", "kind", "family", "unit"),
    [
        ("kafka_broker_info", "info", "kafka_broker", ""),
        ("kafka_broker_leaders", "gauge", "kafka_broker_leaders", ""),
        ("kafka_broker_ends_total", "counter", "kafka_broker_ends", ""),
        ("kafka_x_seconds_total", "counter", "kafka_x_seconds", "seconds"),
        ("kafka_x_timestamp_seconds", "gauge", "kafka_x_timestamp_seconds", "seconds"),
        ("kafka_broker_imbalance_ratio", "gauge", "kafka_broker_imbalance_ratio", "ratio"),
    ],
)
def test_type_family_and_unit_follow_from_a_metric_name(
    name: str, kind: str, family: str, unit: str
) -> None:
    """As OpenMetrics declares them: a unit ends the family's name, a type's suffix is not part of it."""
    metric: Metric[object] = Metric(name=name, help="", labels=(), read=lambda _: ())
    assert (metric.type.value, metric.family, metric.unit) == (kind, family, unit)
