"""The lines of `kcm doctor` about the exporter, its figures and the clocks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller_model.metrics.metric import Moment
from controller_model.records.changes import SessionState
from controller_model.records.completeness import Completeness, Stage, Status
from exporter.api import cluster_answers
from exporter.core.records import ClusterSnapshot
from kcm.doctor.exporter import check_figures, clock_here, clock_of_zookeeper
from kcm.doctor.findings import Level
from tests.support.samples import T0, cluster_view, log_view

LIVE = Completeness(status=Status.LIVE, since=None, stage=None, verified_at=T0)


def reported(completeness: Completeness = LIVE, folded_at: int = T0, **log: Any) -> Any:
    """Return the API's answer about a cluster, with these fields changed."""
    view = cluster_view(folded_at=folded_at, log=log_view(**log))
    snapshot = ClusterSnapshot(name="prod", partition=0, view=view, brokers={}, topics={})
    moment = Moment(completeness=completeness, behind_ms={}, vacant_ms=0)
    return msgspec.to_builtins(cluster_answers.detail(snapshot, moment, [], []))


def levels(answer: Any, now: int = T0) -> dict[str, str]:
    """Return the findings about a cluster's figures that are not ok, by their first word."""
    return {
        finding.about.split()[0]: finding.text
        for finding in check_figures("prod", answer, now)
        if finding.level is not Level.OK
    }


def test_live_figures_of_a_healthy_cluster_are_ok() -> None:
    """A live cluster whose last change was read at once has only ok lines."""
    assert levels(reported(last_change_mtime=T0 - 3)) == {}


def test_a_min_isr_that_is_not_known_is_one_line_that_names_the_setting() -> None:
    """The line says what is not known because of it, and what to set."""
    answer = reported(last_change_mtime=T0 - 3)
    answer["counts"]["under_min_isr"] = answer["min_isr_assumed"] = None
    (finding,) = [each for each in check_figures("prod", answer, T0) if each.level is not Level.OK]
    assert (finding.about, finding.level) == ("min ISR of prod", Level.WARN)
    assert "min_insync_replicas (prod=N)" in finding.todo


def test_figures_that_are_not_live_name_the_stage() -> None:
    """The line says what is behind, since when, and which part causes it."""
    behind = Completeness(status=Status.BEHIND, since=T0 - 60_000, stage=Stage.FOLD, verified_at=T0)
    assert levels(reported(behind))["figures"] == "behind for 1 min, by the fold"


@pytest.mark.parametrize(
    ("fields", "now", "about", "words"),
    [
        ({"heartbeat_at": None}, T0, "watcher", "no heartbeat yet"),
        ({"denied": ("/config/brokers",)}, T0, "watcher", "not readable: /config/brokers"),
        (
            {"denied": tuple(f"/brokers/topics/t{n}" for n in range(7)), "denied_more": 8},
            T0,
            "watcher",
            "/brokers/topics/t4 and 10 more",
        ),
        ({"session": SessionState.LOST}, T0, "watcher", "session LOST"),
        ({"errors": 1, "holes": 2}, T0, "log", "2 holes"),
        ({"verified_at": None}, T0 + 16 * 60_000, "proof", "16 min ago"),
    ],
)
def test_each_problem_is_reported_under_its_part(
    fields: dict[str, Any], now: int, about: str, words: str
) -> None:
    """Each problem has its own line that says what was seen."""
    assert words in levels(reported(**fields), now)[about]


@pytest.mark.parametrize("stage", [Stage.WATCHER, Stage.FOLD])
def test_a_stage_is_late_by_the_exporters_verdict_alone(stage: Stage) -> None:
    """Times that an hour's clock skew makes old do not count; the exporter's own ages do."""
    hour = 3_600_000
    assert not {"watcher", "fold"} & set(levels(reported(), T0 + hour))
    late = Completeness(status=Status.BEHIND, since=T0 - 9000, stage=stage, verified_at=T0)
    found = levels(reported(late, heartbeat_at=T0 + hour, folded_at=T0 + hour))
    assert "no sign of life for 9 s" in found[stage.value]


