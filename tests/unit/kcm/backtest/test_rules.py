"""What is read of an expression: the metrics that it names, and how far it looks back."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.alerts.rules import ALERTS
from kcm.backtest.rules import (
    Group,
    Rule,
    RuleFile,
    expanded,
    metric_names,
    needed_selectors,
    read_rules,
)
from pipeline.runtime import EnvironmentProblemError


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("up", {"up"}),
        ('m{a="sum(b)", c=~"d"} > 3', {"m"}),
        ("sum(m) by (a, b) / ignoring(c) group_left(d) n", {"m", "n"}),
        ("histogram_quantile(0.9, rate(m_bucket[5m] offset 1w)) == bool inf", {"m_bucket"}),
        ("max_over_time((a:b:c > 0)[1h:5m] @ start()) unless on () vector(1)", {"a:b:c"}),
        ('{__name__=\'x y\', job="p"} or {__name__=~"q.*"}', {"x y"}),
        ("absent(m) # and n", {"m"}),
        ("SUM BY (x) (m)", {"m"}),
        ("1e3 + time()", set()),
    ],
)
def test_the_names_of_metrics_are_found(query: str, names: set[str]) -> None:
    """Functions, labels, keywords and strings are not metrics."""
    assert metric_names(query) == names


@pytest.mark.parametrize(
    ("query", "selectors"),
    [
        ('m{a="sum(b)", c=~"d"} > 3', ['m{a="sum(b)", c=~"d"}']),
        ("sum(m) by (a, b) / ignoring(c) group_left(d) n", ["m", "n"]),
        ("max_over_time((a:b:c > 0)[1h:5m] @ start()) and on () vector(1)", ["a:b:c"]),
        ("{__name__=\"x\", job='p'} offset 5m", ["{__name__=\"x\", job='p'}"]),
        ('m{a="1"} and m{a="2"} # or n', ['m{a="1"}', 'm{a="2"}']),
        ("m UNLESS n", []),
        ("count(m) OR vector(0)", []),
        ("1e3 + time()", []),
    ],
)
def test_the_selectors_that_an_expression_needs_are_found(query: str, selectors: list[str]) -> None:
    """None where an empty one may be what it waits for."""
    assert needed_selectors(query) == selectors


def test_every_shipped_alert_names_metrics_only() -> None:
    """The names found in the shipped rules are metrics of the monitor and of kubelet."""
    found = {name for alert in ALERTS for name in metric_names(str(alert.rule()["expr"]))}
    assert {name.split("_")[0] for name in found} == {"kafka", "kcm", "kubelet"}


def test_a_file_reaches_back_as_far_as_its_rules_together() -> None:
    """A rule that looks back at recorded series adds both times; labels' texts do not count."""
    recorded = Rule(record="r", expr='rate(m{a="9d"}[5m])')
    alert = Rule(alert="A", expr="max_over_time(r[1h]) offset 1m", hold="2m", keep_firing_for="3m")
    assert (recorded.reach_ms, alert.reach_ms) == (300_000, 3_960_000)
    assert RuleFile(groups=[Group(name="g", rules=[recorded, alert])]).reach_ms == 4_260_000
    assert RuleFile().reach_ms == 0


def test_templates_of_other_kinds_stay_as_they_are() -> None:
    """Only templates that need no query are filled in."""
    text = "{{ $labels.broker }}{{ .Value }}{{ $labels.none }}{{ query `up` }}"
    assert expanded(text, {"broker": "1"}, "2") == "12{{ query `up` }}"


def test_promtool_is_named_where_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is one line that says how to install it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblemError, match="promtool is not on PATH; install it"):
        read_rules(tmp_path / "rules.yaml")
