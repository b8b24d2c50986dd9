"""One run of the demo for all tests: a real cluster, the whole pipeline, and the demo's steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kcm.demo.run import CLUSTER_NAME, DemoRun, StepOutcome
from kcm.demo.steps import ZOOKEEPER
from kcm.queries.api_client import ExporterApi, cluster_path
from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor
from tests.support.waiting import DEADLINE_S, wait_until
from tests.support.worlds import WORLD_ENDS
from tests.system.noted_story import NotedStory, ZooKeeperRun


@pytest.fixture(scope="session")
def board() -> NotedStory:
    """The story, with the outcomes of its steps so far."""
    return NotedStory(ZOOKEEPER)


@pytest.fixture(scope="session")
def world(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Supervisor]:
    """The owner of the world's servers; separate from others, so that it ends before them."""
    with ExitStack() as servers:
        owner = Supervisor(tmp_path_factory.mktemp("world"), kill_on_exit=True)
        pytestconfig.stash[WORLD_ENDS] = servers.close
        yield servers.enter_context(owner)


@pytest.fixture(scope="session")
def scene(world: Supervisor, jars: Jars, board: NotedStory) -> Iterator[ZooKeeperRun]:
    """All servers of the demo, running."""
    with DemoRun(ZOOKEEPER, world, jars, world.folder / "data", board, fast=True) as scene:
        scene.start()
        yield scene


@pytest.fixture(scope="session")
def outcomes(scene: ZooKeeperRun, board: NotedStory) -> list[StepOutcome]:
    """The demo's steps, run once: the outcome of each step."""
    scene.run_steps()
    if not board.outcomes[-1].problem:
        # Other tests go on with this cluster, in any order: they stop its brokers, and elect.
        api = ExporterApi(scene.pipeline.exporter_url, within_s=DEADLINE_S)
        board.shown_at_its_end = wait_until(
            lambda: api.get(cluster_path(CLUSTER_NAME)),
            lambda shown: shown["completeness"]["status"] == "live",  # late for a moment if busy
        )
    return board.outcomes
