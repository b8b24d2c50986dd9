"""`kcm backtest` with a real Prometheus: alerts by their times, chained rules, incidents without an alert."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dashboards.__main__ import FOLDER
from kcm.__main__ import main
from kcm.backtest.evaluation import firings
from tests.component.rules.promtool import promtool
from tests.support.bundles import manifest
from tests.support.histories import History, small_cluster
from tests.support.replaying import lines, write

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="prometheus and promtool are not installed (Debian: apt-get install prometheus)",
)

SHIPPED = str(FOLDER / "rules" / "kafka-controller-monitor.yaml")
Json = dict[str, Any]


def pass_by(history: History, seconds: int) -> None:
    """Let time pass with a heartbeat each 10 s."""
    for _ in range(seconds // 10):
        history.heartbeat()


@pytest.fixture(scope="module")
def story() -> History:
    """Three incidents: a broker that is gone for long, a controller that is missing, a short restart."""
    history = small_cluster(t={0: (0, 1, 2), 1: (1, 2, 0)}, single={0: (2,)})
    pass_by(history, 300)
    history.broker_gone(2)
    history.state("single", 0, leader=-1, isr=[2], leader_epoch=1)
    history.state("t", 0, leader=0, isr=[0, 1], leader_epoch=1)
    pass_by(history, 420)
    history.broker(2)
    history.state("single", 0, leader=2, isr=[2], leader_epoch=2)
    history.state("t", 0, leader=0, isr=[0, 1, 2], leader_epoch=1)
    pass_by(history, 300)
    history.delete("/controller")
    pass_by(history, 90)
    history.elect(1)
    pass_by(history, 300)
    history.broker_gone(0)
    history.state("t", 0, leader=1, isr=[1, 2], leader_epoch=2)
    pass_by(history, 20)
    history.broker(0)
    history.state("t", 0, leader=1, isr=[1, 2, 0], leader_epoch=2)
    pass_by(history, 300)
    return history


class Run:
    """What `kcm backtest --json` gives."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        capsys.readouterr()
        self.code = main(["backtest", "--json", *arguments])
        captured = capsys.readouterr()
        self.out, self.err = captured.out, captured.err

    @property
    def json(self) -> Json:
        """The answer."""
        decoded: Json = json.loads(self.out)
        return decoded


@pytest.fixture
def log(story: History, tmp_path: Path) -> str:
    """The story as a file."""
    return write(tmp_path / "changes.jsonl", lines(story.changes))


def fired(found: Json, alert: str) -> list[Json]:
    """Return the times that an alert fired."""
    return [each for each in found["alerts"] if each["alert"] == alert]


def first_at(history: History, chosen: Callable[[Any], bool]) -> int:
    """Return when the first change that is meant was seen."""
    return next(each.observed_at for each in history.changes if chosen(each))


