"""The drill, scraped by a real Prometheus with the shipped rules and short times.

What the demo does not move moves here, every alert fires on its real failure, and each
ends when that is over.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet

from dashboards.alerts.rules import ALERTS
from dashboards.signals.signal import Signal
from kcm.demo.run import CLUSTER_NAME, StepOutcome
from kcm.servers.jars import Jars
from tests.support.prometheus_answers import SeenStory, chosen
from tests.support.signals import SIGNALS
from tests.support.waiting import wait_until
from tests.system.drill import Drill
from tests.system.drill_steps import STEPS, Step
from tests.system.hasty_rules import hasty
from tests.system.noted_story import ZooKeeperRun
from tests.system.signal_steps import MOVED, DrillStep

pytestmark = [
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="the program prometheus is not installed"
    ),
    pytest.mark.timeout(1500),
]

ALWAYS = {
    DrillStep.CREATE,
    DrillStep.FLAP,
    DrillStep.UNCLEAN,
    DrillStep.BLIND,
    DrillStep.UNSERVED,
}
"""The steps that `make test` does; `make test-all` does them all."""

OF_KRAFT = {
    "KafkaBrokerFenced",
    "KafkaBrokerMetadataBehind",
    "KafkaControllerSilent",
    "KafkaFenceStorm",
    "KafkaGoneNodeRegistered",
    "KafkaIsrEmpty",
    "KafkaPartitionsRecovering",
    "KafkaQuorumCommitsStopped",
    "KafkaQuorumMarginLost",
    "KafkaSnapshotOld",
    "KafkaVoterBehind",
    "KcmQuorumNotKnown",
}
"""Alerts that only a KRaft cluster can have; the drill's has ZooKeeper."""

NOT_PLAYED = OF_KRAFT | {
    "KafkaMigratingToKraft",
    "KcmCheckpointFull",
    "KcmClocksDisagree",
    "KcmFoldRestarts",
    "KcmMinIsrNotKnown",
    "KcmPathsDenied",
    "KcmStandbyMissing",
}
"""All servers of the drill have one clock, which nobody may set, no kubelet and no KRaft controller; its
cluster has the setting and one watcher, is denied only what Kafka itself denies, and its fold is killed
as a process."""


def _of(title: DrillStep, *rest: object, name: str = "") -> ParameterSet:
    """Return the parameters of a test about this step."""
    marks = [] if title in ALWAYS else [pytest.mark.full]
    id_ = "-".join(filter(None, [title.name, name]))
    return pytest.param(title, *rest, marks=marks, id=id_)


STEP = [_of(step.title) for step in STEPS]
MOVES = [
    _of(step, SIGNALS[name], name=name)
    for step, names in MOVED.items()
    if isinstance(step, DrillStep)
    for name in names
]
FIRED = [_of(step.title, alert, name=alert) for step in STEPS for alert in step.fires]
FORGOTTEN_S = 180.0
"""The shortened window, and the recovery time of a busy machine."""

_FILL = chosen(CLUSTER_NAME)


class Done(NamedTuple):
    """The drill as Prometheus saw it, and what went wrong in which step."""

    seen: SeenStory
    problems: dict[str, str]
    left: list[str]
    """Alerts that still fired at the end."""


@pytest.fixture(scope="module")
def drill(scene: ZooKeeperRun, outcomes: list[StepOutcome], jars: Jars) -> Iterator[Drill]:
    """The servers of the demo, for the drill: nothing else uses them after it."""
    assert outcomes
    drill = Drill(scene, jars)
    try:
        drill.start()
        yield drill
    finally:
        drill.close()


@pytest.fixture(scope="module")
def done(drill: Drill, request: pytest.FixtureRequest) -> Done:
    """The drill's steps that the chosen tests ask about, done once; Prometheus stays to be asked."""
    asked = {_title(item) for item in request.session.items} | {DrillStep.CREATE}
    return _do(drill, [step for step in STEPS if step.title in asked])


def _title(item: pytest.Item) -> object:
    """Return the step that a test is about; None if it is about none."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("title")


def _do(drill: Drill, steps: Sequence[Step]) -> Done:
    began: dict[str, float] = {}
    problems: dict[str, str] = {}
    for step in steps:
        try:
            drill.await_silent(*step.fires, deadline_s=FORGOTTEN_S)
            drill.await_quiet()  # a broker may have lost its session meanwhile
            began[step.title] = time.time()
            step.act(drill)
            drill.await_quiet()
        except Exception as problem:  # reported by the tests; the next step goes on
            began.setdefault(step.title, time.time())
            problems[step.title] = f"{type(problem).__name__}: {problem}"
            # Seen even if the drill comes to no end.
            logging.getLogger(__name__).exception(step.title)
            _go_on(drill, step, problems)
    ended = time.time()
    seen = SeenStory(drill.prometheus.url, began, ended)
    try:
        firing = 'ALERTS{alertstate="firing"}'
        wait_until(lambda: drill.seen(firing), lambda seen: seen == [], deadline_s=FORGOTTEN_S)
    except AssertionError:
        return Done(seen, problems, drill.seen(firing))
    return Done(seen, problems, [])


def _go_on(drill: Drill, failed: Step, problems: dict[str, str]) -> None:
    """Bring the servers back for the next step; AssertionError when no step could follow."""
    try:
        assert failed.title != DrillStep.CREATE, "all other steps need its topics"
        drill.bring_back()
        drill.await_quiet()
    except Exception as problem:
        raise AssertionError(f"the drill ends after {problems}: {problem}") from problem


@pytest.mark.parametrize("title", STEP)
def test_each_failure_is_caused_reported_and_recovered_from(done: Done, title: DrillStep) -> None:
    """The step has no problem, and afterwards the cluster and the monitor are healthy again."""
    assert done.problems.get(title, "") == ""


@pytest.mark.parametrize(("title", "signal"), MOVES)
def test_a_signal_changes_in_its_step_of_the_drill(
    done: Done, title: DrillStep, signal: Signal
) -> None:
    """Within the step a series of it has more than one value."""
    expr = _FILL(hasty(signal, signal.on_board()))
    assert done.seen.moved(signal, expr, title), done.seen.answers(expr, title)


@pytest.mark.parametrize(("title", "alert"), FIRED)
def test_an_alert_fires_on_its_real_failure(done: Done, title: DrillStep, alert: str) -> None:
    """While the failure lasts, or as soon as it is counted, the alert fires."""
    assert done.seen.fired(alert, title)


def test_every_alert_resolves_after_its_failure(done: Done) -> None:
    """Once all failures are over and out of every window, nothing fires."""
    assert done.left == []


def test_every_alert_is_fired_by_a_real_failure() -> None:
    """No rule that one machine can trigger is tested by synthetic series alone."""
    fired = {alert for step in STEPS for alert in step.fires}
    assert fired == {alert.name for alert in ALERTS} - NOT_PLAYED
