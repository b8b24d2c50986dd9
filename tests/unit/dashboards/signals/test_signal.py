"""Every query names metrics that exist, with labels that they have."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest
import yaml

from controller_model.metrics.catalogue import CATALOGUE
from dashboards.__main__ import generated
from dashboards.alerts.alert import Alert
from dashboards.alerts.rules import ALERTS
from dashboards.boards.boards import BOARDS, render
from dashboards.signals.signal import (
    BROKER_PLACEHOLDER,
    CLUSTER_PLACEHOLDER,
    COUNTERS_SINCE,
    FOLDED,
    RUNBOOKS,
    Signal,
    grown,
    highest,
    newest,
)
from tests.support.signals import SIGNALS
from tests.unit.controller_model.metrics.test_kraft_catalogue import WITHOUT_MEANING
from tools.docs.parts_metrics import (
    described,
    exporter_registry,
    fold_registry,
    watcher_registry,
)

_METRIC = re.compile(r"\b(?:kafka|kcm)_[a-z0-9_]+|[a-zA-Z_:][a-zA-Z0-9_:]*(?=\s*\{)")
"""A metric name of kcm, or any name before a selector."""

_GROUPED = re.compile(r"by \(([a-z_, ]+)\) \((?:\w+\()?(\w+)\{(.*?)\}")
"""The labels that are kept of a metric, the metric, and its selector."""

_SIGNAL_PACKAGE = "dashboards.signals."
"""The package in which signals are defined."""

_KUBELET_METRICS = {
    f"kubelet_volume_stats_{what}_bytes": {"namespace", "persistentvolumeclaim"}
    for what in ("available", "capacity")
}
_ALERTS = {"ALERTS": {"cluster", "alertname", "severity", "alertstate"}}
_REGISTRIES = (watcher_registry, fold_registry, exporter_registry)
_OWN = tuple(metric for made in _REGISTRIES for metric in described(made()))
_LABELS = {metric.name: set(metric.labels) for metric in CATALOGUE} | {
    metric.name + "_bucket" * (metric.type == "histogram"): {*metric.labels}
    | ({"le"} if metric.type == "histogram" else set())
    for metric in _OWN
}
_LABELS |= _KUBELET_METRICS | _ALERTS
"""The labels of metrics: of clusters, of the parts themselves, of the fold's volume, and of alerts."""

_each_signal = pytest.mark.parametrize("signal", SIGNALS.values(), ids=SIGNALS)


def metrics_in(text: str) -> set[str]:
    """Return the metrics that an expression names."""
    return set(_METRIC.findall(text))


def queries_of(board: dict[str, Any]) -> list[str]:
    """Return all expressions of a dashboard: its panels and its annotations."""
    shown = [t["expr"] for panel in board["panels"] for t in panel.get("targets", [])]
    return shown + [mark["expr"] for mark in board.get("annotations", {}).get("list", [])]


def test_the_metric_pattern_finds_metrics_of_other_programs() -> None:
    """The pattern also finds a metric of another program in an expression."""
    assert metrics_in("kafka_x - sum(up{a='b'})") == {"kafka_x", "up"}


@_each_signal
def test_a_signal_names_metrics_of_the_catalogue_only(signal: Signal) -> None:
    """Each metric in an expression is one that the exporter serves, and there is at least one."""
    named = metrics_in(signal.expr)
    assert named
    assert named <= set(_LABELS)


@_each_signal
def test_each_selector_of_a_signal_filters_by_cluster_and_broker(signal: Signal) -> None:
    """No part of an expression mixes two clusters or shows brokers that are not chosen."""
    selectors = re.findall(r"(\w+)\{(.*?)\}", signal.expr)
    assert len(selectors) == len(_METRIC.findall(signal.expr))
    for metric, selector in selectors:
        assert selector.startswith(CLUSTER_PLACEHOLDER) == ("cluster" in _LABELS[metric])
        assert (BROKER_PLACEHOLDER in selector) == ("broker" in _LABELS[metric])


@_each_signal
def test_a_signal_aggregates_away_the_scrape_labels(signal: Signal) -> None:
    """Each metric is grouped by labels that it has, so two exporters make one series.

    They are kept only inside such a group, to find the exporter with the newest views.
    """
    grouped = _GROUPED.findall(signal.expr)
    of_all = [name for name in _METRIC.findall(signal.expr) if not _LABELS[name]]
    furthest = signal.expr.count(
        f" ({FOLDED}{{{CLUSTER_PLACEHOLDER}}} < on (cluster) group_left () max"
    )
    assert len(grouped) == len(_METRIC.findall(signal.expr)) - len(of_all) - furthest
    for name in of_all:
        assert f"max({name}{{}})" in signal.expr
    for kept, metric, selector in grouped:
        assert set(kept.split(", ")) <= _LABELS[metric]
        for label in re.findall(r", (\w+)=", selector):
            assert label in _LABELS[metric]


@_each_signal
def test_a_legend_shows_labels_that_are_kept(signal: Signal) -> None:
    """The labels that a legend names exist."""
    kept = {label for group, _, _ in _GROUPED.findall(signal.expr) for label in group.split(", ")}
    assert set(re.findall(r"\{\{(\w+)\}\}", signal.legend)) <= kept