def next_scrape(at: int) -> int:
    """Return the first scrape that shows a change of this time."""
    return -(-at // 15_000) * 15_000


def test_the_shipped_rules_fire_from_their_scrape_after_for(
    story: History, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the scrape that shows it, after `for`, until the scrape that does not, and two minutes on."""
    run = Run(capsys, SHIPPED, log, "--assumed-min-insync-replicas", "1", "--check")
    found = run.json
    gone = first_at(story, lambda each: each.kind == "deleted" and each.path == "/brokers/ids/2")
    back = [each.observed_at for each in story.changes if each.path == "/brokers/ids/2"][-1]
    (alert,) = fired(found, "KafkaBrokerGone")
    assert alert["labels"] == {"cluster": "prod", "broker": "2", "severity": "warning"}
    assert alert["active_at"] == next_scrape(gone)
    assert alert["fired_at"] == next_scrape(gone) + 300_000
    assert alert["ended_at"] == next_scrape(back) + 120_000
    vacant = first_at(story, lambda each: each.kind == "deleted" and each.path == "/controller")
    (alert,) = fired(found, "KafkaControllerMissing")
    assert alert["fired_at"] == next_scrape(vacant) + 30_000
    assert len(fired(found, "KafkaPartitionsOffline")) == 1
    names = [[each["alert"] for each in incident["alerts"]] for incident in found["incidents"]]
    assert ["KafkaPartitionsOffline" in each for each in names] == [True, False, False]
    assert names[1] == ["KafkaControllerMissing"]
    assert names[2] == []
    assert found["incidents_without_alert"] == [3]
    assert run.code == 6
    assert "KafkaControllerFlapping" in found["not_fired"]
    judged = {each["rule"]: each["reason"] for each in found["not_judged"]}
    assert judged["KcmNoWatcherLeads"] == "the history has no kcm_watcher_leader"
    assert set(judged) == {
        *("KcmNoWatcherLeads", "KcmStandbyMissing", "KcmFoldRestarts", "KcmCheckpointFull")
    }


USERS = """
groups:
- name: alerts
  interval: 30s
  rules:
  - alert: FewBrokers
    expr: team:brokers:count{env="stage"} < 3
    for: 1m
    labels: {team: kafka, who: "{{ $labels.cluster }}"}
  - alert: Vacant
    expr: kafka_controller_vacant_seconds > 60 and on () (hour() == bool 0)
  - alert: ItNeedsItself
    expr: team:loop > 1
- name: recorded
  rules:
  - record: team:brokers:count
    expr: sum by (cluster, env, job) (kafka_broker_live{job="ours"})
  - record: team:loop
    expr: team:loop + 1
"""


def test_rules_may_query_series_that_other_rules_record(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In any order; their labels, intervals and the labels of a scrape are as in Prometheus."""
    rules = write(tmp_path / "rules.yaml", USERS.encode())
    found = Run(capsys, rules, log, "--label", "env=stage", "--label", "job=ours").json
    alerts = [(each["alert"], each["labels"]) for each in found["alerts"]]
    labels = {"cluster": "prod", "env": "stage", "job": "ours", "team": "kafka", "who": "prod"}
    assert alerts == [("FewBrokers", labels), ("Vacant", {**_scraped(), "env": "stage"})]
    few, vacant = found["alerts"]
    assert few["active_at"] % 30_000 == 0
    assert few["fired_at"] == few["active_at"] + 60_000
    assert vacant["fired_at"] == vacant["active_at"]
    assert [each["rule"] for each in found["not_judged"]] == ["ItNeedsItself", "team:loop"]
    assert len(found["incidents_without_alert"]) == 1


def _scraped() -> dict[str, str]:
    return {"cluster": "prod", "job": "ours", "instance": "exporter:9640"}


def test_only_the_window_is_reported(
    story: History, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What fired before it, and incidents of before, are left out; the rules look back beyond it all the same."""
    elected = [each.observed_at for each in story.changes if each.path == "/controller"][-1]
    found = Run(capsys, SHIPPED, log, "--from", str(elected + 150_000)).json
    assert [each["number"] for each in found["incidents"]] == [3]
    assert not fired(found, "KafkaControllerMissing")


def test_a_bundle_is_tested_for_its_incident(
    story: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its manifest says when that was, and what min.insync.replicas was taken to be."""
    from kcm.history.bundle_file import write_bundle  # noqa: PLC0415  # of this test alone

    last = story.changes[-1].observed_at
    path = tmp_path / "incident.zip"
    said = manifest(from_ms=last - 320_000, to_ms=last, assumed_min_insync_replicas=2)
    log = lines(story.changes).splitlines()
    write_bundle(path, said, log=log, events=[], before=None, after=b"{}")
    found = Run(capsys, SHIPPED, str(path)).json
    assert found["from"] == last - 320_000
    assert not fired(found, "KcmMinIsrNotKnown")
    assert [each["number"] for each in found["incidents"]] == [3]


@pytest.mark.parametrize(
    ("rules", "reported"),
    [
        (
            b"groups: [{name: a, rules: [{alert: A, expr: 'sum('}]}]",
            "is not a valid file of rules: ",
        ),
        (b"groups: 3", "is not a valid file of rules: "),
        (b"groups: []", "has no rule"),
    ],
)
def test_a_bad_file_of_rules_is_one_line(
    rules: bytes, reported: str, log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is promtool that says what is wrong with it."""
    run = Run(capsys, write(tmp_path / "rules.yaml", rules), log)
    assert (run.code, len(run.err.splitlines())) == (2, 1)
    assert reported in run.err


MANIFEST = """\
# A comment.
---
kind: PrometheusRule
metadata: {name: mine}
spec:
  groups:
  - name: a
    rules:
    - alert: Few
      expr: sum(kafka_broker_live) < 3
    - alert: Elsewhere
      expr: kafka_broker_live{cluster="test"} == 0
    - alert: Foreign
      expr: kafka_server_replica_manager_leader_count < 1
"""


def test_a_manifest_is_evaluated_and_what_can_never_match_is_named(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Promtool's complaint has the line of the manifest."""
    run = Run(capsys, write(tmp_path / "rules.yaml", MANIFEST.encode()), log)
    assert run.err.endswith("rules.yaml: line 3: reading the rules of PrometheusRule mine\n")
    assert len(fired(run.json, "Few")) == 2
    assert [(each["rule"], each["line"]) for each in run.json["never_match"]] == [
        ("Elsewhere", 11),
        ("Foreign", 13),
    ]
    bad = MANIFEST.replace("    - alert: Foreign", "    - alarm: Foreign")
    refused = Run(capsys, write(tmp_path / "bad.yaml", bad.encode()), log)
    assert (refused.code, "line 13: field alarm not found" in refused.err) == (2, True)


def test_a_log_without_a_scrape_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is nothing to evaluate."""
    log = write(tmp_path / "short.jsonl", lines(small_cluster().changes))
    run = Run(capsys, SHIPPED, log)
    assert run.code == 2
    assert run.err.startswith("kcm: there is no scrape in the history")


def test_an_expression_that_prometheus_refuses_is_named(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other rules are evaluated all the same."""
    many = "kafka_broker_live * on (cluster) kafka_broker_replicas"
    content = {
        "groups": [
            {
                "name": "g",
                "rules": [
                    {"alert": "Many", "expr": many},
                    {"alert": "Few", "expr": "sum(kafka_broker_live) < 3"},
                ],
            }
        ]
    }
    rules = write(tmp_path / "rules.yaml", json.dumps(content).encode())
    run = Run(capsys, rules, log)
    (trouble,) = run.json["not_judged"]
    assert trouble["rule"] == "Many"
    assert trouble["reason"].startswith("Prometheus says: ")
    assert len(fired(run.json, "Few")) == 2


def test_for_and_keep_firing_for_are_those_of_prometheus(tmp_path: Path) -> None:
    """At each moment of random stories our states are those that promtool's rule evaluation gives."""
    source = random.Random(7)  # noqa: S311  # a story, no secret
    series = {f"m{number}": [source.random() < 0.6 for _ in range(60)] for number in range(12)}
    rules = [
        {"alert": name, "expr": name, "for": f"{15 * hold}s", "keep_firing_for": f"{15 * keep}s"}
        for name, (hold, keep) in zip(series, _settings(), strict=True)
    ]
    wrong = promtool("test", "rules", str(_unit_test(tmp_path, series, rules, shift=1)))
    right = promtool("test", "rules", str(_unit_test(tmp_path, series, rules, shift=0)))
    assert right.returncode == 0, right.stdout + right.stderr
    assert wrong.returncode != 0


def _settings() -> list[tuple[int, int]]:
    """Return `for` and `keep_firing_for`, in evaluations."""
    return [(hold, keep) for hold in (0, 1, 2, 4) for keep in (0, 1, 3)]


def _unit_test(
    folder: Path, series: Mapping[str, Sequence[bool]], rules: list[dict[str, str]], *, shift: int
) -> Path:
    """Write what promtool is to find, by our own states; `shift` makes it wrong."""
    content = json.dumps({"groups": [{"name": "g", "rules": rules}]}).encode()
    rule_file = write(folder / "rules.yaml", content)
    moments = range(0, 60 * 15_000, 15_000)
    checks = []
    for (name, present), (hold, keep) in zip(series.items(), _settings(), strict=True):
        active = {at for at, there in zip(moments, present, strict=True) if there}
        found = list(firings(moments, active, hold_ms=hold * 15_000, keep_ms=keep * 15_000))
        checks += [
            {
                "eval_time": f"{at // 1000}s",
                "alertname": name,
                "exp_alerts": [
                    {}
                    for each in found
                    if each.fired_at <= at - shift and (each.ended_at is None or at < each.ended_at)
                ],
            }
            for at in moments
        ]
    inputs = [
        {"series": name, "values": " ".join("1" if there else "stale" for there in present)}
        for name, present in series.items()
    ]
    story = {"interval": "15s", "input_series": inputs, "alert_rule_test": checks}
    unit_test = {"rule_files": [rule_file], "evaluation_interval": "15s", "tests": [story]}
    path = folder / "test.yaml"
    path.write_text(json.dumps(unit_test))
    return path
