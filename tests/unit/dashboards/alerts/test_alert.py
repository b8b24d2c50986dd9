"""An alert states what it means, what to do first, and where the page about it is."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from controller_model.metrics.catalogue import CATALOGUE
from dashboards.alerts.alert import KEEP_FIRING_FOR, Alert
from dashboards.alerts.rules import ALERTS
from dashboards.boards.boards import BOARDS, render
from dashboards.signals.signal import RUNBOOKS
from kcm.__main__ import main

ROOT = Path(__file__).resolve().parents[4]
PAGES = ROOT / "docs" / "runbooks"
SECTIONS = ["## Diagnose", "## Fix", "## Leave it alone when"]
_MAX_LINES = 40
"""Most lines of a runbook: read at three in the morning, it must fit on a screen."""


def _expr(alert: Alert) -> str:
    return str(alert.rule()["expr"])


def _covers_all_clusters(alert: Alert) -> bool:
    """Return whether an alert is about all clusters at once, and its summary says so instead of a cluster's name."""
    return alert.signal.expr.startswith("label_replace(")


_each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
_METRICS = {metric.name for metric in CATALOGUE}


@_each_alert
def test_texts_of_an_alert_name_metrics_of_the_catalogue_only(alert: Alert) -> None:
    """A metric that a text refers to exists."""
    text = f"{alert.meaning} {alert.cause} {alert.action} {alert.command}"
    assert set(re.findall(r"\b(?:kafka|kcm)_[a-z0-9_]+", text)) <= _METRICS


@_each_alert
def test_a_board_that_an_alert_names_exists(alert: Alert) -> None:
    """A dashboard that a text refers to exists."""
    titles = [made.title for made in BOARDS]
    for after in re.findall(r"the board ([A-Z].*)", f"{alert.cause} {alert.action}"):
        assert any(after.startswith(title) for title in titles), after


@_each_alert
def test_an_alert_states_meaning_cause_action_and_command(alert: Alert) -> None:
    """The description has all four, and the summary names the cluster."""
    annotations = alert.rule()["annotations"]
    assert isinstance(annotations, dict)
    headings = [line.partition(": ")[0] for line in annotations["description"].splitlines()]
    assert headings == ["Meaning", "Cause", "First action", "Command"]
    assert "{{ $labels.cluster }}" in annotations["summary"]
    assert alert.summary.endswith(".")


@_each_alert
def test_an_alert_uses_labels_that_it_has(alert: Alert) -> None:
    """Each label in a text is one that the expression keeps."""
    kept = {
        label
        for group in re.findall(r"by \(([a-z_, ]+)\)", _expr(alert))
        for label in group.split(", ")
    }
    kept |= {"cluster"} if _covers_all_clusters(alert) else set()
    text = f"{alert.summary} {alert.command} {alert.meaning}"
    assert set(re.findall(r"\$labels\.(\w+)", text)) <= kept


@_each_alert
def test_every_alert_rule_has_the_same_keep_firing_for(alert: Alert) -> None:
    """Each rule has the same `keep_firing_for`."""
    assert alert.rule()["keep_firing_for"] == KEEP_FIRING_FOR


@_each_alert
def test_an_alert_has_a_runbook_with_all_sections(alert: Alert) -> None:
    """The page at runbook_url exists, is short, and has all sections."""
    annotations = alert.rule()["annotations"]
    assert isinstance(annotations, dict)
    name = annotations["runbook_url"].removeprefix(f"{RUNBOOKS}/")
    page = (PAGES / f"{name}.md").read_text()
    assert (ROOT / "exporter" / "live" / "runbooks" / f"{name}.html").is_file()
    lines = page.splitlines()
    assert lines[0] == f"# {alert.name}"
    assert [line for line in lines if line.startswith("## ")] == SECTIONS
    assert len(lines) <= _MAX_LINES


_PROGRAM = re.compile(
    r"(?:kcm|kafka-[a-z-]+|zookeeper-shell|curl|echo|grep|jstack|jmap|df|dmesg|mount|iostat|ip) "
)
"""The programs with which a command to paste begins, among all texts between backticks."""

BASH = shutil.which("bash")


def _parses(command: str) -> bool:
    assert BASH is not None
    given = re.sub(r"\{\{ [^}]* \}\}", "WORD", command)
    return not subprocess.run(
        [BASH, "-n", "-c", given], capture_output=True, check=False
    ).returncode


