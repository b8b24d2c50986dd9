"""Each recording rule, played by Prometheus's own promtool: what is kept for years is exact."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from dashboards.alerts.recordings import RECORDED
from dashboards.signals import fleet
from dashboards.signals.signal import Signal
from tests.component.rules.promtool import NEEDS_PROMTOOL, play
from tests.component.rules.rule_stories import EXPORTER, OTHER_EXPORTER, one, times

pytestmark = NEEDS_PROMTOOL


class Kept(NamedTuple):
    """What was scraped, and what is recorded of it at some moments."""

    series: dict[str, str]
    at: Mapping[int, float | None]
    """Seconds -> the value; None: nothing is recorded."""


def _gauge(metric: str) -> Kept:
    """Return two exporters of which one sees more, and then is gone."""
    series = {
        f"{metric}{{{EXPORTER}}}": times((0, 4), (7, 4), ("stale", 1)),
        f"{metric}{{{OTHER_EXPORTER}}}": times((0, 20)),
    }
    return Kept(series, {45: 0, 60: 7, 105: 7, 120: 0})


def _counter(metric: str) -> Kept:
    """Return a counter that grows, starts again, and grows again."""
    return Kept(
        one(metric, (5, 4), (8, 4), (0, 4), (2, 300)), {45: 0, 60: 3, 120: 0, 180: 2, 4000: 0}
    )


def _troubles() -> dict[str, str]:
    """Return a cluster that gets one trouble after the other, and then is not served any more."""
    ends = (("stale", 1),)
    return {
        **one("kcm_cluster_up", (1, 20), (0, 4), *ends),
        **one("kafka_controller_id", (2, 16), (-1, 8), *ends),
        **one("kcm_cluster_folded_timestamp_seconds", (9, 24), *ends),
        **one("kafka_cluster_offline_partitions", (0, 12), (3, 12), *ends),
        **one("kafka_cluster_under_min_isr_partitions", (0, 8), (3, 16), *ends),
        **one("kafka_cluster_under_replicated_partitions", (0, 4), (3, 20), *ends),
    }


KEPT = {
    "cluster:kcm_trouble:sum": Kept(
        _troubles(),
        {
            45: 0,
            60: 1,
            120: 3,
            180: 7,
            240: 15,
            300: 31,
            345: 31,
            360: 32,
            21_600: 32,
            22_200: None,
        },
    ),
    "cluster:kcm_cluster_up:max": _gauge("kcm_cluster_up"),
    "cluster:kafka_controller_elections:grown1h": _counter("kafka_controller_epoch"),
    "cluster:kafka_controller_vacancy_seconds:grown1h": _counter(
        "kafka_controller_vacancy_seconds_total"
    ),
    "cluster:kafka_cluster_offline_partitions:max": _gauge("kafka_cluster_offline_partitions"),
    "cluster:kafka_cluster_under_min_isr_partitions:max": _gauge(
        "kafka_cluster_under_min_isr_partitions"
    ),
    "cluster:kafka_cluster_under_replicated_partitions:max": _gauge(
        "kafka_cluster_under_replicated_partitions"
    ),
    "cluster:kafka_cluster_isr_shrinks:grown1h": _counter("kafka_cluster_isr_shrinks_total"),
    "cluster:kafka_cluster_preferred_replica_imbalance:max": _gauge(
        "kafka_cluster_preferred_replica_imbalance"
    ),
}


def _accepted(folder: Path, expr: str, labels: str, kept: Kept) -> str:
    """Play it; return what promtool has against the expression, empty: nothing."""
    checks: list[dict[str, object]] = [
        {
            "expr": expr,
            "eval_time": f"{at}s",
            "exp_samples": [] if value is None else [{"labels": labels, "value": value}],
        }
        for at, value in kept.at.items()
    ]
    done = play(folder, kept.series, expr, promql_expr_test=checks)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("name", KEPT)
def test_a_rule_records_one_exact_series_of_each_cluster(name: str, tmp_path: Path) -> None:
    """At each moment the series has its value and no label but the cluster's."""
    assert _accepted(tmp_path, name, f'{name}{{cluster="prod"}}', KEPT[name]) == ""


@pytest.mark.parametrize("name", KEPT)
def test_another_value_is_refused(name: str, tmp_path: Path) -> None:
    """The test can fail: a value that is off by one is not accepted."""
    kept = KEPT[name]
    wrong = {at: 5.0 if value is None else value + 1 for at, value in kept.at.items()}
    labels = f'{name}{{cluster="prod"}}'
    assert _accepted(tmp_path, name, labels, kept._replace(at=wrong)) != ""


FLEET = (
    (fleet.CLUSTERS, {45: 1, 345: 1, 360: 0, 22_200: None}),
    (fleet.CLUSTERS_IN_TROUBLE, {45: 0, 60: 1, 360: 1, 21_600: 1, 22_200: 0}),
    (fleet.CLUSTERS_NOT_FOLLOWED, {285: 0, 300: 1, 360: 1, 21_600: 1, 22_200: 0}),
    (fleet.CLUSTERS_WITHOUT_CONTROLLER, {225: 0, 240: 1, 345: 1, 360: None}),
)


@pytest.mark.parametrize(("signal", "at"), FLEET, ids=lambda each: getattr(each, "name", ""))
def test_the_fleet_misses_a_cluster_that_is_not_served(
    signal: Signal, at: dict[int, float | None], tmp_path: Path
) -> None:
    """Without its exporter a cluster counts as one in trouble, and nothing of it is called well."""
    assert _accepted(tmp_path, signal.in_rules(), "{}", Kept(_troubles(), at)) == ""


def test_every_recording_rule_is_played() -> None:
    """No rule is left out."""
    assert set(KEPT) == {name for name, _ in RECORDED}
