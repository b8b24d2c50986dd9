"""Prometheus's own promtool loads the rules and plays written-out series against each of them."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dashboards.__main__ import FOLDER
from dashboards.alerts import ALERTS, KEEP_FIRING_FOR
from dashboards.signals import SIGNALS

PROMTOOL = shutil.which("promtool")
RULES = FOLDER / "rules" / "kafka-controller-monitor.yaml"

pytestmark = pytest.mark.skipif(
    PROMTOOL is None,
    reason="promtool is not installed (Debian: apt-get install prometheus)",
)

_INTERVAL_S = 15
"""Between two scrapes, and between two evaluations; sample i is scraped at i * 15 s."""

_DEADLINE_S = 60
"""promtool takes under a second for each story."""

_EXPORTER = 'cluster="prod", instance="a:9640", job="kcm"'
_OTHER_EXPORTER = 'cluster="prod", instance="b:9640", job="kcm"'


def times(*runs: tuple[float | str, int]) -> str:
    """Return samples as promtool reads them, from (value, how many scrapes).

    `stale` is what Prometheus writes when a scrape fails, `_` is no sample at all.
    """
    return " ".join(str(value) for value, count in runs for _ in range(count))


GAP: tuple[tuple[float | str, int], ...] = (("stale", 1), ("_", 3))
"""A minute in which the exporter is not scraped."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """What was scraped, and whether one alert fires at each of some moments."""

    alert: str
    told: str
    series: dict[str, str]
    moments: dict[int, float | None]
    """Seconds -> the value that it fires with; None: it does not fire."""


def _one(metric: str, *runs: tuple[float | str, int]) -> dict[str, str]:
    return {f"{metric}{{{_EXPORTER}}}": times(*runs)}


MISSING = (
    Story(
        alert="KafkaControllerMissing",
        told="fires after 30 s without a controller, resolves 2 min after there is one",
        series=_one("kafka_controller_id", (2, 5), (-1, 8), (3, 20)),
        moments={60: None, 90: None, 105: -1, 180: -1, 300: -1, 315: None},
    ),
    Story(
        alert="KafkaControllerMissing",
        told="is silent when a controller is elected within 30 s",
        series=_one("kafka_controller_id", (2, 5), (-1, 2), (3, 20)),
        moments={75: None, 90: None, 105: None, 120: None, 240: None},
    ),
    Story(
        alert="KafkaControllerMissing",
        told="is silent about broker 0, an id like any other",
        series=_one("kafka_controller_id", (0, 20)),
        moments={120: None, 285: None},
    ),
    Story(
        alert="KafkaControllerMissing",
        told="goes on firing over a gap in the scrapes",
        series=_one("kafka_controller_id", (2, 5), (-1, 4), *GAP, (-1, 8)),
        moments={105: -1, 135: -1, 165: -1, 180: -1, 195: -1, 210: -1, 270: -1},
    ),
    Story(
        alert="KafkaControllerMissing",
        told="is one alert that goes on while the exporter moves to another address",
        series={
            f"kafka_controller_id{{{_EXPORTER}}}": times((-1, 6), ("stale", 1)),
            f"kafka_controller_id{{{_OTHER_EXPORTER}}}": times(("_", 6), (-1, 10)),
        },
        moments={15: None, 30: -1, 75: -1, 90: -1, 105: -1, 210: -1},
    ),
)

FLAPPING = (
    Story(
        alert="KafkaControllerFlapping",
        told="fires at the third election within 10 min, resolves when they are past",
        series=_one("kafka_controller_epoch", (7, 4), (8, 4), (9, 4), (10, 60)),
        moments={60: None, 165: None, 180: 3, 630: 3, 750: 3, 795: None},
    ),
    Story(
        alert="KafkaControllerFlapping",
        told="is silent about two elections",
        series=_one("kafka_controller_epoch", (7, 4), (8, 1), (9, 60)),
        moments={60: None, 75: None, 300: None, 630: None},
    ),
    Story(
        alert="KafkaControllerFlapping",
        told="is silent about three elections over more than 10 min",
        series=_one("kafka_controller_epoch", (7, 4), (8, 24), (9, 24), (10, 40)),
        moments={60: None, 420: None, 780: None, 900: None, 1200: None},
    ),
    Story(
        alert="KafkaControllerFlapping",
        told="counts elections between two scrapes and in a gap of them",
        series=_one("kafka_controller_epoch", (7, 4), *GAP, (10, 10)),
        moments={45: None, 120: 3, 240: 3},
    ),
    Story(
        alert="KafkaControllerFlapping",
        told="is silent when an ensemble is built anew and the epoch starts again",
        series=_one("kafka_controller_epoch", (50, 8), (1, 60)),
        moments={105: None, 120: None, 600: None, 900: None},
    ),
    Story(
        alert="KafkaControllerFlapping",
        told="is silent when a cluster is scraped for the first time",
        series=_one("kafka_controller_epoch", ("_", 4), (4711, 20)),
        moments={60: None, 285: None},
    ),
    Story(
        alert="KafkaControllerFlapping",
        told="counts on when the exporter moves to another address",
        series={
            f"kafka_controller_epoch{{{_EXPORTER}}}": times((7, 4), (8, 1), (9, 3), ("stale", 1)),
            f"kafka_controller_epoch{{{_OTHER_EXPORTER}}}": times(("_", 8), (9, 4), (10, 20)),
        },
        moments={165: None, 180: 3, 450: 3},
    ),
)

OFFLINE = (
    Story(
        alert="KafkaPartitionsOffline",
        told="fires after 1 min with one partition offline, resolves 2 min after none is",
        series=_one("kafka_cluster_offline_partitions", (0, 4), (1, 8), (0, 20)),
        moments={105: None, 120: 1, 165: 1, 285: 1, 300: None},
    ),
    Story(
        alert="KafkaPartitionsOffline",
        told="is silent while a failover brings them back within a minute",
        series=_one("kafka_cluster_offline_partitions", (0, 4), (250, 4), (0, 20)),
        moments={60: None, 105: None, 120: None, 300: None},
    ),
    Story(
        alert="KafkaPartitionsOffline",
        told="goes on firing over a gap in the scrapes",
        series=_one("kafka_cluster_offline_partitions", (3, 6), *GAP, (3, 10)),
        moments={45: None, 60: 3, 90: 3, 135: 3, 150: 3, 240: 3},
    ),
)

UNSEEN = (
    Story(
        alert="KcmBlindOrBehind",
        told="fires after 1 min in which the figures do not follow, resolves when they do",
        series=_one("kcm_cluster_up", (1, 4), (0, 8), (1, 20)),
        moments={105: None, 120: 1, 285: 1, 300: None},
    ),
    Story(
        alert="KcmBlindOrBehind",
        told="is silent about less than a minute",
        series=_one("kcm_cluster_up", (1, 4), (0, 4), (1, 20)),
        moments={105: None, 120: None, 300: None},
    ),
    Story(
        alert="KcmBlindOrBehind",
        told="fires when the exporter is gone, and misses the cluster for 6 h",
        series=_one("kcm_cluster_up", (1, 4), ("stale", 1), ("_", 1500)),
        moments={105: None, 120: 1, 3600: 1, 21600: 1, 21840: None},
    ),
    Story(
        alert="KcmBlindOrBehind",
        told="is silent over a short gap in the scrapes",
        series=_one("kcm_cluster_up", (1, 4), *GAP, (1, 20)),
        moments={60: None, 105: None, 120: None, 300: None},
    ),
    Story(
        alert="KcmBlindOrBehind",
        told="is silent while one of two exporters follows",
        series={
            f"kcm_cluster_up{{{_EXPORTER}}}": times((0, 20)),
            f"kcm_cluster_up{{{_OTHER_EXPORTER}}}": times((1, 20)),
        },
        moments={60: None, 240: None},
    ),
)


def _doubts(incomplete: str, divergent: str) -> dict[str, str]:
    return {
        f"kcm_cluster_incomplete{{{_EXPORTER}}}": incomplete,
        f"kcm_cluster_divergent{{{_EXPORTER}}}": divergent,
    }


DOUBTFUL = (
    Story(
        alert="KcmIncompleteOrDivergent",
        told="fires after 5 min incomplete, resolves after the resync",
        series=_doubts(times((0, 4), (1, 24), (0, 20)), times((0, 48))),
        moments={345: None, 360: 1, 405: 1, 525: 1, 540: None},
    ),
    Story(
        alert="KcmIncompleteOrDivergent",
        told="is silent about a resync that ends within 5 min",
        series=_doubts(times((0, 4), (1, 20), (0, 20)), times((0, 44))),
        moments={345: None, 360: None, 600: None},
    ),
    Story(
        alert="KcmIncompleteOrDivergent",
        told="fires when divergent, and stays one alert when it becomes incomplete as well",
        series=_doubts(times((0, 14), (1, 20)), times((0, 4), (1, 30))),
        moments={345: None, 360: 2, 480: 2},
    ),
    Story(
        alert="KcmIncompleteOrDivergent",
        told="goes on firing over a gap in the scrapes",
        series=_doubts(times((0, 40)), times((1, 24), *GAP, (1, 10))),
        moments={285: None, 300: 1, 360: 1, 405: 1, 420: 1, 540: 1},
    ),
)

STORIES = (*MISSING, *FLAPPING, *OFFLINE, *UNSEEN, *DOUBTFUL)


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run promtool to its end."""
    assert PROMTOOL is not None
    return subprocess.run(
        [PROMTOOL, *arguments], capture_output=True, text=True, check=False, timeout=_DEADLINE_S
    )


