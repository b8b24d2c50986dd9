"""Run the story: let each step happen, wait until all is quiet, and note what it came to."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from kazoo.exceptions import KazooException

from kcm.demo.comparison import Comparison, StepOutcome
from kcm.demo.steps import STORY

if TYPE_CHECKING:
    from kcm.demo.scene import Scene
    from kcm.demo.screen import Screen
    from kcm.demo.steps import StoryStep
    from kcm.demo.story_state import StoryState

BASELINE_TITLE = "the cluster as it starts, without topics"
POLL_S = 0.05  # how often it is checked, between steps, that all still runs


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryPace:
    """How long the story waits; its steps are the same at any pace."""

    quiet_s: float
    """For how long neither side may change before they are compared."""
    look_s: float
    """Time for the viewer between two steps."""
    deadline_s: float
    """Until when a step must have come to its end."""


UNHURRIED = StoryPace(quiet_s=1.0, look_s=3.0, deadline_s=45.0)
FAST = StoryPace(quiet_s=0.4, look_s=0.0, deadline_s=45.0)


class Storyteller:
    """The story on one scene."""

    def __init__(self, scene: Scene, story: StoryState, screen: Screen, pace: StoryPace) -> None:
        """Run it at this pace on this screen."""
        self._scene = scene
        self._story = story
        self._screen = screen
        self._pace = pace
        self._comparison = Comparison(
            scene.cluster.truth,
            scene.cluster.kafka,
            scene.monitor,
            quiet_s=pace.quiet_s,
            deadline_s=pace.deadline_s,
            check=scene.check,
        )
        story.steps = 1 + len(STORY)

    def run(self) -> None:
        """Run all steps, the baseline first; end early when a step could not be done at all."""
        outcome = self._begin()
        for number, step in enumerate(STORY, start=2):
            if outcome.truth is None:
                return
            self._announce(number, step.title)
            outcome = self._run_step(step, outcome)
            self._note(outcome)
            if step.linger:
                self._linger()

    def _begin(self) -> StepOutcome:
        """Note what the cluster is before anything is done to it, and count from there."""
        self._announce(1, BASELINE_TITLE)
        brokers = tuple(self._scene.cluster.brokers)
        first = self._comparison.settle("", lambda now: now.brokers == brokers)
        if first.truth is not None:
            self._scene.cluster.truth.begin(first.truth.epoch)
            self._scene.monitor.begin()
        outcome = self._comparison.settle(
            "nothing yet", lambda now: now.brokers == brokers and now.elections == 0
        )
        # What is compared here has long been true, so there is no delay to measure.
        outcome = replace(outcome, delay_ms=None)
        self._note(outcome)
        self._linger()
        return outcome

    def _run_step(self, step: StoryStep, previous: StepOutcome) -> StepOutcome:
        """Do what the step does and wait for what comes of it."""
        before = previous.truth
        if before is None:
            return StepOutcome(done=step.title, problem="ZooKeeper could not be read")
        try:
            done = step.act(self._scene.cluster, before)
        except (KafkaException, KazooException, TimeoutError) as error:
            return StepOutcome(done=step.title, problem=f"it could not be done: {error}")
        return self._comparison.settle(
            done,
            lambda now: step.expected(before, now),
            quiet_s=step.quiet_s,
            ask_kafka=step.ask_kafka,
        )

    def _announce(self, number: int, title: str) -> None:
        self._story.step, self._story.title = number, title
        self._screen.step()

    def _note(self, outcome: StepOutcome) -> None:
        self._story.outcomes.append(outcome)
        self._screen.outcome(len(self._story.outcomes), outcome)

    def _linger(self) -> None:
        """Leave the viewer time, and notice what dies meanwhile."""
        until = time.monotonic() + self._pace.look_s
        while time.monotonic() < until:
            self._scene.check()
            time.sleep(POLL_S)
