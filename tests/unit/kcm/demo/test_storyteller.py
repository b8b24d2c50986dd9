"""The course of the story: a baseline, the steps, and an early end where a step could not be done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from kazoo.exceptions import ConnectionLoss

from kcm.demo import storyteller
from kcm.demo.comparison import Comparison
from kcm.demo.observations import Observations
from kcm.demo.scene import Scene
from kcm.demo.steps import StoryStep
from kcm.demo.story_state import StoryState
from kcm.demo.storyteller import BASELINE_TITLE, StoryPace, Storyteller
from kcm.demo.truth import TrueFigures
from pipeline.runtime import EnvironmentProblemError
from tests.support.waiting import DEADLINE_S
from tests.unit.kcm.demo.figures import HEALTHY

EPOCH = 7
AT_ONCE = StoryPace(quiet_s=0.0, look_s=0.0, deadline_s=0.2)


class FakeScene:
    """A cluster and a monitor whose figures the steps set; everything else is the shipped code."""

    def __init__(self) -> None:
        self.figures = replace(HEALTHY, elections=None, epoch=EPOCH)
        self.truth = Observations()
        self.shown = Observations()
        self.did: list[str] = []
        self.asked_kafka = 0
        self.cluster = SimpleNamespace(
            brokers=dict.fromkeys(HEALTHY.brokers), truth=SimpleNamespace(begin=self._truth_begins)
        )
        self.monitor = SimpleNamespace(begin=lambda: self.did.append("monitor begins"))
        self.supervisor = SimpleNamespace(check=self.check)
        self.story = StoryState()
        self.set(self.figures)

    def set(self, truth: TrueFigures, shown: TrueFigures | None = None) -> None:
        """Set the truth, and what the monitor shows; by default, the same."""
        self.figures = truth
        now = time.monotonic()
        self.truth.add(now, truth)
        self.shown.add(now, truth if shown is None else shown)

    def check(self) -> None:
        """Report that all processes live."""

    def comparison(self, *, quiet_s: float, deadline_s: float) -> Comparison:
        """Return the comparison of both sides."""
        self.did.append(f"compared after {quiet_s:g} s, within {deadline_s:g} s")
        return Comparison(
            truth=self.truth,
            shown=self.shown,
            kafka=self._kafka,
            status=lambda: "live",
            check=self.check,
            quiet_s=quiet_s,
            deadline_s=deadline_s,
        )

    def _truth_begins(self, epoch: int | None) -> None:
        self.did.append(f"truth begins at {epoch}")
        self.set(replace(self.figures, elections=0))

    def _kafka(self) -> TrueFigures:
        self.asked_kafka += 1
        return replace(self.figures, epoch=None, elections=None)


Act = Callable[[FakeScene], None]


def step(title: str, act: Act, **fields: Any) -> StoryStep:
    """Return a step that does this to the scene, and accepts any result."""

    def play(cluster: Any, before: TrueFigures) -> str:
        assert before.elections is not None
        act(cluster.scene)
        return f"{title} done"

    return StoryStep(title=title, act=play, **{"expected": lambda _before, _now: True, **fields})


class StoryRun:
    """A story that was run."""

    def __init__(self) -> None:
        self.scene = FakeScene()
        self.scene.cluster.scene = self.scene
        self.state = self.scene.story

    @contextmanager
    def of(self, monkeypatch: pytest.MonkeyPatch, *steps: StoryStep) -> Iterator[None]:
        """Replace the steps of the story by these."""
        with monkeypatch.context() as patched:
            patched.setattr(storyteller, "STORY", steps)
            yield

    def run(
        self, monkeypatch: pytest.MonkeyPatch, *steps: StoryStep, pace: StoryPace = AT_ONCE
    ) -> None:
        """Run a story with these steps."""
        with self.of(monkeypatch, *steps):
            Storyteller(cast("Scene", self.scene), pace).run()

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        """For each step, what was done and the problem."""
        return [(each.done, each.problem) for each in self.state.outcomes]


@pytest.fixture
def story_run() -> StoryRun:
    """A story that begins with a healthy cluster."""
    return StoryRun()


def test_a_story_begins_with_a_baseline_of_the_cluster(
    story_run: StoryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides count elections from there, and there is no delay to measure."""
    story_run.run(monkeypatch)
    assert story_run.scene.did == [
        "compared after 0 s, within 0.2 s",
        f"truth begins at {EPOCH}",
        "monitor begins",
    ]
    assert story_run.outcomes == [("nothing yet", "")]
    assert story_run.state.outcomes[0].delay_ms is None
    assert story_run.state.outcomes[0].truth == replace(HEALTHY, elections=0, epoch=EPOCH)
    assert (story_run.state.steps, story_run.state.title) == (1, BASELINE_TITLE)