def _expected(alert: str, value: float) -> dict[str, object]:
    """Return the one alert that must fire, with its texts filled in."""
    known = next(each for each in ALERTS if each.name == alert)
    annotations = known.rule()["annotations"]
    assert isinstance(annotations, dict)
    filled = {
        key: text.replace("{{ $labels.cluster }}", "prod").replace("{{ $value }}", f"{value:g}")
        for key, text in annotations.items()
    }
    return {
        "exp_labels": {"cluster": "prod", "severity": str(known.severity)},
        "exp_annotations": filled,
    }


def _as_promtool_reads(story: Story) -> dict[str, object]:
    checks = [
        {
            "eval_time": f"{at}s",
            "alertname": story.alert,
            "exp_alerts": [] if value is None else [_expected(story.alert, value)],
        }
        for at, value in story.moments.items()
    ]
    series = [{"series": name, "values": values} for name, values in story.series.items()]
    return {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{_INTERVAL_S}s",
        "tests": [
            {
                "interval": f"{_INTERVAL_S}s",
                "input_series": series,
                "alert_rule_test": checks,
            }
        ],
    }


def _played(story: Story, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "story.yaml"
    path.write_text(json.dumps(_as_promtool_reads(story)))
    return promtool("test", "rules", str(path))


def test_prometheus_loads_the_rules() -> None:
    """The committed file of rules is one that Prometheus takes, with every alert in it."""
    done = promtool("check", "rules", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def test_prometheus_parses_every_query_of_the_boards(tmp_path: Path) -> None:
    """Each expression, with its variable filled in, is PromQL."""
    rules = [
        {"record": f"board:{signal.name}", "expr": signal.on_board().replace("$cluster", "prod")}
        for signal in SIGNALS
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}))
    done = promtool("check", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"{story.alert} {story.told}")
