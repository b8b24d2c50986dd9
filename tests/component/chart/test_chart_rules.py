"""The rules in the chart: for its clusters, as the values want them, with links to the runbooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dashboards.alerts.rules import ALERTS
from tests.component.chart.chart import CHART, NAMESPACE, NEEDS_HELM, render, template
from tests.component.rules.promtool import NEEDS_PROMTOOL, promtool
from tests.component.rules.rule_stories import times

EVERYTHING = CHART / "ci" / "all-values.yaml"
LEAST = CHART / "ci" / "least-values.yaml"
NAMES = {alert.name for alert in ALERTS}
pytestmark = NEEDS_HELM


def _groups(*values: str) -> list[dict[str, Any]]:
    arguments = [each for value in values for each in ("--set", value)]
    (rule,) = [each for each in render(EVERYTHING, *arguments) if each["kind"] == "PrometheusRule"]
    groups: list[dict[str, Any]] = rule["spec"]["groups"]
    return groups


def _alerts(*values: str) -> dict[str, dict[str, Any]]:
    """Return the alerts that are installed, by name."""
    rules = [each for group in _groups(*values) for each in group["rules"]]
    return {each["alert"]: each for each in rules if "alert" in each}


@pytest.mark.parametrize(
    ("values", "link"),
    [
        ([], f"http://kcm-exporter.{NAMESPACE}.svc:9640/runbooks/{{}}"),
        (
            ["runbookBaseUrl=https://kcm.example.com/runbooks/"],
            "https://kcm.example.com/runbooks/{}",
        ),
        (
            ["runbookBaseUrl=https://git.example.com/docs/runbooks", "runbookSuffix=.md"],
            "https://git.example.com/docs/runbooks/{}.md",
        ),
    ],
)
def test_a_link_leads_to_the_page_where_people_reach_it(values: list[str], link: str) -> None:
    """The exporter's own service at first, else the address that was given."""
    alerts = _alerts(*(f"prometheusRule.{value}" for value in values))
    links = {name: rule["annotations"]["runbook_url"] for name, rule in alerts.items()}
    assert links == {name: link.format(name) for name in NAMES}


@pytest.mark.parametrize("base", ["docs/runbooks", "https://a b", "javascript:x"])
def test_a_runbook_base_that_is_no_url_is_refused(base: str) -> None:
    """A runbook link that is no URL is not installed."""
    done = template("--values", str(LEAST), "--set", f"prometheusRule.runbookBaseUrl={base}")
    assert done.returncode != 0
    assert "runbookBaseUrl" in done.stderr


def test_an_alert_is_as_the_values_want_it() -> None:
    """Its threshold, its time, its severity and its labels; all else stays as it is shipped."""
    before = _alerts()["KafkaPartitionsUnderReplicated"]
    at = "prometheusRule.alerts.KafkaPartitionsUnderReplicated"
    after = _alerts(
        f"{at}.threshold=100", f"{at}.for=1h30m", f"{at}.severity=page", f"{at}.labels.team=kafka"
    )["KafkaPartitionsUnderReplicated"]
    assert before["expr"].endswith(") > 0")
    assert after.pop("expr") == before.pop("expr").removesuffix("0") + "100"
    assert (before.pop("for"), after.pop("for")) == ("10m", "1h30m")
    assert before.pop("labels") == {"severity": "warning"}
    assert after.pop("labels") == {"severity": "page", "team": "kafka"}
    assert after == before


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_alert_can_be_disabled(name: str) -> None:
    """It alone is missing then."""
    assert set(_alerts(f"prometheusRule.alerts.{name}.enabled=false")) == NAMES - {name}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("KafkaNothing.enabled=false", "there is no alert KafkaNothing"),
        ("KcmBlind.threshold=2", "compares with no number"),
        ("KcmBlind.for=soon", "does not match pattern"),
        ("KcmBlind.treshold=2", "additional properties"),
    ],
)
def test_an_alert_setting_without_effect_is_refused(value: str, why: str) -> None:
    """A mistyped name is not an alert that stays silent."""
    done = template("--values", str(EVERYTHING), "--set", f"prometheusRule.alerts.{value}")
    assert done.returncode != 0
    assert why in done.stderr


def test_alerts_about_parts_that_are_not_installed_are_left_out() -> None:
    """One watcher has no standby, and a fold without a volume fills none."""
    left = _alerts("watcher.replicas=1", "stream.persistence.enabled=false")
    assert NAMES - set(left) == {"KcmStandbyMissing", "KcmCheckpointFull"}


