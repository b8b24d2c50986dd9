"""Prometheus's own promtool loads the rules and plays written-out series against each of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from controller_model.metrics.catalogue import CATALOGUE
from controller_model.metrics.metric import MetricType
from dashboards.alerts.rules import ALERTS
from tests.component.rules import (
    rule_stories_brokers,
    rule_stories_controller,
    rule_stories_monitor,
    rule_stories_partitions,
    rule_stories_parts,
    rule_stories_quorum,
)
from tests.component.rules.promtool import NEEDS_PROMTOOL, RULES, play, promtool
from tests.component.rules.rule_stories import Proves, Story

pytestmark = NEEDS_PROMTOOL

STORIES = (
    *rule_stories_controller.STORIES,
    *rule_stories_partitions.STORIES,
    *rule_stories_brokers.STORIES,
    *rule_stories_monitor.STORIES,
    *rule_stories_parts.STORIES,
    *rule_stories_quorum.STORIES,
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


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"{story.alert} {story.claim}")
def test_an_alert_fires_when_it_should_and_only_then(story: Story, tmp_path: Path) -> None:
    """At each moment of the story the alert fires, with its texts filled in, or it is silent."""
    done = _played(tmp_path, story)
    assert done.returncode == 0, f"{story.claim}\n{done.stdout}{done.stderr}"


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
