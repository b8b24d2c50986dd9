"""Run the story: do each step, wait until all is quiet, and record the outcome."""

import time
from dataclasses import dataclass, replace

from confluent_kafka import KafkaException
from kazoo.exceptions import KazooException

from kcm.demo.comparison import StepOutcome
from kcm.demo.scene import Scene
from kcm.demo.steps import STORY, StoryStep
from kcm.demo.truth import TrueFigures

BASELINE_TITLE = "the cluster as it starts, without topics"
STALL_QUIET_S = 0.4  # at any pace: while a broker hangs, its clients wait
POLL_S = 0.05  # how often all processes are checked between steps


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryPace:
    """How long the story waits; its steps are the same at any pace."""

    quiet_s: float
    """For how long neither side may change before they are compared."""
    look_s: float
    """Time for the viewer between two steps."""
    deadline_s: float = 45.0
    """How long a step may take to finish."""


UNHURRIED = StoryPace(quiet_s=1.0, look_s=3.0)
FAST = StoryPace(quiet_s=0.4, look_s=0.0)


class Storyteller:
    """The story on one scene."""

    def __init__(self, scene: Scene, pace: StoryPace) -> None:
        self._scene = scene
        self._story = scene.story
        self._pace = pace
        self._comparison = scene.comparison(quiet_s=pace.quiet_s, deadline_s=pace.deadline_s)
        self._story.steps = 1 + len(STORY)

    def run(self) -> None:
        """Run the baseline and then all steps; end early when a step could not be done at all."""
        self._story.begin(BASELINE_TITLE)
        outcome = self._compare_baseline()
        self._story.end(outcome)
        self._linger()
        for step in STORY:
            if outcome.truth is None:
                return
            self._story.begin(step.title)
            outcome = self._run_step(step, outcome.truth)
            self._story.end(outcome)
            if not step.stalls:
                self._linger()

    def _compare_baseline(self) -> StepOutcome:
        """Compare the cluster before anything is done to it, and count elections from there."""
        brokers = tuple(self._scene.cluster.brokers)
        first = self._comparison.settle("", lambda now: now.brokers == brokers)
        if first.truth is not None:
            self._scene.cluster.truth.begin(first.truth.epoch)
            self._scene.monitor.begin()
        outcome = self._comparison.settle(
            "nothing yet", lambda now: now.brokers == brokers and now.elections == 0
        )
        # These figures have been true for long, so there is no delay to measure.
        return replace(outcome, delay_ms=None)

    def _run_step(self, step: StoryStep, before: TrueFigures) -> StepOutcome:
        try:
            done = step.act(self._scene.cluster, before)
        except (KafkaException, KazooException, TimeoutError) as error:
            return StepOutcome(done=step.title, problem=f"it could not be done: {error}")
        return self._comparison.settle(
            done,
            lambda now: step.expected(before, now),
            quiet_s=STALL_QUIET_S if step.stalls else None,
            ask_kafka=not step.stalls,
        )

    def _linger(self) -> None:
        """Give the viewer time, and detect processes that die meanwhile."""
        until = time.monotonic() + self._pace.look_s
        while time.monotonic() < until:
            self._scene.supervisor.check()
            time.sleep(POLL_S)
