"""`python -m tests.simulation FROM+COUNT`: run seeds; print which faults occurred and which invariants broke.

The rule: a seed that breaks an invariant is printed with the invariant and the command that runs it
again. `--fresh SECONDS` runs seeds that nobody has chosen; those that break an invariant are kept in
`fresh-seeds.txt` until somebody mends or explains them, and do not fail the run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.simulation import report
from tests.simulation.play import Outcome, play
from tests.support.commands import say

_PROGRESS_EVERY = 100
_AT_A_TIME = 10

FRESH = Path("fresh-seeds.txt")
"""Where fresh seeds that broke an invariant are kept, a line each."""

_FRESH_FROM = 10**6, 10**9
"""Fresh seeds begin between these, above all that pages and tests name."""

_FRESH_PER_S = 20
"""More seeds than a machine plays in a second."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds; return 1 if an invariant broke, 0 if none did."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seeds", nargs="?", default="0+300", help="FROM+COUNT, or one seed")
    parser.add_argument("--fresh", type=int, metavar="SECONDS", help="fresh seeds, for so long")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    parser.add_argument("--processes", type=int, default=1, help="how many seeds to play at once")
    parser.add_argument("--report", type=Path, help="write the figures to this page")
    options = parser.parse_args(arguments)
    try:
        seeds = parse_seeds(options.seeds)
    except ValueError:
        parser.error(f"{options.seeds!r}: say FROM+COUNT, as in 0+300, or one seed")
    ends_at = None
    if options.fresh is not None:
        first, below = _FRESH_FROM
        first += secrets.randbelow(below - first)
        seeds = range(first, first + options.fresh * _FRESH_PER_S)
        ends_at = time.monotonic() + options.fresh
    outcomes: list[Outcome] = []
    for outcome in _played(seeds, options):
        outcomes.append(outcome)
        if outcome.broken is not None:
            say(f"seed {outcome.seed} BROKEN {outcome.broken}")
            say(f"  replay: {sys.executable} -m tests.simulation {outcome.seed}+1 --trace")
            if options.fresh is not None:
                with FRESH.open("a", encoding="utf-8") as file:
                    file.write(f"{outcome.seed} {outcome.broken}\n")
        if ends_at is not None and time.monotonic() >= ends_at:
            break
        if len(outcomes) % _PROGRESS_EVERY == 0:
            say(f"{len(outcomes)} of {len(seeds)} seeds, {_broken(outcomes)} broken")
    if options.fresh is not None:
        kept = f": see {FRESH.absolute()}" if _broken(outcomes) else ""
        say(f"{len(outcomes)} fresh seeds from {seeds.start}, {_broken(outcomes)} broken{kept}")
        return 0
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
