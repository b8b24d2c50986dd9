"""The boards on the demo's story: a real Prometheus scrapes it, and signals move when they should.

A signal that `signal_steps` assigns to a step of the demo changes in that step.
"""

from __future__ import annotations

import itertools
import math
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dashboards.alerts.rules import rules
from kcm.demo.run import CLUSTER_NAME
from kcm.servers.prometheus import Prometheus
from tests.support.prometheus_answers import LOOK_S, SeenStory, ask, chosen, firing
from tests.support.signals import SIGNALS
from tests.support.waiting import wait_until
from tests.system.noted_story import NotedStory, ZooKeeperRun
from tests.system.signal_steps import STEP_OF, DemoStep

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="the program prometheus is not installed"
)

SCRAPE_S = 0.5
"""Shorter than any step; a state that ends between two scrapes is invisible to any Prometheus."""

MOVED = [name for name, step in STEP_OF.items() if isinstance(step, DemoStep)]

FIRED = {
    "KafkaPartitionsOffline": DemoStep.KILL_CONTROLLER,
    "KafkaControllerFlapping": DemoStep.DEPOSE,
    "KafkaLeadersCannotReturn": DemoStep.KILL_CONTROLLER,
}
"""Alerts whose failure the story brings, and the step by whose end they fire."""

RESOLVED = {"KafkaPartitionsOffline", "KafkaLeadersCannotReturn"}
"""Those that end with the story; that of elections lasts for its window. The drill has the rest."""

AS_SHIPPED = {"KcmBlind"}
"""A scrape may take half a second here: on a busy machine two in a row may fail, which leaves the cluster unseen for more than one."""

NEVER = {"KafkaControllerZombie", "KafkaUncleanLeaderElection", "KcmBlind", "KcmBehind"}


def _hasty_rules(folder: Path) -> Path:
    """Write the rules with a second in place of each waiting time but those of `AS_SHIPPED`; return the file."""
    shipped = yaml.safe_load(rules())
    for rule in itertools.chain.from_iterable(group["rules"] for group in shipped["groups"]):
        if rule["alert"] not in AS_SHIPPED:
            rule.update({name: "1s" for name in ("for", "keep_firing_for") if name in rule})
    folder.mkdir(exist_ok=True)
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump(shipped))
    return path


_FLEET = {"clusters_in_trouble", "trouble"}
_FILL = chosen(CLUSTER_NAME)


@pytest.fixture(scope="module")
def seen(
    scene: ZooKeeperRun, board: NotedStory, request: pytest.FixtureRequest
) -> Iterator[SeenStory]:
    """The story, scraped from before its beginning; the first module of the folder plays it."""
    assert not board.outcomes, "the story was played before Prometheus was there"
    folder = scene.supervisor.folder / "boards"
    server = Prometheus(
        scene.supervisor,
        folder,
        targets={"kcm": scene.pipeline.metrics_addresses},
        rule_files=[_hasty_rules(folder)],
        scrape_interval_s=SCRAPE_S,
    )
    server.start()

    def scraped_at() -> float:
        newest = ask(server.url, "query", query="max(timestamp(kcm_cluster_up))")
        return float(newest[0]["value"][1]) if newest else 0.0

    first = wait_until(scraped_at)
    wait_until(scraped_at, lambda newest: newest > first + 2 * SCRAPE_S)

    def await_scrape() -> None:
        now = time.time()
        wait_until(scraped_at, lambda newest: newest > now)

    # The next step may begin as soon as the API shows the last one's end, before it is scraped.
    board.after_each = await_scrape
    outcomes = request.getfixturevalue("outcomes")
    assert not outcomes[-1].problem
    yield SeenStory(server.url, board.step_began, time.time())
    server.stop()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MOVED)
def test_a_signal_changes_in_its_step_of_the_demo(seen: SeenStory, name: str) -> None:
    """Within the step, from its first second on, a series of it has more than one value."""
    signal, step = SIGNALS[name], STEP_OF[name]
    asked = signal.for_fleet() if name in _FLEET else signal
    expr = _FILL(asked.on_board())
    assert seen.moved(signal, expr, step), seen.answers(expr, step)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("alert", FIRED)
def test_an_alert_fires_on_its_real_failure(seen: SeenStory, alert: str) -> None:
    """By the end of the step that brings the failure, or once it was evaluated, the alert fires."""
    assert seen.fired(alert, FIRED[alert])


@pytest.mark.parametrize("alert", sorted(RESOLVED))
def test_an_alert_resolves_after_the_failure(seen: SeenStory, alert: str) -> None:
    """After a successful story the alert ends."""
    wait_until(lambda: ask(seen.url, "query", query=firing(alert)), lambda firing: firing == [])


@pytest.mark.parametrize("alert", sorted(NEVER))
def test_an_alert_is_silent_without_its_failure(seen: SeenStory, alert: str) -> None:
    """The story does not cause its failure, even where the waiting times of the rule are shortened."""
    start = math.floor(min(seen.began.values()))
    asked = {"query": firing(alert), "start": start, "end": math.ceil(seen.ended)}
    assert ask(seen.url, "query_range", step=LOOK_S, **asked) == []