def test_steps_run_in_order_and_a_failed_one_does_not_end_the_story(
    story_run: StoryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step whose figures differ is a failure, and the story continues."""
    base = replace(HEALTHY, elections=0, epoch=EPOCH)
    wrong = replace(base, offline=3)
    story_run.run(
        monkeypatch,
        step("first", lambda scene: scene.set(replace(base, offline=1))),
        step("second", lambda scene: scene.set(replace(base, offline=2), shown=wrong)),
        step("third", lambda scene: scene.set(base)),
    )
    assert story_run.outcomes[1:] == [
        ("first done", ""),
        ("second done", "DIFFERENT: offline"),
        ("third done", ""),
    ]
    assert story_run.state.steps == 4
    assert [each.delay_ms is None for each in story_run.state.outcomes] == [
        True,
        False,
        True,
        False,
    ]
    assert story_run.state.lines[-2].endswith("step 4/4: third")


def test_a_step_without_its_expected_change_fails(
    story_run: StoryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is compared with the figures before it; a cluster that did nothing is a failure."""
    story_run.run(
        monkeypatch,
        step("nothing", lambda _: None, expected=lambda before, now: now.offline > before.offline),
    )
    assert story_run.outcomes[1:] == [
        ("nothing done", "the cluster did not come to what this step is about")
    ]


@pytest.mark.parametrize(
    "error",
    [
        KafkaException(KafkaError(KafkaError._TRANSPORT)),
        ConnectionLoss("lost"),
        TimeoutError("nobody takes /controller"),
    ],
)
def test_a_step_that_could_not_be_done_ends_the_story(
    error: Exception, story_run: StoryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps after it would start from a different cluster."""

    def fail(_scene: FakeScene) -> None:
        raise error

    story_run.run(monkeypatch, step("bad", fail), step("never", lambda _: None))
    assert story_run.outcomes[1:] == [("bad", f"it could not be done: {error}")]
    assert story_run.state.step == 2


def test_an_unexpected_exception_is_raised_unchanged(
    story_run: StoryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception is raised unchanged."""

    def fail(_scene: FakeScene) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        story_run.run(monkeypatch, step("bad", fail))


def test_a_cluster_that_cannot_be_read_has_no_story(
    story_run: StoryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step is run, and elections are not counted."""
    story_run.scene.truth = Observations()
    story_run.run(monkeypatch, step("never", lambda _: None))
    assert story_run.outcomes == [("nothing yet", "ZooKeeper could not be read")]
    assert story_run.scene.did == ["compared after 0 s, within 0.2 s"]


def test_a_step_with_a_stalled_broker_does_not_wait_for_it(
    story_run: StoryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step uses another quiet time, does not ask the brokers, and is followed by no pause."""
    monkeypatch.setattr(storyteller, "STALL_QUIET_S", 0.01)

    def stall(scene: FakeScene) -> None:
        scene.asked_kafka = 0

    def check_asked(scene: FakeScene) -> None:
        assert scene.asked_kafka == 0

    pace = replace(AT_ONCE, quiet_s=0.1, deadline_s=DEADLINE_S)
    began = time.monotonic()
    story_run.run(
        monkeypatch, step("stall", stall, stalls=True), step("wake", check_asked), pace=pace
    )
    assert [problem for _, problem in story_run.outcomes] == ["", "", ""]
    assert story_run.scene.asked_kafka > 0
    assert time.monotonic() - began < DEADLINE_S


def test_a_process_that_dies_in_the_pause_ends_the_demo(
    story_run: StoryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two steps a death is an error at once; after a step that stalls there is no such pause."""
    monkeypatch.setattr(storyteller, "POLL_S", 0.001)
    monkeypatch.setattr(storyteller, "STALL_QUIET_S", 0.0)
    pace = replace(AT_ONCE, look_s=0.05)

    def end() -> None:
        raise EnvironmentProblemError("dead")

    def die(scene: FakeScene) -> None:
        scene.set(replace(scene.figures, offline=1))
        scene.supervisor.check = end

    story_run.run(monkeypatch, step("stall", die, stalls=True), pace=pace)
    assert story_run.outcomes[1:] == [("stall done", "")]
    other = StoryRun()
    with pytest.raises(EnvironmentProblemError, match="dead"):
        other.run(monkeypatch, step("dies", die), pace=pace)
    assert other.outcomes[1:] == [("dies done", "")]
