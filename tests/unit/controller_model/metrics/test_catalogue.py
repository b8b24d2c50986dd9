"""The catalogue follows Prometheus's rules."""

from __future__ import annotations

import re
import typing
from typing import Any

import msgspec
import pytest

from controller_model.metrics.catalogue import (
    BROKER_METRICS,
    CATALOGUE,
    CLUSTER_METRICS,
    NOW_METRICS,
)
from controller_model.metrics.metric import Metric, MetricType, Moment
from controller_model.records.completeness import assess
from controller_model.records.events import (
    ENDS_IN_KRAFT,
    ENDS_IN_ZOOKEEPER,
    BrokerEnd,
    LeaderElectionKind,
)
from controller_model.records.metadata_log import QuorumSample
from controller_model.records.pending_writes import PendingWrites
from controller_model.records.quorum import QuorumView
from controller_model.records.views import BrokerView, ClusterConfig, ControllerView, LogView
from tests.support.metric_samples import of_broker, of_cluster
from tests.support.samples import FRESH, T0, broker_view, cluster_view


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


def without(value: Any, *, parts: bool) -> Any:
    """Return a struct with None in every field that may be None; its `parts` stay, without what may be None in them."""
    changed: dict[str, Any] = {}
    for field in msgspec.structs.fields(value):
        held = getattr(value, field.name)
        may_be_none = type(None) in typing.get_args(field.type)
        if isinstance(held, msgspec.Struct) and (parts or not may_be_none):
            changed[field.name] = without(held, parts=parts)
        elif may_be_none:
            changed[field.name] = None
    return msgspec.structs.replace(value, **changed)


@pytest.mark.parametrize("parts", [False, True])
def test_what_is_not_known_has_no_sample_and_is_no_error(*, parts: bool) -> None:
    """Any optional part of a view may be None, and any optional figure of a part."""
    quorum = QuorumView(sample=QuorumSample(at=1, leader=1, epoch=1, high_watermark=1))
    clusters = [cluster_view(), cluster_view(quorum=quorum)]
    views: list[tuple[tuple[Metric[Any], ...], Any]] = [
        *((CLUSTER_METRICS, view) for view in clusters),
        (BROKER_METRICS, broker_view(0)),
    ]
    for table, view in views:
        unknown = without(view, parts=parts)
        for metric in table:
            for _, value in metric.read(unknown):
                assert isinstance(value, int | float), metric.name
    completeness = assess(without(clusters[0], parts=parts), FRESH, T0)
    moment = Moment(completeness=completeness, behind_ms={}, vacant_ms=None)
    for metric in NOW_METRICS:
        assert all(isinstance(value, int | float) for _, value in metric.read(moment))


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
