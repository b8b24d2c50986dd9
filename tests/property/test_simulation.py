"""The simulation holds over many seeds, plays them alike, and catches planted bugs."""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import main
from tests.simulation.planted import PLANTED, Plant
from tests.simulation.play import LEAST_CHANGES, LEAST_FAULTS, play

SEEDS = 300
PARTS = 6
"""The seeds run in parts, so that none comes near a test's limit of time."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_invariant_holds_whatever_goes_wrong(part: int) -> None:
    """No seed breaks an invariant; each has enough changes and faults to mean something."""
    for seed in range(part, SEEDS, PARTS):
        outcome = play(seed)
        assert outcome.broken is None, f"python -m tests.simulation {seed}+1 --trace"
        assert outcome.changes >= LEAST_CHANGES
        assert sum(outcome.hits.values()) >= LEAST_FAULTS


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_bug_is_caught(plant: Plant) -> None:
    """With the bug in the code, one of the seeds that are otherwise clean breaks an invariant."""
    with plant():
        broken = next((o for o in map(play, range(SEEDS)) if o.broken is not None), None)
    assert broken is not None


def test_a_seed_plays_the_same_again() -> None:
    """Two runs of a seed tell the same story, to the last line."""
    stories: list[list[str]] = [[], []]
    for story in stories:
        play(3, story.append)
    assert stories[0] == stories[1]
    assert len(stories[0]) > LEAST_CHANGES / 2


def test_a_broken_seed_is_told_with_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 1, the invariant, and the command."""
    with PLANTED["hole ignored"]():
        assert main(["0+3"]) == 1
    told = capsys.readouterr().out
    assert "BROKEN a hole is told" in told
    assert "-m tests.simulation" in told
    assert "--trace" in told