def test_an_alert_fires_when_it_should_and_only_then(story: Story, tmp_path: Path) -> None:
    """At each moment of the story the alert fires, with its texts filled in, or it is silent."""
    done = _played(story, tmp_path)
    assert done.returncode == 0, f"{story.told}\n{done.stdout}{done.stderr}"


def test_a_story_that_is_not_true_is_refused(tmp_path: Path) -> None:
    """The stories can fail: the first one turned around is no longer accepted."""
    turned = {at: None if value is not None else -1.0 for at, value in MISSING[0].moments.items()}
    done = _played(dataclasses.replace(MISSING[0], moments=turned), tmp_path)
    assert done.returncode != 0


def test_every_alert_has_stories_in_which_it_fires_resolves_and_stays_silent() -> None:
    """No alert is shipped that was not seen firing, ending, and keeping silent just below."""
    for alert in ALERTS:
        told = [list(story.moments.values()) for story in STORIES if story.alert == alert.name]
        fired = [moments for moments in told if any(moment is not None for moment in moments)]
        assert any(moments[-1] is None for moments in fired), alert.name
        assert any(all(moment is None for moment in moments) for moments in told), alert.name


def test_alerts_are_kept_firing_over_a_gap() -> None:
    """Each rule has the same time for which it is kept firing."""
    assert {alert.rule()["keep_firing_for"] for alert in ALERTS} == {KEEP_FIRING_FOR}
