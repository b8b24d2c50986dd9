"""The catalogue keeps Prometheus's rules, and the verdict on figures names the worst truth."""

from __future__ import annotations

import re

import pytest

from controller_model.metrics.catalogue import BROKER_METRICS, CATALOGUE, CLUSTER_METRICS
from controller_model.metrics.metric import (
    Metric,
    MetricType,
    Moment,
    Sample,
    TopicTrouble,
    WorstTopics,
)
from controller_model.metrics.topics import WORST
from controller_model.records.changes import SessionState
from controller_model.records.completeness import (
    LATE_MS,
    ReaderProgress,
    Stage,
    Status,
    assess,
    behind_ms,
)
from controller_model.records.events import BrokerEnd, LeaderElectionKind
from controller_model.records.predictions import WritesDue
from controller_model.records.views import BrokerView, ClusterView, ControllerView, LogView
from tests.support.samples import T0, broker_view, cluster_view, log_view

FRESH = ReaderProgress(read_at=T0)


def of_cluster(name: str, view: ClusterView) -> list[Sample]:
    """Return the samples of a cluster's metric."""
    return next(list(metric.read(view)) for metric in CLUSTER_METRICS if metric.name == name)


def of_broker(name: str, view: BrokerView) -> list[Sample]:
    """Return the samples of a broker's metric."""
    return next(list(metric.read(view)) for metric in BROKER_METRICS if metric.name == name)


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_names_follow_prometheus(metric: Metric[object]) -> None:
    """Prefix, suffix of the type, base unit, a `cluster` label, and HELP that ends a sentence."""
    prefixes = r"(kafka_(controller|cluster|broker|topic)|kcm_(cluster|broker))"
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
    """A tired operator reads it once: a capital letter, one full stop, no more than two lines."""
    assert re.fullmatch(r"[A-Z][^\n]*[^.]\.", metric.help)
    assert not re.search(r"[.!?] ", metric.help)
    assert len(metric.help) <= 200


def test_help_says_when_a_metric_is_absent() -> None:
    """A cluster and a broker of which nothing is known yet: what has no sample says so."""
    empty = cluster_view(
        controller=ControllerView(),
        log=LogView(),
        cluster_id=None,
        writes_due=WritesDue(),
    )
    gone = BrokerView(v=1, cluster="prod", as_of=empty.as_of, id=0, live=False)
    absent = {each.name: each.help for each in CLUSTER_METRICS if not list(each.read(empty))}
    absent |= {each.name: each.help for each in BROKER_METRICS if not list(each.read(gone))}
    assert len(absent) > 20
    assert [name for name, text in absent.items() if "absent" not in text] == []


def test_no_two_metrics_share_a_family() -> None:
    """OpenMetrics knows families without suffixes: a gauge must not take a counter's."""
    families = [metric.family for metric in CATALOGUE]
    assert len(families) == len(set(families))


def test_every_kind_has_its_series_from_the_start() -> None:
    """A counter by kind shows 0 for what has not happened, so that increase() sees the first."""
    elections = of_cluster("kafka_controller_leader_elections_total", cluster_view())
    assert {labels[0] for labels, _ in elections} == set(LeaderElectionKind)
    ends = of_broker("kafka_broker_ends_total", broker_view(0, ends={"crashed": 2}))
    assert dict(ends)[("crashed",)] == 2
    assert {labels[0] for labels, _ in ends} == set(BrokerEnd)


def test_exactly_the_controller_is_active() -> None:
    """One live broker is the active controller, or none; a holder that is not registered counts."""
    name = "kafka_controller_active"
    assert of_cluster(name, cluster_view()) == [(("0",), 1), (("1",), 0)]
    vacant = cluster_view(controller=ControllerView())
    assert sum(value for _, value in of_cluster(name, vacant)) == 0
    stranger = cluster_view(controller=ControllerView(id=9))
    assert (("9",), 1) in of_cluster(name, stranger)


def test_only_the_worst_topics_have_series() -> None:
    """Each has what is wrong with it; before a look there is neither a topic nor a time."""
    complete = assess(cluster_view(), FRESH, T0)
    found = WorstTopics(T0, (TopicTrouble("lost", 2, 1, 3),), ((0, 3),), one_rack=2)
    looked = Moment(completeness=complete, behind_ms={}, vacant_ms=None, worst=found)
    told = {metric.name: list(metric.read(looked)) for metric in WORST}
    assert told == {
        "kafka_topic_offline_partitions": [(("lost",), 2)],
        "kafka_topic_under_min_isr_partitions": [(("lost",), 1)],
        "kafka_topic_under_replicated_partitions": [(("lost",), 3)],
        "kafka_broker_under_replicated_led_partitions": [(("0",), 3)],
        "kafka_cluster_one_rack_partitions": [((), 2)],
        "kafka_cluster_worst_topics_timestamp_seconds": [((), T0 / 1000)],
    }
    before = Moment(completeness=complete, behind_ms={}, vacant_ms=None)
    assert all(not list(metric.read(before)) for metric in WORST)


