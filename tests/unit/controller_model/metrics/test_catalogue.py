"""The catalogue follows Prometheus's rules."""

from __future__ import annotations

import re

import pytest

from controller_model.metrics.catalogue import BROKER_METRICS, CATALOGUE, CLUSTER_METRICS
from controller_model.metrics.metric import (
    Metric,
    MetricType,
)
from controller_model.records.events import (
    ENDS_IN_KRAFT,
    ENDS_IN_ZOOKEEPER,
    BrokerEnd,
    LeaderElectionKind,
)
from controller_model.records.pending_writes import PendingWrites
from controller_model.records.views import BrokerView, ClusterConfig, ControllerView, LogView
from tests.support.metric_samples import of_broker, of_cluster
from tests.support.samples import broker_view, cluster_view


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_names_follow_prometheus(metric: Metric[object]) -> None:
    """Prefix, suffix of the type, base unit, a `cluster` label, and HELP that is a full sentence."""
    prefixes = r"(kafka_(controller|cluster|broker|topic|quorum)|kcm_(cluster|broker|clock))"
    assert re.fullmatch(rf"{prefixes}_[a-z0-9_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.type is MetricType.COUNTER)
    assert metric.name.endswith("_info") == (metric.type is MetricType.INFO)
    assert metric.labels[0] == "cluster"
    assert metric.help.endswith(".")
    assert "\n" not in metric.help
    assert not metric.unit or metric.family.endswith(f"_{metric.unit}")
    assert not metric.family.endswith(("_created", "_bucket", "_count", "_sum"))
    assert not re.search(r"_(ms|milliseconds|percent|minutes)\b", metric.name)


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_help_is_one_sentence(metric: Metric[object]) -> None:
    """It has a capital letter, one full stop and at most 200 characters."""
    assert re.fullmatch(r"[A-Z][^\n]*[^.]\.", metric.help)
    assert not re.search(r"[.!?] ", metric.help)
    assert len(metric.help) <= 200


def test_help_says_when_a_metric_is_absent() -> None:
    """For a cluster and a broker of which nothing is known yet, HELP says why a sample is absent."""
    empty = cluster_view(
        controller=ControllerView(),
        log=LogView(),
        config=ClusterConfig(),
        pending_writes=PendingWrites(),
    )
    gone = BrokerView(v=1, cluster="prod", as_of=empty.as_of, id=0)
    absent = {each.name: each.help for each in CLUSTER_METRICS if not list(each.read(empty))}
    absent |= {each.name: each.help for each in BROKER_METRICS if not list(each.read(gone))}
    assert len(absent) > 20
    assert [name for name, text in absent.items() if "absent" not in text] == []


def test_no_two_metrics_share_a_family() -> None:
    """OpenMetrics declares families without suffixes: a gauge must not have the family of a counter."""
    families = [metric.family for metric in CATALOGUE]
    assert len(families) == len(set(families))


def test_every_kind_has_its_series_from_the_start() -> None:
    """A counter by kind shows 0 for what has not happened, so that increase() sees the first."""
    elections = of_cluster("kafka_controller_leader_elections_total", cluster_view())
    assert {labels[0] for labels, _ in elections} == set(LeaderElectionKind)
    ends = of_broker("kafka_broker_ends_total", broker_view(0, ends={"crashed": 2}))
    assert dict(ends)[("crashed",)] == 2
    assert {labels[0] for labels, _ in ends} == set(ENDS_IN_ZOOKEEPER)
    in_kraft = of_broker(
        "kafka_broker_ends_total", broker_view(0, ends=dict.fromkeys(ENDS_IN_KRAFT, 0))
    )
    assert {labels[0] for labels, _ in in_kraft} == set(ENDS_IN_KRAFT)
    assert set(ENDS_IN_KRAFT) | set(ENDS_IN_ZOOKEEPER) == set(BrokerEnd)
