"""What the demo's story records, and in which words."""

from __future__ import annotations

import re

from kcm.demo.comparison import StepOutcome
from kcm.demo.story_state import StoryState


def _words(story: StoryState) -> list[str]:
    return [re.sub(r"^\[ *\d+\.\d s\] ", "", line) for line in story.lines]


def test_the_story_has_a_line_for_each_start_and_each_outcome() -> None:
    """Each start, its end, each step and its outcome is a line; a failure names its problem."""
    story = StoryState(steps=2)
    component = story.starting("ZooKeeper 3.8")
    assert component.ready_s is None
    story.ready(component)
    story.begin("a broker is killed")
    story.end(StepOutcome(done="broker 2 killed", delay_ms=312.4))
    story.begin("it comes back")
    story.end(StepOutcome(done="broker 2 back", problem="DIFFERENT: epoch"))
    assert _words(story) == [
        "starting ZooKeeper 3.8",
        "ZooKeeper 3.8 ready after 0.0 s",
        "step 1/2: a broker is killed",
        "step 1/2 done: broker 2 killed: every figure equal, shown after 312 ms",
        "step 2/2: it comes back",
        "step 2/2 done: broker 2 back: DIFFERENT: epoch",
    ]


def test_the_last_delay_and_the_median_delay_are_shown() -> None:
    """Steps without a delay count for neither."""
    story = StoryState()
    assert story.delay_words == "not measured yet"
    for delay_ms in (100.0, 900.0, None, 300.0):
        story.end(StepOutcome(done="x", delay_ms=delay_ms))
    assert story.delay_words == "300 ms (p50 300 ms)"