def test_the_command_check_rejects_prose() -> None:
    """Two commands joined by a comma of prose do not parse."""
    assert not _parses("kcm status; (then jstack PID on the controller")


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
def test_every_command_that_a_person_pastes_is_one() -> None:
    """A shell can parse each command of the alerts and of their runbooks, and none contains prose."""
    pages = [path.read_text() for path in PAGES.glob("*.md")]
    quoted = [text for page in pages for text in re.findall(r"`([^`]+)`", page)]
    commands = [text for text in quoted if _PROGRAM.match(text)]
    assert len(commands) > len(ALERTS)
    for command in (*commands, *(alert.command for alert in ALERTS)):
        assert _parses(command), command
        assert not re.search(r";|\b(?:then|and|or|on) ", command), command
        assert all(_PROGRAM.match(part.strip() + " ") for part in re.split(r"&&", command)), command


def test_every_runbook_belongs_to_an_alert_and_is_in_the_index() -> None:
    """The runbook of a removed alert is removed too, and all links work."""
    folder = PAGES
    pages = {path.stem for path in folder.glob("*.md")} - {"README"}
    assert pages == {alert.name for alert in ALERTS}
    for path in folder.glob("*.md"):
        for target in re.findall(r"\]\((\w+\.md)\)", path.read_text()):
            assert (folder / target).is_file(), f"{path.name} -> {target}"
    listed = set(re.findall(r"\]\((\w+)\.md\)", (folder / "README.md").read_text()))
    assert listed == pages


def test_a_panel_or_row_that_a_runbook_names_exists() -> None:
    """What stands in quotation marks beside the name of a dashboard is a heading on one."""
    boards = [json.loads(render(made)) for made in BOARDS]
    titles = {panel["title"] for board in boards for panel in board["panels"]}
    named = {
        title
        for path in PAGES.glob("*.md")
        for line in path.read_text().splitlines()
        if "dashboard *" in line
        for title in re.findall(r'"([^"]+)"', line)
    }
    assert named
    assert named <= titles


def test_alerts_that_a_text_names_exist() -> None:
    """An alert that another one refers to exists."""
    names = {alert.name for alert in ALERTS}
    for alert in ALERTS:
        named = re.findall(
            r"\b(?:Kcm|Kafka)[A-Z]\w+", f"{alert.meaning} {alert.cause} {alert.action}"
        )
        assert set(named) <= names, alert.name


@_each_alert
def test_kcm_commands_in_alerts_and_runbooks_exist(
    alert: Alert, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each `kcm` command in a text has a known verb with options that it accepts."""
    page = (PAGES / f"{alert.name}.md").read_text()
    pasted = f"{alert.command}; " + "; ".join(re.findall(r"`(kcm [^`]*)`", page))
    for verb, rest in re.findall(r"\bkcm ([a-z-]+)([^;&`>]*)", pasted):
        assert main([verb, "--help"]) == 0, verb
        options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
        assert set(re.findall(r"--[a-z-]+", rest)) <= options, f"kcm {verb}{rest}"


def test_amtool_silences_in_the_operating_guide_match_alerts() -> None:
    """Each matcher of an amtool line names a label that alerts have, and alerts that exist."""
    guide = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    lines = [line for line in guide.splitlines() if line.startswith("amtool silence add ")]
    assert len(lines) >= 4
    for line in lines:
        matchers = [word for word in shlex.split(line)[3:] if not word.startswith("--")]
        names = {matcher.partition("=")[0] for matcher in matchers}
        assert names
        assert names <= {"cluster", "broker", "alertname"}
        for matcher in matchers:
            if matcher.startswith("alertname=~"):
                named = set(matcher.removeprefix("alertname=~").split("|"))
                assert named <= {alert.name for alert in ALERTS}


@_each_alert
def test_an_alert_has_cluster_and_broker_labels(alert: Alert) -> None:
    """A silence by cluster or by broker matches it: the expression groups by those labels."""
    groups = re.findall(r"by \(([a-z_, ]+)\)", _expr(alert))
    assert groups
    assert _covers_all_clusters(alert) or all("cluster" in group.split(", ") for group in groups)
    about_a_broker = "kafka_broker_" in _expr(alert).partition(" and ")[0]
    assert about_a_broker == ("broker" in groups[0].split(", "))
    assert about_a_broker == ("$labels.broker" in alert.summary)
