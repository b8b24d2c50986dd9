"""Each part fails on real servers: no stale figure is live, and afterwards all are correct.

One cell of `python -m tests.faults` for each part, the quickest that shows something; all in one world.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor
from tests.faults.cells import CELLS, HALF_OPEN, KILL, STOP, Cell
from tests.faults.kraft_cells import KRAFT_CELLS
from tests.faults.kraft_world import KraftWorld
from tests.faults.runner import play
from tests.faults.world import World

pytestmark = pytest.mark.full

MAX_STALE_S = 4.0
"""A second more than is promised: of two processors that other tests use as well."""

PLAYED = (
    ("ZooKeeper", HALF_OPEN),
    ("watched broker", KILL),
    ("watched controller", KILL),
    ("pipeline's Kafka", KILL),
    ("watcher", KILL),
    ("Spark JVM", KILL),
    ("Python worker", KILL),
    ("driver", KILL),
    ("exporter", STOP),
)


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory, jars: Jars) -> Iterator[World]:
    """All servers, with changes all the time."""
    folder = tmp_path_factory.mktemp("faults")
    with Supervisor(folder, kill_on_exit=True) as servers, World(servers, jars) as world:
        yield world


@pytest.mark.parametrize(("part", "fault"), PLAYED)
def test_live_figures_equal_zookeeper_after_each_fault(
    faults: World, part: str, fault: str
) -> None:
    """After a fault of each part all leaders, ISRs and counts soon equal ZooKeeper's, and the log its history."""
    (cell,) = (each for each in CELLS if (each.part.name, each.fault) == (part, fault))
    found = play(faults, part, fault, partial(Cell.act, cell, faults))
    assert (found.problem, found.wrong, found.history_problem) == ("", "", "")
    assert found.history is not None
    assert found.history.versions > 0
    assert found.oldest_s <= MAX_STALE_S, found
    assert found.follows_after_s is not None, "how soon is measured by `python -m tests.faults`"


KRAFT_PLAYED = (
    "active controller: kill -9",
    "all controllers: kill -9",
    "active controller: hears nobody",
)


@pytest.fixture(scope="module")
def kraft_faults(tmp_path_factory: pytest.TempPathFactory, jars: Jars) -> Iterator[KraftWorld]:
    """A quorum and its pipeline, with changes all the time."""
    folder = tmp_path_factory.mktemp("kraft-faults")
    with Supervisor(folder, kill_on_exit=True) as servers, KraftWorld(servers, jars) as world:
        yield world


@pytest.mark.parametrize("name", KRAFT_PLAYED)
def test_live_figures_equal_the_controllers_files_after_each_fault(
    kraft_faults: KraftWorld, name: str
) -> None:
    """All leaders, ISRs and counts soon equal what a majority has, and each published record is in its files."""
    (cell,) = (each for each in KRAFT_CELLS if each.name == name)
    cell.prepare(kraft_faults)
    found = play(kraft_faults, cell.part.name, cell.fault, partial(cell.act, kraft_faults))
    assert (found.problem, found.wrong, found.history_problem) == ("", "", "")
    assert found.history is not None
    assert found.history.versions > 0
    assert found.oldest_s <= MAX_STALE_S, found
