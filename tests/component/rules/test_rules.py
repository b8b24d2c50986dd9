"""Prometheus's own promtool loads the rules and plays written-out series against each of them."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from controller_model.metrics.catalogue import CATALOGUE
from controller_model.metrics.metric import MetricType
from dashboards.alerts.rules import ALERTS
from tests.component.rules import (
    rule_stories_brokers,
    rule_stories_controller,
    rule_stories_monitor,
    rule_stories_partitions,
    rule_stories_parts,
)
from tests.component.rules.promtool import NEEDS_PROMTOOL, RULES, play, promtool
from tests.component.rules.rule_stories import Proves, Story
from tests.support.signals import SIGNALS

pytestmark = NEEDS_PROMTOOL

STORIES = (
    *rule_stories_controller.STORIES,
    *rule_stories_partitions.STORIES,
    *rule_stories_brokers.STORIES,
    *rule_stories_monitor.STORIES,
    *rule_stories_parts.STORIES,
)

_ALERTS = {alert.name: alert for alert in ALERTS}

_COUNTERS = {metric.name for metric in CATALOGUE if metric.type is MetricType.COUNTER}
_TOTALS = frozenset(_COUNTERS)
_COUNTERS |= {"kafka_controller_epoch"}  # counts elections, and starts again with an ensemble


def _duration(seconds: float) -> str:
    """Return what Prometheus makes of less than a day by humanizeDuration."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes}m {rest}s"
    return f"{minutes}m {rest}s" if minutes else f"{rest}s"


def _filled(text: str, story: Story, value: float) -> str:
    words = {
        "{{ $value }}": f"{value:g}",
        "{{ $value | humanizePercentage }}": f"{value * 100:.4g}%",
        "{{ $value | humanizeDuration }}": _duration(value),
        **{
            f"{{{{ $labels.{name} }}}}": label
            for name, label in {"cluster": "prod", **story.labels}.items()
        },
    }
    for mark, word in words.items():
        text = text.replace(mark, word)
    assert "{{" not in text
    return text


def _expected(story: Story, value: float) -> dict[str, object]:
    """Return the one alert that must fire, with its texts filled in."""
    known = _ALERTS[story.alert]
    annotations = known.rule()["annotations"]
    assert isinstance(annotations, dict)
    severity = str(known.threshold.severity)
    return {
        "exp_labels": {"cluster": "prod", "severity": severity, **story.labels},
        "exp_annotations": {key: _filled(text, story, value) for key, text in annotations.items()},
    }


def _played(folder: Path, story: Story) -> subprocess.CompletedProcess[str]:
    checks: list[dict[str, object]] = [
        {
            "eval_time": f"{at}s",
            "alertname": story.alert,
            "exp_alerts": [] if value is None else [_expected(story, value)],
        }
        for at, value in story.moments.items()
    ]
    return play(folder, story.series, [story.alert], alert_rule_test=checks)


def test_prometheus_loads_the_rules() -> None:
    """The committed file of rules is one that Prometheus takes, with every rule in it."""
    done = promtool("check", "rules", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def test_prometheus_parses_every_query_of_the_boards(tmp_path: Path) -> None:
    """Each expression, for one cluster and for several, with its variables filled in, is PromQL."""
    rules = [
        {"record": f"board:{name}", "expr": expr.replace("$", "")}
        for name, signal in SIGNALS.items()
        for expr in (signal.on_board(), signal.for_fleet().on_board())
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}))
    done = promtool("check", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"{story.alert} {story.claim}")
def test_an_alert_fires_when_it_should_and_only_then(story: Story, tmp_path: Path) -> None:
    """At each moment of the story the alert fires, with its texts filled in, or it is silent."""
    done = _played(tmp_path, story)
    assert done.returncode == 0, f"{story.claim}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("name", _ALERTS)
def test_a_reversed_expectation_is_refused_by_promtool(name: str, tmp_path: Path) -> None:
    """The stories can fail: one of each alert turned around is no longer accepted."""
    story = next(s for s in STORIES if s.alert == name and s.proves is Proves.FIRES)
    turned = {at: None if value is not None else -1.0 for at, value in story.moments.items()}
    done = _played(tmp_path, dataclasses.replace(story, moments=turned))
    assert done.returncode != 0


@pytest.mark.parametrize("name", _ALERTS)
def test_every_alert_has_a_story_of_each_kind(name: str) -> None:
    """It was seen firing and ending, and silent just below; a window of time also over a gap and a counter's reset.

    Over a gap, an alert on current values is kept by `keep_firing_for`, which is the same for all: three stories show it.
    """
    proved = {story.proves for story in STORIES if story.alert == name}
    needed = {Proves.FIRES, Proves.SILENT}
    expr = str(_ALERTS[name].rule()["expr"])
    if "[" in expr:
        needed |= {Proves.GAP}
    named = set(re.findall(r"\w+", expr))
    if _COUNTERS & named:
        needed |= {Proves.RESET}
    if _TOTALS & named:
        needed |= {Proves.SWAP}
    assert needed <= proved


def test_stories_expect_what_their_kind_says() -> None:
    """A story that proves firing ends resolved; one that proves silence never fires."""
    for story in STORIES:
        fired = [value is not None for value in story.moments.values()]
        if story.proves in {Proves.SILENT, Proves.SWAP}:
            assert not any(fired), story.claim
        if story.proves is Proves.FIRES and story.claim != STAYS_ONE:
            assert any(fired), story.claim
            assert not fired[-1], story.claim


STAYS_ONE = "fires when divergent, and stays one alert when it becomes incomplete as well"
"""The one story that fires to its end."""
