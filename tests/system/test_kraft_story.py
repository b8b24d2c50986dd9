"""The demo's story of a KRaft cluster: after each step the monitor shows the truth, and it reported what happened."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.demo.kraft_steps import BEHIND_REPLICAS, KRAFT
from kcm.demo.run import BASELINE_TITLE, CLUSTER_NAME, DemoRun, StepOutcome
from kcm.queries.api_client import ExporterApi, cluster_path
from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor
from tests.system.noted_story import NotedStory

TITLES = [BASELINE_TITLE, *(step.title for step in KRAFT.steps)]
pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def kraft_board(tmp_path_factory: pytest.TempPathFactory, jars: Jars) -> NotedStory:
    """The story, played once, its servers ended."""
    board = NotedStory(KRAFT)
    folder = tmp_path_factory.mktemp("kraft-story")
    with (
        Supervisor(folder, kill_on_exit=True) as owner,
        DemoRun(KRAFT, owner, jars, folder / "data", board, fast=True) as run,
    ):
        run.start()
        run.run_steps()
        api = ExporterApi(run.pipeline.exporter_url)
        board.shown_at_its_end = api.get(cluster_path(CLUSTER_NAME))
    return board


@pytest.fixture
def cluster(kraft_board: NotedStory) -> dict[str, Any]:
    """The cluster as the API showed it when the story had ended."""
    outcomes = kraft_board.outcomes
    assert len(outcomes) == len(TITLES), outcomes[-1].problem
    return kraft_board.shown_at_its_end


@pytest.mark.parametrize("number", range(len(TITLES)), ids=TITLES)
def test_after_each_step_every_figure_equals_the_controllers_files(
    kraft_board: NotedStory, number: int
) -> None:
    """Controller, epoch, elections, fenced brokers, ELRs, leaders, unclean elections, and the quorum's replicas."""
    outcomes: list[StepOutcome] = kraft_board.outcomes
    assert number < len(outcomes), f"the story ended early: {outcomes[-1].problem}"
    assert outcomes[number].problem == ""
    assert outcomes[number].shown == outcomes[number].truth


def test_figures_have_no_hole(cluster: dict[str, Any]) -> None:
    """Nothing was missed, misread or refused, over all elections."""
    log = cluster["log"]
    assert log["verified_at"] is not None
    unwanted = ("holes", "unreadable", "errors", "anomalies")
    assert {name: log[name] for name in unwanted} == dict.fromkeys(unwanted, 0)
    assert cluster["completeness"]["status"] == "live"


def test_the_time_without_a_controller_is_measured(cluster: dict[str, Any]) -> None:
    """The quorum was lost for seconds; the bounds differ by what no-ops leave open."""
    controller = cluster["controller"]
    assert controller["vacant_since"] is None
    assert 1_000 < controller["vacancy_total_min_ms"] < controller["vacancy_total_max_ms"]


def test_unclean_elections_are_stated_and_those_of_eligible_replicas_are_none(
    cluster: dict[str, Any],
) -> None:
    """As many as were asked for: members of the ELR lost nothing."""
    assert cluster["unclean_elections"] == len(BEHIND_REPLICAS)
