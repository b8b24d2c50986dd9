"""`python -m tests.faults [NAME ...]`: play the cells whose names contain one of these; without any, all.

The rule: all cells run in one test environment, and the outcome of each is printed at once.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from kcm.servers.jars import ensure_jars
from kcm.servers.supervisor import Supervisor
from tests.faults import clocks
from tests.faults.cells import CELLS, CLOCK_FAULTS, Cell
from tests.faults.full_disk import FullDisk, why_not
from tests.faults.history import Checked
from tests.faults.kraft_cells import KRAFT_CELLS, KraftCell
from tests.faults.kraft_world import KraftWorld
from tests.faults.report import line, stretch_rows, write_faults, write_soak
from tests.faults.runner import Outcome, play
from tests.faults.sides import Sides
from tests.faults.soak import Stretch, soak
from tests.faults.world import World
from tests.support.commands import say

FULL_DISK = "kcm up: full disk"
NAMES = (*(cell.name for cell in CELLS), FULL_DISK, *(cell.name for cell in KRAFT_CELLS))


def main(arguments: Sequence[str] | None = None) -> int:
    """Play cells; return 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("names", nargs="*", help="parts of cells' names, such as watcher: or kill")
    parser.add_argument("--list", action="store_true", help="name the cells and play none")
    parser.add_argument(
        "--report", type=Path, help="write what came of them to this page; other cells' rows stay"
    )
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="play the long story instead")
    parser.add_argument("--seed", type=int, default=1, help="which story")
    parser.add_argument("--keep", type=Path, help="keep logs and data in this folder")
    options = parser.parse_args(arguments)
    cells = [cell for cell in CELLS if _wanted(cell.name, options.names)]
    kraft_cells = [cell for cell in KRAFT_CELLS if _wanted(cell.name, options.names)]
    with_full_disk = _wanted(FULL_DISK, options.names)
    if options.list:
        say("\n".join(name for name in NAMES if _wanted(name, options.names)))
        return 0
    with tempfile.TemporaryDirectory(prefix="kcm-faults-") as folder:
        where = options.keep or Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        if options.soak is not None:
            return _soak(where, options)
        outcomes: list[Outcome] = []
        found_by_each = itertools.chain(
            _play(where, cells, with_full_disk=with_full_disk), _play_kraft(where, kraft_cells)
        )
        for found in found_by_each:
            outcomes.append(found)
            if options.report is not None:  # at once: a run that is ended early keeps its rows
                write_faults(options.report, [found], of=NAMES)
    return 0 if all(each.ok for each in outcomes) else 1


def _soak(where: Path, options: argparse.Namespace) -> int:
    stretches: list[Stretch] = []
    with (
        Supervisor(where, kill_on_exit=True) as supervisor,
        World(supervisor, ensure_jars()) as world,
    ):
        for stretch in soak(world, minutes=options.soak, seed=options.seed):
            stretches.append(stretch)
            say("\n         ".join([stretch_rows(stretches)[-1], *world.said]))
            world.said.clear()
        history = world.history.check() if world.history is not None else Checked()
        counted = f"history: {history.versions:,} versions, {history.merged} merged"
        say("\n".join([counted, *history.problems]))
    if options.report is not None:
        write_soak(options.report, stretches, options.seed)
    failed = any(each.stale_s or each.wrong for each in stretches) or history.problems
    return 1 if failed else 0


def _wanted(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


def _play(where: Path, cells: Sequence[Cell], *, with_full_disk: bool) -> Iterator[Outcome]:
    """Play the cells in one environment, and the full disk in another."""
    jars = ensure_jars()
    if cells:
        with Supervisor(where, kill_on_exit=True) as servers, World(servers, jars) as world:
            for cell in cells:
                if cell.fault in CLOCK_FAULTS and (reason := clocks.why_not()) is not None:
                    say(f"not played: {cell.name}: {reason}")
                    continue
                cell.prepare(world)
                after = partial(cell.assert_after, world)
                act = partial(cell.act, world)
                yield _outcome(world, cell.part.name, cell.fault, act, afterwards=after)
    if with_full_disk and (reason := why_not()) is not None:
        say(f"not played: {FULL_DISK}: {reason}")
    elif with_full_disk:
        with Supervisor(where, kill_on_exit=True) as servers, FullDisk(servers, jars) as small:
            yield _outcome(small, "kcm up", "full disk", small.fill)


def _play_kraft(where: Path, cells: Sequence[KraftCell]) -> Iterator[Outcome]:
    """Play the cells of a KRaft cluster in one environment."""
    if not cells:
        return
    with (
        Supervisor(where, kill_on_exit=True) as servers,
        KraftWorld(servers, ensure_jars()) as world,
    ):
        for cell in cells:
            cell.prepare(world)
            act, after = partial(cell.act, world), partial(cell.assert_after, world)
            yield _outcome(world, cell.part.name, cell.fault, act, afterwards=after)


def _outcome(
    sides: Sides,
    part: str,
    fault: str,
    act: Callable[[], None],
    *,
    afterwards: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run a fault and print its outcome at once."""
    said = len(sides.said)
    found = play(sides, part, fault, act, afterwards=afterwards)
    say("\n         ".join([line(found), *sides.said[said:]]))
    return found


if __name__ == "__main__":
    sys.exit(main())