@_each_signal
def test_a_signal_has_a_unit_a_legend_and_the_parts_of_its_description(signal: Signal) -> None:
    """It says in whole sentences what the figure means, what is normal, and what to do or where that stands."""
    assert signal.unit
    assert signal.legend
    assert signal.action or signal.runbook
    for part in filter(None, (signal.meaning, signal.normal, signal.action)):
        assert re.fullmatch(r"\S(.*\S)?\.", part), part
        assert part in signal.description


@_each_signal
def test_the_runbook_of_a_signal_is_one_of_an_alert(signal: Signal) -> None:
    """The link in a description leads to a page."""
    assert signal.runbook in {"", *(alert.name for alert in ALERTS)}
    assert (f"]({RUNBOOKS}/{signal.runbook})." in signal.description) == bool(signal.runbook)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_the_signal_of_an_alert_links_to_a_runbook(alert: Alert) -> None:
    """Who sees the figure of an alert on a board finds the same runbook; KcmBehindForLong has that of KcmBehind."""
    assert alert.signal.runbook == alert.name.removesuffix("ForLong")


@_each_signal
def test_a_signal_that_kraft_does_not_have_says_so(signal: Signal) -> None:
    """A figure all of whose metrics have no meaning in KRaft is marked, so that no panel shows nothing, or none, of it."""
    named = metrics_in(signal.expr) - {COUNTERS_SINCE, FOLDED, "kcm_cluster_incomplete"}
    of_zookeeper = {each for each in named if each.startswith("kcm_watcher_zookeeper_")}
    # The server in use is a label of a metric that both have.
    of_zookeeper |= (WITHOUT_MEANING | {"kcm_cluster_watcher_info"}) & named
    assert signal.only_in_zookeeper == (of_zookeeper == named), named


def test_names_of_signals_are_unique() -> None:
    """A name belongs to one signal in all modules, and no two signals have the same query."""
    homes = [
        vars(module) for path, module in sys.modules.items() if path.startswith(_SIGNAL_PACKAGE)
    ]
    defined = {
        id(each): each for home in homes for each in home.values() if isinstance(each, Signal)
    }
    assert len(defined) == len(SIGNALS)
    assert len({signal.expr for signal in SIGNALS.values()}) == len(SIGNALS)


def test_every_signal_is_used() -> None:
    """Each signal is on a dashboard or in an alert."""
    text = "\n".join(query for made in BOARDS for query in queries_of(json.loads(render(made))))
    text = text.replace(', job=~"$job", instance=~"$instance"', "")
    text = text.replace('job=~"$job", instance=~"$instance"', "")
    watched = {alert.signal for alert in ALERTS}
    unused = [
        name
        for name, signal in SIGNALS.items()
        if signal not in watched
        and signal.on_board() not in text
        and signal.for_fleet().on_board() not in text
    ]
    assert unused == []


def test_the_generated_files_name_metrics_of_the_catalogue_only() -> None:
    """The files for Grafana and Prometheus, with their variables, name only metrics that the exporter serves."""
    named = set[str]()
    for name, text in generated().items():
        if name.startswith("dashboards/"):
            board = json.loads(text)
            queries = queries_of(board)
            queries += [variable["query"] for variable in board["templating"]["list"]]
        elif name.startswith("rules/"):
            groups = yaml.safe_load(text)["groups"]
            queries = [rule["expr"] for group in groups for rule in group["rules"]]
        else:
            continue  # the mixin, which imports these
        named |= {metric for query in queries for metric in metrics_in(query)}
    assert named
    assert named <= set(_LABELS)


def test_elections_within_a_window_are_counted_by_one_metric() -> None:
    """A difference of epochs or of a counter lacks what was before the first scrape: one window, two counts."""
    others = re.compile(r"kafka_controller_(epoch|elections_total)\{[^}]*\}\[")
    assert [name for name, signal in SIGNALS.items() if others.search(signal.expr)] == []


def test_growth_of_a_counter_is_its_value_minus_its_minimum() -> None:
    """Growth is exact, per broker where requested, and only for counters that began at the same time."""
    since = f"{COUNTERS_SINCE}{{{CLUSTER_PLACEHOLDER}}}"
    assert grown("a_total", "5m", "broker") == (
        f"max by (cluster, broker) (a_total{{{CLUSTER_PLACEHOLDER}{BROKER_PLACEHOLDER}}}) - "
        f"min by (cluster, broker) (min_over_time(a_total{{{CLUSTER_PLACEHOLDER}{BROKER_PLACEHOLDER}}}[5m])) "
        f"unless on (cluster) (max by (cluster) ({since}) > min by (cluster) ({since}))"
    )


def test_the_newest_value_comes_from_the_exporter_with_the_newest_views() -> None:
    """A metric's own labels do not prevent matching it with its exporter's time."""
    folded = f"{FOLDED}{{{CLUSTER_PLACEHOLDER}}}"
    assert newest("m", "broker") == (
        f"max by (cluster, broker) (m{{{CLUSTER_PLACEHOLDER}{BROKER_PLACEHOLDER}}} unless ignoring (broker) "
        f"({folded} < on (cluster) group_left () max by (cluster) ({folded})))"
    )


def test_a_rule_selects_all_clusters_and_brokers() -> None:
    """A rule is not limited to the choices on a dashboard."""
    signal = Signal(
        expr=highest("m", "broker"),
        meaning="m.",
        normal="0.",
        legend="l",
    )
    assert signal.in_rules() == 'max by (cluster, broker) (m{cluster!=""})'
    assert signal.on_board() == (
        'max by (cluster, broker) (m{cluster="$cluster", broker=~"$broker"})'
    )
