"""Every query names figures that exist, with labels that they have."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from controller_model.metrics import CATALOGUE
from dashboards import alerts, boards
from dashboards.__main__ import generated
from dashboards.signals import CLUSTER_MARK, SIGNALS, Signal

_METRIC = re.compile(r"\b(?:kafka|kcm)_[a-z0-9_]+|[a-zA-Z_:][a-zA-Z0-9_:]*(?=\s*\{)")
"""A name of ours, or whatever stands before a selector."""

_LABELS = {metric.name: set(metric.labels) for metric in CATALOGUE}

_each_signal = pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)


def metrics_in(text: str) -> set[str]:
    """Return the metrics that an expression names."""
    return set(_METRIC.findall(text))


def test_the_pattern_sees_metrics_that_are_not_ours() -> None:
    """A metric of somebody else in an expression would be found, too."""
    assert metrics_in("kafka_x - sum(up{a='b'})") == {"kafka_x", "up"}


@_each_signal
def test_a_signal_names_metrics_of_the_catalogue_only(signal: Signal) -> None:
    """Each metric in an expression is one that the exporter serves, and there is at least one."""
    named = metrics_in(signal.expr)
    assert named
    assert named <= set(_LABELS)


@_each_signal
def test_each_selector_of_a_signal_chooses_the_cluster(signal: Signal) -> None:
    """No part of an expression mixes the figures of two clusters."""
    selectors = re.findall(r"\{(.*?)\}", signal.expr)
    assert len(selectors) == len(_METRIC.findall(signal.expr))
    assert all(CLUSTER_MARK in selector for selector in selectors)


@_each_signal
def test_a_signal_keeps_labels_that_its_metrics_have(signal: Signal) -> None:
    """What an expression groups by, and what its legend shows, are labels of all its metrics."""
    groups = re.findall(r"by \((.*?)\)", signal.expr)
    kept = {label for group in groups for label in group.split(", ")}
    assert all(kept <= _LABELS[name] for name in metrics_in(signal.expr))
    assert set(re.findall(r"\{\{(\w+)\}\}", signal.legend)) <= kept


@_each_signal
def test_a_signal_tells_the_operator_something(signal: Signal) -> None:
    """Each signal has a unit, a legend and a sentence."""
    assert signal.unit
    assert signal.legend
    assert signal.description.endswith(".")


def test_names_of_signals_are_unique() -> None:
    """A name stands for one signal, and no two signals ask the same."""
    assert len({signal.name for signal in SIGNALS}) == len(SIGNALS)
    assert len({signal.expr for signal in SIGNALS}) == len(SIGNALS)


def test_every_signal_is_used() -> None:
    """Each signal stands on a board or in an alert."""
    board = json.loads(boards.controller())
    shown = {target["expr"] for panel in board["panels"] for target in panel.get("targets", [])}
    watched = {alert.signal.name for alert in alerts.ALERTS}
    assert [s.name for s in SIGNALS if s.on_board() not in shown and s.name not in watched] == []


def test_the_generated_files_name_metrics_of_the_catalogue_only() -> None:
    """What Grafana and Prometheus read, variables included, names only what the exporter serves."""
    named = set[str]()
    for name, text in generated().items():
        if name.endswith(".json"):
            board = json.loads(text)
            queries = [t["expr"] for panel in board["panels"] for t in panel.get("targets", [])]
            queries += [variable["query"] for variable in board["templating"]["list"]]
        else:
            groups = yaml.safe_load(text)["groups"]
            queries = [rule["expr"] for group in groups for rule in group["rules"]]
        named |= {metric for query in queries for metric in metrics_in(query)}
    assert named
    assert named <= set(_LABELS)


def test_texts_of_alerts_name_metrics_of_the_catalogue_only() -> None:
    """A metric that a description sends the operator to exists."""
    for alert in alerts.ALERTS:
        text = f"{alert.meaning} {alert.cause} {alert.action}"
        assert set(re.findall(r"\b(?:kafka|kcm)_[a-z0-9_]+", text)) <= set(_LABELS)