@pytest.mark.parametrize(
    ("stage", "ahead_ms", "words"),
    [
        (Stage.WATCHER, 3_600_000, "its clock is 3600 s ahead of the exporter's"),
        (Stage.FOLD, -7000, "its clock is 7 s behind the exporter's"),
    ],
)
def test_a_clock_that_disagrees_is_reported_of_its_stage(
    stage: Stage, ahead_ms: int, words: str
) -> None:
    """The line names the stage and the difference, while the figures can be trusted as before."""
    found = levels(
        reported(
            Completeness(
                status=Status.CLOCKS_DISAGREE,
                since=None,
                stage=stage,
                verified_at=T0,
                clock_skew_ms={stage: ahead_ms},
            )
        )
    )
    assert words in found[stage.value]
    assert "clocks disagree" in found["figures"]


@pytest.mark.parametrize(
    ("seen", "mtime", "level"),
    [
        (T0, T0 - 4, Level.OK),
        (T0, T0 + 1500, Level.OK),
        (T0, T0 + 2500, Level.WARN),
        (T0, T0 - 5000, Level.OK),
        (T0, T0 - 5001, Level.UNKNOWN),
        (T0, None, Level.UNKNOWN),
        (None, None, Level.UNKNOWN),
    ],
)
def test_zookeepers_clock_is_judged_by_changes_alone(
    seen: int | None, mtime: int | None, level: Level
) -> None:
    """A change seen before its mtime proves that the clock is ahead; one seen late proves nothing."""
    answer = reported(last_change_at=seen, last_change_mtime=mtime)
    assert clock_of_zookeeper("prod", answer).level is level


def test_zookeepers_clock_is_as_the_exporter_reports_it() -> None:
    """What the watcher has measured counts more than the last change, which may have been read late."""
    proved = msgspec.structs.replace(LIVE, clock_skew_ms={Stage.ZOOKEEPER: -7_200_000})
    found = clock_of_zookeeper("prod", reported(proved, last_change_at=T0, last_change_mtime=T0))
    assert (found.level, "7200 s behind the exporter's" in found.text) == (Level.WARN, True)


@pytest.mark.parametrize(
    ("ahead", "level", "words"),
    [
        (None, Level.UNKNOWN, "no Date"),
        ((-900, 300), Level.OK, "within 2 s"),
        ((1500, 2600), Level.OK, "within 2 s"),
        ((2500, 3600), Level.WARN, "2 s behind the exporter's"),
        ((-9600, -8500), Level.WARN, "8 s ahead of the exporter's"),
    ],
)
def test_a_clock_offset_is_reported_only_beyond_the_precision_of_http_dates(
    ahead: tuple[int, int] | None, level: Level, words: str
) -> None:
    """Date counts whole seconds, so only a difference that is certain is reported."""
    finding = clock_here(ahead)
    assert finding.level is level
    assert words in finding.text


@pytest.mark.parametrize(
    ("quorum", "level", "words"),
    [
        ({}, Level.OK, "last heartbeat"),
        ({"is_sampled": False}, Level.WARN, "which controllers may be stopped is not known"),
        (
            {"leader": 3001, "leader_silent_since": T0 - 60_000},
            Level.FAIL,
            "the active controller, 3001, has not answered it for 1 min",
        ),
        ({"unreachable_since": T0 - 60_000}, Level.FAIL, "no controller has answered it for 1 min"),
    ],
)
def test_a_kraft_cluster_is_told_in_its_own_words(
    quorum: dict[str, Any], level: Level, words: str
) -> None:
    """The watcher has no session there, the proof is of the metadata log, and the clock is a controller's."""
    answer = reported(session=None, zookeeper=None)
    answered = {"unreachable_since": None, "leader_silent_since": None, "is_sampled": True}
    answer["quorum"] = answered | quorum
    found = {each.about: each for each in check_figures("prod", answer, T0)}
    assert found["watcher of prod"].level is level
    assert words in found["watcher of prod"].text
    assert "equal to the metadata log" in found["proof of prod"].text
    assert found["clock, controller of prod"].level is Level.OK
    assert not any("ookeeper" in each.about + each.text for each in found.values())
