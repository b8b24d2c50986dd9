"""The demo's story: after each step the monitor shows the truth, and it reported what happened."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.demo.run import BASELINE_TITLE, StepOutcome
from kcm.demo.steps import DEPOSITIONS, STEPS
from tests.system.noted_story import NotedStory

TITLES = [BASELINE_TITLE, *(step.title for step in STEPS)]


@pytest.fixture
def cluster(board: NotedStory, outcomes: list[StepOutcome]) -> dict[str, Any]:
    """The cluster as the API showed it when the story had ended."""
    assert len(outcomes) == len(TITLES), outcomes[-1].problem
    return board.shown_at_its_end


def _events(cluster: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the events of a kind, oldest first."""
    events = reversed(cluster["events"])
    return [event for event in events if event["kind"] == kind]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(len(TITLES)), ids=TITLES)
def test_after_each_step_every_figure_equals_the_znodes(
    outcomes: list[StepOutcome], number: int
) -> None:
    """Controller, epoch, elections, brokers, leaders, offline, under-replicated, imbalance."""
    assert number < len(outcomes), f"the story ended early: {outcomes[-1].problem}"
    outcome = outcomes[number]
    assert outcome.problem == ""
    assert outcome.shown == outcome.truth


def test_every_election_is_counted(outcomes: list[StepOutcome]) -> None:
    """One for the killed controller and one for each deposition, no more than the epoch says."""
    last = outcomes[-1]
    assert last.truth is not None
    assert last.shown is not None
    assert last.shown.elections == last.truth.elections
    assert (last.truth.elections or 0) >= 1 + DEPOSITIONS


def test_the_killed_brokers_are_reported_as_crashed(cluster: dict[str, Any]) -> None:
    """Two brokers were killed, none was shut down."""
    ends = [broker["ends"] for broker in cluster["brokers"]]
    assert sum(end.get("crashed", 0) for end in ends) == 2
    assert sum(end.get("controlled_shutdown", 0) for end in ends) == 0


def test_the_vacancy_of_the_controller_is_measured(cluster: dict[str, Any]) -> None:
    """A broker holds /controller again, and the duration of the vacancy is between two bounds."""
    controller = cluster["controller"]
    assert controller["vacant_since"] is None
    assert 0 <= controller["vacancy_total_min_ms"] <= controller["vacancy_total_max_ms"]
    assert controller["vacancy_total_max_ms"] > 0


def test_leader_elections_are_reported_by_kind(cluster: dict[str, Any]) -> None:
    """Dead leaders cause offline elections, preferred ones restore the balance; none is unclean."""
    kinds = cluster["leader_elections"]
    assert kinds["offline"] > 0
    assert kinds["preferred"] > 0
    assert cluster["unclean_elections"] == 0


def test_the_newest_leaders_come_from_a_preferred_election(cluster: dict[str, Any]) -> None:
    """The newest leaders were elected by preference, each to its first replica."""
    elected = _events(cluster, "LeadersElected")
    assert elected[-1]["election"] == "preferred"


def test_a_stalled_replica_is_reported_as_slow_not_dead(cluster: dict[str, Any]) -> None:
    """Leaders dropped it from ISRs (no leader epoch rose), and it was let in again."""
    shrunk = _events(cluster, "IsrShrunk")
    assert any(not event.get("by_controller") for event in shrunk)
    assert _events(cluster, "IsrExpanded")


def test_the_figures_were_verified_against_zookeeper(cluster: dict[str, Any]) -> None:
    """No hole, nothing stale, nothing unreadable, and a proof that the state is ZooKeeper's."""
    log = cluster["log"]
    assert log["verified_at"] is not None
    unwanted = ("holes", "stale", "unreadable", "errors", "anomalies", "dropped_by_watcher")
    assert {name: log[name] for name in unwanted} == dict.fromkeys(unwanted, 0)
    assert cluster["completeness"]["status"] == "live"
