"""Of two watchers of one cluster, exactly one continues."""

from __future__ import annotations

import pytest

from source_log.generation_fencing import (
    CONTEST_MS,
    PROBATION_MS,
    FencingDecision,
    Generations,
)

NEW, GIVE_WAY, IGNORE = (
    FencingDecision.TAKE_NEW_GENERATION,
    FencingDecision.GIVE_WAY,
    FencingDecision.IGNORE,
)
LATER = PROBATION_MS + 1


def begun(name: str = "m", generation: int = 5, now_ms: int = 0) -> Generations:
    """Return a watcher that has begun a generation."""
    generations = Generations(name)
    generations.observe_generation(generation - 1)
    generations.begin_next(now_ms)
    assert generations.generation == generation
    return generations


def test_a_new_generation_is_above_all_that_was_seen() -> None:
    """It is one more than the highest of the log, the view and our own; the first record will have seq 1."""
    generations = Generations("m")
    for seen in (7, 41, 3):
        generations.observe_generation(seen)
    generations.begin_next(0)
    assert (generations.generation, generations.seq) == (42, 0)
    generations.begin_next(0)
    assert (generations.generation, generations.seq) == (43, 0)


@pytest.mark.parametrize(
    ("watcher", "generation", "now_ms", "verdict"),
    [
        ("m", 9, 0, IGNORE),  # ourselves
        ("z", 4, 0, IGNORE),  # an older generation
        ("z", 6, 0, GIVE_WAY),  # we are new, and the other answers us
        ("a", 6, 0, GIVE_WAY),
        ("z", 5, 0, NEW),  # both took the same generation: the first name stays
        ("a", 5, 0, GIVE_WAY),
        ("z", 6, LATER, NEW),  # we have run for long: answer the newcomer
        ("a", 6, LATER, NEW),
    ],
)
def test_the_verdict_on_a_record(
    watcher: str, generation: int, now_ms: int, verdict: FencingDecision
) -> None:
    """A new watcher gives way; one that has run for long answers."""
    assert begun().judge_record(watcher, generation, now_ms) is verdict


@pytest.mark.parametrize(("name", "verdict"), [("m", GIVE_WAY), ("A", NEW)])
def test_two_long_running_watchers_compete_and_the_last_name_gives_way(
    name: str, verdict: FencingDecision
) -> None:
    """One of them continues after a pause. After one answer each, the last name gives way."""
    generations = begun(name)
    assert generations.judge_record("a", 6, LATER) is NEW
    generations.begin_next(LATER)
    assert generations.judge_record("a", 8, LATER + 1) is verdict


def test_a_view_that_follows_another_watcher_calls_for_a_new_generation() -> None:
    """The fold drops changes that are not above those of the watcher it follows. A view does not prove that this watcher runs."""
    generations = begun()
    assert generations.judge_view("z", 5, 0) is NEW
    assert generations.judge_view("z", 4, 0) is IGNORE
    assert generations.judge_view("m", 5, 0) is IGNORE


def elected(czxid: int, *seen: int) -> Generations:
    """Return an elected watcher that has begun a generation."""
    generations = Generations("m", term=czxid)
    for generation in seen:
        generations.observe_generation(generation)
    generations.begin_next(0)
    return generations


@pytest.mark.parametrize(
    ("czxid", "seen", "generation"),
    [
        (900, 41, 900),
        (900, 900, 901),  # a leader that wrote more than one generation in its term
        (900, 41_000, 41_001),  # the election's ensemble was recreated
        (0, 0, 1),
    ],
)
def test_an_elected_watchers_generation_is_at_least_its_znodes_czxid(
    czxid: int, seen: int, generation: int
) -> None:
    """And above all that were seen, whatever czxids the election's ensemble assigns."""
    generations = elected(czxid, seen)
    assert generations.generation == generation
    generations.begin_next(0)
    assert generations.generation == generation + 1


@pytest.mark.parametrize("now_ms", [0, LATER])
@pytest.mark.parametrize("watcher", ["a", "z"])
def test_an_elected_watcher_never_gives_way(watcher: str, now_ms: int) -> None:
    """New or not, and whatever the other's name: it answers with a new generation, or ignores a deposed watcher."""
    assert elected(900).judge_record(watcher, 899, now_ms) is IGNORE
    assert elected(900).judge_record(watcher, 900, now_ms) is NEW
    assert elected(900).judge_record(watcher, 901, now_ms) is NEW
    assert elected(900).judge_view(watcher, 899, now_ms) is IGNORE
    assert elected(900).judge_view(watcher, 900, now_ms) is NEW


def test_an_elected_watcher_does_not_race_one_that_takes_no_part_in_the_election() -> None:
    """It answers rarely, since each answer costs a resync."""
    generations = elected(900)
    assert generations.judge_record("a", 901, 0) is NEW
    generations.begin_next(0)
    assert generations.judge_record("a", 903, 1) is IGNORE
    assert generations.judge_view("a", 903, 2) is IGNORE
    assert generations.judge_record("a", 903, CONTEST_MS) is NEW
    generations.begin_next(CONTEST_MS)
    assert generations.generation == 904


def test_before_its_first_change_a_watcher_does_not_compete() -> None:
    """While the source cannot be reached there is nothing to contest; but what was seen counts."""
    for judge, name in ((Generations.judge_record, "z"), (Generations.judge_view, "")):
        generations = Generations("m")
        assert judge(generations, name, 7, 0) is IGNORE
        generations.begin_next(0)
        assert generations.generation == 8
