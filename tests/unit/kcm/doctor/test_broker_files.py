"""The lines of `kcm doctor` about the brokers' own files."""

from __future__ import annotations

import pytest

from kcm.doctor.broker_files import IN_KRAFT, SETTING_OF, TAKEN_AS, findings_of
from kcm.doctor.findings import Level


def file(**said: str | None) -> dict[str, str | None]:
    """Return a broker's file: Kafka's defaults except for these, with `_` for `.`."""
    names = dict(zip(SETTING_OF, ("1", "10", "true"), strict=True)) | TAKEN_AS
    return names | {name.replace("_", "."): value for name, value in said.items()}


def test_brokers_that_agree_give_the_line_to_set() -> None:
    """A value that the fold has already is ok; another value, or none, is a warning with the line to set."""
    files = {1: file(min_insync_replicas="2"), 2: file(min_insync_replicas="2")}
    said = findings_of("prod", files, {})
    first, *others = said
    text = "min.insync.replicas=2 on brokers 1, 2: --min-insync-replicas prod=2"
    assert (first.level, first.text) == (Level.OK, text)
    assert {each.level for each in others} == {Level.OK}
    for value, words in ((None, "is not set"), (1, "is 1 for the fold")):
        (line, *_) = findings_of("prod", files, {"min_insync_replicas": value})
        assert (line.level, words in line.text) == (Level.WARN, True)
        assert "--min-insync-replicas prod=2" in line.todo
    (line, *_) = findings_of("prod", files, {"min_insync_replicas": 2})
    assert line.level is Level.OK


@pytest.mark.parametrize("name", [*SETTING_OF, *TAKEN_AS])
def test_brokers_that_differ_are_named(name: str) -> None:
    """No single value is right for all, so no line to set is printed."""
    files = {1: file(), 2: file(), 3: file() | {name: "7"}}
    (line,) = [each for each in findings_of("prod", files, {}) if each.level is not Level.OK]
    assert "on brokers 1, 2; " in line.text
    assert f"{name}=7 on broker 3: they differ" in line.text
    assert "prod=" not in line.text + line.todo


@pytest.mark.parametrize(("said", "level"), [(True, Level.WARN), (False, Level.OK)])
def test_a_rebalance_that_is_off_is_to_be_set(
    said: bool, level: Level
) -> None:  # pytest passes it by name
    """Otherwise elections without a known request would be attributed to the controller's rebalance."""
    files = {1: file(auto_leader_rebalance_enable="false")}
    findings = findings_of("prod", files, {"auto_leader_rebalance": said})
    (line,) = [each for each in findings if "auto.leader.rebalance" in each.text]
    assert line.level is level
    assert "--auto-leader-rebalance prod=false" in line.text + line.todo


def test_another_interval_is_reported() -> None:
    """What the next check would elect, and when, is predicted with Kafka's default."""
    files = {1: file(leader_imbalance_check_interval_seconds="60")}
    (line,) = [each for each in findings_of("prod", files, {}) if each.level is not Level.OK]
    assert "leader.imbalance.check.interval.seconds=60" in line.text


def test_a_broker_whose_file_lacks_the_setting_is_not_counted() -> None:
    """An older release may lack a setting; where no broker reports it, it is not measured."""
    files = {1: file(min_insync_replicas=None), 2: file(min_insync_replicas="2")}
    (first, *_) = findings_of("prod", files, {})
    assert first.text == "min.insync.replicas=2 on broker 2: --min-insync-replicas prod=2"
    (first, *_) = findings_of("prod", {1: file(min_insync_replicas=None)}, {})
    assert first.level is Level.UNKNOWN


def test_of_a_kraft_cluster_no_threshold_and_no_interval_is_to_be_set() -> None:
    """Its controller ignores the one, and is predicted by no fixed times; the other settings count as ever."""
    files = {1: file(leader_imbalance_check_interval_seconds="60")}
    is_set = {IN_KRAFT: 1, "leader_imbalance_percentage": None, "min_insync_replicas": 2}
    findings = list(findings_of("prod", files, is_set))
    assert not [each for each in findings if "leader.imbalance" in each.text]
    assert [each.level for each in findings] == [Level.WARN, Level.OK]
