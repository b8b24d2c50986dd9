"""One scene for all stories: a real cluster, the whole pipeline, and the demo's story played on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kcm.demo.comparison import Comparison, StepOutcome
from kcm.demo.scene import CLUSTER_NAME, Scene
from kcm.demo.storyteller import FAST, Storyteller
from kcm.queries.api_client import ExporterApi, cluster_path
from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor
from tests.support.worlds import WORLD_ENDS
from tests.system.noted_story import NotedStory


@pytest.fixture(scope="session")
def board() -> NotedStory:
    """The story, with the outcomes of its steps so far."""
    return NotedStory()


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
def scene(world: Supervisor, jars: Jars, board: NotedStory) -> Iterator[Scene]:
    """All servers of the demo, running."""
    with Scene(world, jars, world.folder / "data", board) as scene:
        scene.start(prometheus=False)
        yield scene


@pytest.fixture(scope="session")
def outcomes(scene: Scene, board: NotedStory) -> list[StepOutcome]:
    """The demo's story, played once: the outcome of each step."""
    Storyteller(scene, FAST).run()
    if not board.outcomes[-1].problem:
        # Other tests go on with this cluster, in any order: they stop its brokers, and elect.
        board.shown_at_its_end = ExporterApi(scene.pipeline.exporter_url).get(
            cluster_path(CLUSTER_NAME)
        )
    return board.outcomes


@pytest.fixture
def comparison(scene: Scene, outcomes: list[StepOutcome]) -> Comparison:
    """The monitor compared with the truth, from the end of the story."""
    assert outcomes[-1].truth is not None
    return scene.comparison(quiet_s=0.4, deadline_s=120.0)