def test_a_broker_is_safe_to_stop_when_nothing_breaks_without_it() -> None:
    """Both partitions offline and partitions under min ISR forbid it; a dead one has no answer."""
    name = "kafka_broker_safe_to_stop"
    assert of_broker(name, broker_view(0)) == [((), 1)]
    assert of_broker(name, broker_view(0, offline_if_lost=1)) == [((), 0)]
    assert of_broker(name, broker_view(0, under_min_isr_if_lost=1)) == [((), 0)]
    assert of_broker(name, broker_view(0, live=False)) == []
    assert of_broker(name, broker_view(0, more_if_lost=True)) == []
    assert of_broker(name, broker_view(0, more_if_lost=True, offline_if_lost=1)) == [((), 0)]


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
def test_what_the_watcher_may_not_read_has_no_sample(
    denied: tuple[str, ...], controller: int, offline: int
) -> None:
    """An id of -1, or partitions offline for want of a registration, would be wrong numbers."""
    view = cluster_view(log=log_view(denied=denied))
    assert len(of_cluster("kafka_controller_id", view)) == controller
    assert len(of_cluster("kafka_cluster_offline_partitions", view)) == offline
    assert of_cluster("kcm_cluster_denied_paths", view) == [((), len(denied))]
    # What Kafka's own ACLs deny everybody is assumed: else no such cluster were ever complete.
    missed = bool(denied) and denied != ("/config/brokers",)
    assert of_cluster("kcm_cluster_incomplete", view) == [((), int(missed))]


def test_nothing_is_complete_before_the_first_proof() -> None:
    """A first resync that never ends would else be called complete for ever."""
    view = cluster_view(log=log_view(verified_at=None))
    assert of_cluster("kcm_cluster_incomplete", view) == [((), 1)]


@pytest.mark.parametrize(
    ("log", "reading", "now", "expected"),
    [
        ({}, FRESH, T0, (Status.LIVE, None, None)),
        ({}, FRESH, T0 - 5_000, (Status.LIVE, None, None)),
        ({"denied": ("/admin",)}, FRESH, T0, (Status.INCOMPLETE, None, Stage.WATCHER)),
        ({}, ReaderProgress(read_at=None), T0, (Status.BEHIND, None, Stage.EXPORTER)),
        ({}, FRESH, T0 + LATE_MS, (Status.LIVE, None, None)),
        ({}, FRESH, T0 + LATE_MS + 1, (Status.BEHIND, T0, Stage.EXPORTER)),
        (
            {},
            ReaderProgress(read_at=T0 + 60_000),
            T0 + 60_000,
            (Status.BEHIND, T0, Stage.WATCHER),
        ),
        (
            {},
            ReaderProgress(read_at=T0 + 60_000, log_ahead_ms=LATE_MS + 1),
            T0 + 60_000,
            (Status.BEHIND, T0, Stage.FOLD),
        ),
        (
            {"heartbeat_at": None, "last_change_at": None},
            FRESH,
            T0,
            (Status.BEHIND, None, Stage.WATCHER),
        ),
        (
            {"session": SessionState.SUSPENDED, "session_since": T0 - 9, "divergent_since": T0},
            FRESH,
            T0,
            (Status.BLIND, T0 - 9, Stage.WATCHER),
        ),
        (
            {"divergent_since": T0 - 2, "incomplete_since": T0 - 1},
            FRESH,
            T0,
            (Status.DIVERGENT, T0 - 2, Stage.FOLD),
        ),
        ({"incomplete_since": T0 - 1}, FRESH, T0, (Status.INCOMPLETE, T0 - 1, Stage.FOLD)),
        ({"verified_at": None}, FRESH, T0, (Status.INCOMPLETE, T0, Stage.FOLD)),
        ({"session": None}, FRESH, T0, (Status.LIVE, None, None)),
    ],
)
def test_the_verdict_names_the_worst_and_the_stage(
    log: dict[str, object],
    reading: ReaderProgress,
    now: int,
    expected: tuple[Status, int | None, Stage | None],
) -> None:
    """The stage nearest to the reader is blamed first, and since when it is so is told."""
    verdict = assess(cluster_view(log=log_view(**log)), reading, now)
    assert (verdict.status, verdict.since, verdict.stage) == expected
    assert verdict.up == (expected[0] not in {Status.BEHIND, Status.BLIND})


def test_ages_are_never_negative_and_unknown_ones_absent() -> None:
    """A clock that is ahead makes an age of 0; a stage that was never heard of has no age."""
    view = cluster_view(log=log_view(heartbeat_at=None, last_change_at=None))
    assert behind_ms(view, ReaderProgress(read_at=None), T0 - 1000) == {Stage.FOLD: 0}
