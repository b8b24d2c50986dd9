"""`kcm doctor`: what each finding is called, and that no check holds up or hides another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from controller_model.records.changes import SessionState
from controller_model.records.completeness import Completeness, Stage, Status
from exporter.api import cluster_answers
from exporter.core.records import ClusterSnapshot
from kcm.doctor.doctor import lines
from kcm.doctor.exporter import check_figures, clock_here, clock_of_zookeeper
from kcm.doctor.findings import Finding, Level, fail, ok, run_checks, unknown, warn
from kcm.doctor.kafka import same_cluster, shown_cluster
from kcm.doctor.zookeeper import server_answer
from pipeline.runtime import UnreachableError
from tests.support.samples import T0, cluster_view, log_view

LIVE = Completeness(status=Status.LIVE, since=None, stage=None, verified_at=T0)


def told(completeness: Completeness = LIVE, folded_at: int = T0, **log: Any) -> Any:
    """Return the API's answer about a cluster, but for these fields."""
    view = cluster_view(folded_at=folded_at, log=log_view(**log))
    snapshot = ClusterSnapshot(name="prod", partition=0, view=view, brokers={}, topics={})
    return msgspec.to_builtins(cluster_answers.detail(snapshot, completeness, []))


def levels(answer: Any, now: int = T0) -> dict[str, str]:
    """Return each finding about a cluster's figures that is not ok, by its first word."""
    return {
        finding.about.split()[0]: finding.text
        for finding in check_figures("prod", answer, now)
        if finding.level is not Level.OK
    }


def test_figures_in_good_order_are_ok() -> None:
    """A live cluster whose last change was read as it came has nothing but ok lines."""
    assert levels(told(last_change_mtime=T0 - 3)) == {}


def test_figures_that_are_not_live_name_the_stage() -> None:
    """What is behind, since when, and because of whom."""
    behind = Completeness(status=Status.BEHIND, since=T0 - 60_000, stage=Stage.FOLD, verified_at=T0)
    assert levels(told(behind))["figures"] == "behind for 1 min, by the fold"


@pytest.mark.parametrize(
    ("fields", "now", "about", "words"),
    [
        ({}, T0 + 26_000, "watcher", "last heartbeat 26 s ago"),
        ({}, T0 + 26_000, "fold", "wrote 26 s ago"),
        ({"heartbeat_at": None}, T0, "watcher", "never heard of"),
        ({"heartbeat_at": T0 + 3000}, T0, "watcher", "at least 3 s ahead of the exporter's"),
        ({"denied": ("/config/brokers",)}, T0, "watcher", "not readable: /config/brokers"),
        ({"session": SessionState.LOST}, T0, "watcher", "session LOST"),
        ({"errors": 1, "holes": 2}, T0, "log", "2 holes"),
        ({"verified_at": None}, T0 + 16 * 60_000, "proof", "16 min ago"),
    ],
)
def test_what_is_not_well_is_told_by_its_part(
    fields: dict[str, Any], now: int, about: str, words: str
) -> None:
    """Each trouble has a line of its own that says what was seen."""
    assert words in levels(told(**fields), now)[about]


def test_a_fold_whose_clock_is_ahead_is_told() -> None:
    """It cannot have written in the future."""
    assert "at least 5 s ahead" in levels(told(folded_at=T0 + 5000))["fold"]


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
    """A change seen before its mtime proves a clock that is ahead; one seen late proves nothing."""
    log = {"last_change_at": seen, "last_change_mtime": mtime}
    assert clock_of_zookeeper("prod", log).level is level


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
def test_this_machines_clock_is_judged_within_what_http_tells(
    ahead: tuple[int, int] | None, level: Level, words: str
) -> None:
    """Date counts whole seconds, so only a difference that is certain is told."""
    finding = clock_here(ahead)
    assert finding.level is level
    assert words in finding.text


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        ("Zookeeper version: 3.8.4-9316, built\nMode: follower\n", Level.OK, "3.8.4, follower"),
        ("Zookeeper version: 3.9.2-1, built\nMode: leader\n", Level.OK, "3.9.2, leader"),
        ("Zookeeper version: 3.8.3-1, built\nMode: leader\n", Level.WARN, "CVE-2024-23944"),
        ("Zookeeper version: 3.9.1-1, built\nMode: leader\n", Level.WARN, "CVE-2024-23944"),
        ("Zookeeper version: 3.4.14-4c, built\nMode: standalone\n", Level.OK, "znode by znode"),
        ("srvr is not executed because it is not in the whitelist.\n", Level.OK, "4lw"),
        ("This ZooKeeper instance is not currently serving requests\n", Level.FAIL, "no quorum"),
        ("Zookeeper version: 3.8.4-1, built\nMode: read-only\n", Level.FAIL, "no quorum"),
        ("", Level.FAIL, "hangs up"),
        ("HTTP/1.1 400 Bad Request\r\n", Level.FAIL, "no ZooKeeper"),
    ],
)
def test_a_server_is_judged_by_what_it_says(answer: str, level: Level, words: str) -> None:
    """A version that is not told is no fault; no quorum is one, and so is what is no ZooKeeper."""
    finding = server_answer("zk1:2181", answer, 1.0)
    assert finding.level is level
    assert words in finding.text


