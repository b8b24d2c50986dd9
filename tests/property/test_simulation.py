"""The simulation keeps its invariants over many seeds, is repeatable, and finds planted bugs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation import __main__ as simulation
from tests.simulation.__main__ import FRESH, main
from tests.simulation.electing import is_electing
from tests.simulation.planted import CAUGHT_BY, PLANTED
from tests.simulation.play import LEAST_CHANGES, LEAST_FAULTS, Outcome, play

SEEDS = 150
SHARE = 10
"""The seeds run in shares, so that none comes near a test's limit of time. The first share also runs for each
mutant of the watcher, whose decisions the unit tests leave to it (pyproject.toml)."""

ALWAYS = 60
"""That many seeds are played by `make test`; `make test-all` plays them all."""

HASHED = "60+10"
"""Seeds in which, among others, the watcher is denied several znodes at once."""

SHARES = [
    pytest.param(first, marks=[] if first < ALWAYS else [pytest.mark.full], id=f"{first}+{SHARE}")
    for first in range(0, SEEDS, SHARE)
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", SHARES)
def test_every_invariant_holds_under_all_faults(first: int) -> None:
    """No seed breaks an invariant; each has enough changes and faults to mean something."""
    for seed in range(first, first + SHARE):
        outcome = play(seed)
        assert outcome.broken is None, f"python -m tests.simulation {seed}+1 --trace"
        assert outcome.changes >= LEAST_CHANGES
        assert sum(outcome.hits.values()) >= LEAST_FAULTS


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=[pytest.mark.full] if place else [])
        for name in PLANTED
        for place, seed in enumerate(CAUGHT_BY[name])
    ],
)
def test_a_planted_bug_is_caught_by_its_seeds(name: str, seed: int) -> None:
    """With the bug in the code, a seed that is otherwise clean breaks an invariant."""
    with PLANTED[name]():
        outcome = play(seed)
        if outcome.broken is None:
            others = (other for other in range(SEEDS) if play(other).broken is not None)
            pytest.fail(f"seed {seed} no longer catches it, but {next(others, 'none')} does")


@pytest.mark.parametrize(
    "seed", [3, 14, 10], ids=["plain", "with the fold's service", "with kcm elect"]
)
def test_a_seed_gives_the_same_run_again(seed: int) -> None:
    """Two runs of a seed give the same trace, to the last line; `kcm elect` runs in a thread."""
    assert is_electing(seed) is (seed == 10)
    stories: list[list[str]] = [[], []]
    for story in stories:
        play(seed, story.append)
    assert stories[0] == stories[1]
    assert len(stories[0]) > LEAST_CHANGES / 2


def test_a_seed_gives_the_same_run_in_each_process() -> None:
    """Nothing depends on the order of a set of texts, which differs from process to process."""
    printed = [
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", HASHED, "--trace"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert printed[0] == printed[1]


def test_a_failed_seed_is_printed_with_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 1, the invariant, and the command."""
    with PLANTED["hole ignored"]():
        assert main([f"{CAUGHT_BY['hole ignored'][0]}+1"]) == 1
    reported = capsys.readouterr().out
    assert "BROKEN a hole is reported" in reported
    assert "-m tests.simulation" in reported
    assert "--trace" in reported


def test_a_fresh_seed_that_fails_is_kept_and_does_not_fail_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its line has the seed and the invariant, and the command that replays it is printed."""
    monkeypatch.chdir(tmp_path)
    broken = Outcome(5, Counter(), 0, 0, 0, "a hole is reported: here")
    monkeypatch.setattr(simulation, "play", lambda seed, _trace: broken._replace(seed=seed))
    monkeypatch.setattr(simulation, "_FRESH_PER_S", 1)
    assert main(["--fresh", "1"]) == 0
    kept = FRESH.read_text(encoding="utf-8")
    said = re.fullmatch(r"(\d+) a hole is reported: here\n", kept)
    assert said is not None, kept
    assert f"-m tests.simulation {said[1]}+1 --trace" in capsys.readouterr().out


def test_a_run_is_written_as_a_markdown_page(tmp_path: Path) -> None:
    """With its figures, what went wrong in it, and all that is planted."""
    page = tmp_path / "simulation.md"
    assert main(["9+1", "--report", str(page)]) == 0
    written = page.read_text(encoding="utf-8")
    assert "`python -m tests.simulation 9+1 --report docs/simulation.md`" in written
    assert "| failed | none |" in written
    assert "| a page was compared at rest |" in written
    assert "| a fold that its service runs | 1 | 1 |" in written
    assert all(name in written for name in PLANTED)
