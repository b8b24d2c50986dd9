"""The demo's table and last line: a difference is visible and is a failure."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from kcm.demo.comparison import StepOutcome
from kcm.demo.table import (
    DIFFERENT,
    FULL_WIDTH,
    ending,
    figures_text,
    outcome_table,
    wrong_figures,
)
from kcm.demo.truth import TrueFigures

TRUTH = TrueFigures(
    controller=0,
    epoch=7,
    elections=3,
    brokers=(0, 1),
    leaders=((0, 2), (1, 1)),
    not_led=((2, 2),),
    topics=2,
    partitions=5,
    offline=1,
    under_replicated=2,
    imbalance=2,
)
GOOD = StepOutcome(done="broker 2 killed", truth=TRUTH, shown=TRUTH, delay_ms=312.4)
BAD = StepOutcome(
    done="/controller deleted 3 times in a row",
    truth=TRUTH,
    shown=replace(TRUTH, elections=2),
    problem="DIFFERENT: elections",
)


def _rendered(*outcomes: StepOutcome, width: int = FULL_WIDTH) -> str:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(outcome_table(outcomes, width=width))
    return captured.get()


def test_the_table_shows_both_sides_delay_and_verdict() -> None:
    """A step that succeeded has its figures twice, its delay, and ok."""
    text = _rendered(GOOD)
    assert text.count("controller 0  epoch 7") == 2
    assert text.count("elections 3  brokers 0,1") == 2
    assert "312" in text
    assert "ok" in text
    assert "DIFFERENT" not in text


def test_the_table_marks_a_difference() -> None:
    """The row shows the difference, and the figure is marked on both sides."""
    text = _rendered(GOOD, BAD)
    assert "DIFFERENT" in text
    assert "elections 2" in text
    wrong = wrong_figures(BAD)
    assert wrong == ["elections"]
    for figures in (BAD.truth, BAD.shown):
        marked = figures_text(figures, wrong)
        spans = [
            marked.plain[s.start : s.end].strip() for s in marked.spans if s.style == DIFFERENT
        ]
        assert len(spans) == 1
        assert spans[0].startswith("elections ")


def test_a_narrow_table_keeps_every_verdict() -> None:
    """On 80 columns equal figures are written once, a difference twice, and nothing is cut."""
    text = _rendered(GOOD, BAD, width=80)
    assert "the same" in text
    assert text.count("elections 3") == 2
    assert text.count("elections 2") == 1
    assert "DIFFERENT" in text
    assert " ok " in text


def test_a_step_that_could_not_be_done_has_no_figures() -> None:
    """A step without figures is a row with dashes and its problem."""
    assert "it could not be done" in _rendered(
        StepOutcome(done="x", problem="it could not be done")
    )


def test_the_last_line_of_a_good_story() -> None:
    """The line has the median and the largest delay."""
    other = replace(GOOD, delay_ms=500.0)
    assert ending([GOOD, other, other], steps=3) == (
        "demo ended well: 3 steps, every figure equal, shown after p50 500 ms, at most 500 ms"
    )


def test_the_last_line_of_a_failed_story_names_the_step() -> None:
    """One failed step fails the story; the line names it and the problem."""
    line = ending([GOOD, BAD], steps=2)
    assert line.startswith("demo FAILED: step 2 ")
    assert "DIFFERENT: elections" in line


def test_a_story_that_ended_early_is_a_failure() -> None:
    """Steps that were not run do not count as passed."""
    assert "FAILED" in ending([GOOD], steps=9)
