"""`python -m tests.simulation FROM+COUNT`: run seeds; print which faults occurred and which invariants broke.

The rule: a seed that breaks an invariant is printed with the invariant and the command that runs it
again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.simulation import report
from tests.simulation.play import Outcome, play
from tests.support.commands import say

_PROGRESS_EVERY = 100
_AT_A_TIME = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds; return 1 if an invariant broke, 0 if none did."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seeds", nargs="?", default="0+300", help="FROM+COUNT, or one seed")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    parser.add_argument("--processes", type=int, default=1, help="how many seeds to play at once")
    parser.add_argument("--report", type=Path, help="write the figures to this page")
    options = parser.parse_args(arguments)
    try:
        seeds = parse_seeds(options.seeds)
    except ValueError:
        parser.error(f"{options.seeds!r}: say FROM+COUNT, as in 0+300, or one seed")
    outcomes: list[Outcome] = []
    for seed, outcome in zip(seeds, _played(seeds, options), strict=True):
        outcomes.append(outcome)
        if outcome.broken is not None:
            say(f"seed {seed} BROKEN {outcome.broken}")
            say(f"  replay: {sys.executable} -m tests.simulation {seed}+1 --trace")
        if len(outcomes) % _PROGRESS_EVERY == 0:
            say(f"{len(outcomes)} of {len(seeds)} seeds, {_broken(outcomes)} broken")
    say(report.table(outcomes))
    say(f"{len(outcomes)} seeds, {_broken(outcomes)} broken")
    if options.report is not None:
        options.report.write_text(report.page(options.seeds, outcomes), encoding="utf-8")
    return 1 if _broken(outcomes) else 0


def _played(seeds: range, options: argparse.Namespace) -> Iterator[Outcome]:
    """Yield the outcome of each seed, in order."""
    if options.trace or options.processes == 1:
        yield from (play(seed, say if options.trace else None) for seed in seeds)
        return
    with multiprocessing.Pool(options.processes) as pool:
        yield from pool.imap(play, seeds, chunksize=_AT_A_TIME)


def parse_seeds(text: str) -> range:
    """Return the seeds of FROM+COUNT, or the one seed; raises ValueError.

    >>> parse_seeds("5+3"), parse_seeds("7")
    (range(5, 8), range(7, 8))
    """
    first, _, count = text.partition("+")
    seeds = range(int(first), int(first) + int(count or 1))
    if not seeds:
        raise ValueError(text)
    return seeds


def _broken(outcomes: Sequence[Outcome]) -> int:
    return sum(outcome.broken is not None for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(main())