ENDS = times((1, 30), ("stale", 1))
"""What dies after seven and a half minutes."""


def _play(folder: Path, series: dict[str, str], fire: list[tuple[str, str, list[str]]]) -> None:
    """Let promtool say that the chart's alerts fire so: when, which, and of which clusters."""
    groups = _groups("watcher.replicas=2")
    alerts = {each["alert"]: each for each in groups[0]["rules"]}
    expected = [
        {
            "eval_time": at,
            "alertname": name,
            "exp_alerts": [
                {
                    "exp_labels": {
                        "cluster": cluster,
                        "severity": alerts[name]["labels"]["severity"],
                    },
                    "exp_annotations": {
                        key: text.replace("{{ $labels.cluster }}", cluster).replace(
                            "{{ $value }}", "1"
                        )
                        for key, text in alerts[name]["annotations"].items()
                    },
                }
                for cluster in missed
            ],
        }
        for at, name, missed in fire
    ]
    rules, story = folder / "rules.yaml", folder / "story.yaml"
    rules.write_text(json.dumps({"groups": groups}))
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "15s", "input_series": inputs, "alert_rule_test": expected}
    story.write_text(
        json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]})
    )
    done = promtool("test", "rules", str(story))
    assert done.returncode == 0, done.stdout + done.stderr


@NEEDS_PROMTOOL
def test_kcm_not_served_fires_for_each_chart_cluster_without_series(
    tmp_path: Path,
) -> None:
    """One was served 7 hours ago, one never, one is; watchers are counted against their replicas."""
    series = {
        'kcm_cluster_up{cluster="prod", instance="a"}': ENDS,
        'kcm_cluster_up{cluster="staging-eu-1", instance="a"}': "1x1800",
        'kcm_watcher_leader{cluster="prod", instance="w0"}': "1x1800",
        'kcm_watcher_leader{cluster="prod", instance="w1"}': ENDS,
        'kcm_watcher_leader{cluster="staging-eu-1", instance="w2"}': "1x1800",
        'kcm_watcher_leader{cluster="staging-eu-1", instance="w3"}': "0x1800",
    }
    fire = [
        ("4m", "KcmNotServed", []),
        ("6m", "KcmNotServed", ["Staging_EU.1"]),
        ("7h10m", "KcmNotServed", ["Staging_EU.1", "prod"]),
        ("7h10m", "KcmStandbyMissing", ["prod"]),
    ]
    _play(tmp_path, series, fire)


@NEEDS_PROMTOOL
def test_kcm_no_watcher_leads_fires_for_each_chart_cluster_without_a_leader(
    tmp_path: Path,
) -> None:
    """Both died 7 hours ago, or were never scraped; a lead that is handed over within minutes is none."""
    series = {
        'kcm_watcher_leader{cluster="prod", instance="w0"}': ENDS,
        'kcm_watcher_leader{cluster="prod", instance="w1"}': times((0, 30), ("stale", 1)),
        'kcm_watcher_leader{cluster="staging-eu-1", instance="w2"}': "1x1800",
    }
    fire = [
        ("4m", "KcmNoWatcherLeads", []),
        ("6m", "KcmNoWatcherLeads", ["Staging_EU.1"]),
        ("12m", "KcmNoWatcherLeads", ["Staging_EU.1"]),
        ("14m", "KcmNoWatcherLeads", ["Staging_EU.1", "prod"]),
        ("7h10m", "KcmNoWatcherLeads", ["Staging_EU.1", "prod"]),
    ]
    _play(tmp_path, series, fire)
    handed_over = {
        'kcm_watcher_leader{cluster="prod", instance="w0"}': times((1, 30), ("stale", 1)),
        'kcm_watcher_leader{cluster="prod", instance="w1"}': times((0, 40), (1, 60)),
        'kcm_watcher_leader{cluster="staging-eu-1", instance="w2"}': "1x100",
        'kcm_watcher_leader{cluster="Staging_EU.1", instance="w3"}': "1x100",
    }
    _play(
        tmp_path, handed_over, [("14m", "KcmNoWatcherLeads", []), ("20m", "KcmNoWatcherLeads", [])]
    )


def test_unscraped_watchers_are_missed_only_after_their_series_existed() -> None:
    """Without a ServiceMonitor, or with watchers elsewhere, the rule is as it is shipped."""
    at = "KcmNoWatcherLeads"
    for values in ("serviceMonitor.enabled=false", "watcher.enabled=false"):
        assert "present_over_time" in _alerts(values)[at]["expr"]
    assert "present_over_time" not in _alerts()[at]["expr"]