def test_the_pipeline_should_not_live_on_what_it_watches() -> None:
    """Equal ids are a warning, one that is missing is not measured."""
    assert same_cluster("a", "b").level is Level.OK
    assert same_cluster("a", "a").level is Level.WARN
    assert same_cluster(None, "a").level is Level.UNKNOWN
    assert same_cluster("a", None).level is Level.UNKNOWN


@pytest.mark.parametrize(
    ("watched", "shown", "level", "words"),
    [
        ("a", {"prod": "a", "stage": "b"}, Level.OK, "as prod"),
        ("b", {"prod": "a"}, Level.FAIL, "ZooKeeper holds cluster b, the exporter shows prod (a)"),
        ("b", {"prod": "a", "stage": None}, Level.UNKNOWN, "does not know"),
        ("b", {}, Level.UNKNOWN, "shows no cluster"),
        (None, {"prod": "a"}, Level.UNKNOWN, "/cluster/id"),
    ],
)
def test_the_exporter_should_show_the_cluster_of_this_zookeeper(
    watched: str | None, shown: dict[str, str | None], level: Level, words: str
) -> None:
    """One cluster's ZooKeeper and another one's exporter are not all green."""
    finding = shown_cluster(watched, shown)
    assert finding.level is level
    assert words in finding.text


def test_checks_run_side_by_side_and_are_told_in_order() -> None:
    """Two checks that wait for each other both end; the order is that of the table."""
    here, there = threading.Event(), threading.Event()

    def first() -> Iterator[Finding]:
        here.set()
        assert there.wait(5)
        yield ok("first", "done")

    def second() -> Iterator[Finding]:
        there.set()
        assert here.wait(5)
        yield ok("second", "done")

    found = run_checks({"a": first, "b": second}, 10)
    assert [finding.about for finding in found] == ["first", "second"]


def test_a_check_that_hangs_or_breaks_hides_no_other() -> None:
    """Its own line says so, after what it had found before."""
    end = threading.Event()

    def hangs() -> Iterator[Finding]:
        yield ok("early", "in time")
        end.wait(30)
        yield ok("late", "too late")

    def breaks() -> Iterator[Finding]:
        yield ok("before", "found")
        raise UnreachableError("k:1 does not answer")

    began = time.monotonic()
    try:
        found = run_checks({"hangs": hangs, "breaks": breaks, "well": lambda: [ok("w", "x")]}, 0.5)
    finally:
        end.set()
    assert time.monotonic() - began < 5
    assert [(each.level, each.about) for each in found] == [
        (Level.OK, "early"),
        (Level.FAIL, "hangs"),
        (Level.OK, "before"),
        (Level.FAIL, "breaks"),
        (Level.OK, "w"),
    ]
    assert found[3].text == "k:1 does not answer"


def test_lines_stand_in_columns_and_are_counted() -> None:
    """One line each: the level first, what to do last; colours only for a terminal."""
    findings = [ok("kcm", "0.1"), warn("java", "old", "install 17"), unknown("x", "away")]
    findings.append(fail("zookeeper", "down", "start it"))
    assert list(lines(findings, coloured=False)) == [
        "ok    kcm        0.1",
        "warn  java       old -> install 17",
        "-     x          not measured: away",
        "fail  zookeeper  down -> start it",
        "1 ok, 1 warn, 1 fail, 1 not measured",
    ]
    assert "\x1b" in next(iter(lines(findings, coloured=True)))
