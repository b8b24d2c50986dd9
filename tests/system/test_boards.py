"""The boards on the demo's story: a real Prometheus scrapes it, and signals move when they should.

The rule: a signal that names a step of the demo moves in that step; what never moves names none.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dashboards.alerts import rules
from dashboards.signal import DemoStep, Signal
from dashboards.signals import SIGNALS
from kcm.stack.prometheus import Prometheus, find_prometheus
from kcm.story.board import Board
from kcm.story.scene import CLUSTER_NAME, Scene
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(
    find_prometheus() is None, reason="the program prometheus is not installed"
)

SCRAPE_S = 0.5
"""Shorter than any step; what is over between two scrapes is not seen by anybody's Prometheus."""

WATCH_S = 0.02
STEP_S = 1

MOVED = [signal for signal in SIGNALS if signal.moved_by is not None]


class Told(NamedTuple):
    """The story as Prometheus saw it: where to ask, and when each step began."""

    url: str
    began: dict[str, float]
    """Title -> Unix time, in the order of the steps."""
    ended: float

    def window(self, step: DemoStep) -> tuple[float, float]:
        """Return from when to when the step went on."""
        titles = list(self.began)
        place = titles.index(step)
        after = self.began[titles[place + 1]] if place + 1 < len(titles) else self.ended
        return self.began[step], after

    def values(self, signal: Signal, start: float, end: float) -> set[str]:
        """Return the different answers to the signal's query, one for each second."""
        expr = signal.for_fleet().on_board() if signal.name in _FLEET else signal.on_board()
        first, last = math.floor(start), math.ceil(end)
        found = _get(
            self.url, "query_range", query=_chosen(expr), start=first, end=last, step=STEP_S
        )
        at: dict[int, list[str]] = {second: [] for second in range(first, last + 1)}
        for each in found:
            for moment, value in each["values"]:
                at[round(moment)].append(f"{sorted(each['metric'].items())} {value}")
        return {"; ".join(sorted(answers)) for answers in at.values()}


def _get(url: str, what: str, **asked: object) -> list[Any]:
    with urllib.request.urlopen(
        f"{url}/api/v1/{what}?{urllib.parse.urlencode(asked)}", timeout=10
    ) as answer:
        result: list[Any] = json.load(answer)["data"]["result"]
    return result


_FLEET = {"clusters_in_trouble", "trouble"}


def _chosen(expr: str) -> str:
    return expr.replace("$cluster", CLUSTER_NAME).replace("$broker", ".+")


class _Titles:
    """Notes when each step begins, by looking at the board that the screen shows."""

    def __init__(self, board: Board) -> None:
        self.began: dict[str, float] = {}
        self._board = board
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="titles", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(WATCH_S):
            self.began.setdefault(self._board.title, time.time())


FIRED = {
    "KafkaPartitionsOffline": DemoStep.KILL_CONTROLLER,
    "KafkaControllerFlapping": DemoStep.DEPOSE,
    "KafkaLeadersCannotReturn": DemoStep.KILL_FOLLOWER,
    "KafkaLeadersImbalanced": DemoStep.BRING_BACK,
}
"""Alerts whose failure the story brings, and the step by whose end they fire."""

RESOLVED = {"KafkaPartitionsOffline", "KafkaLeadersCannotReturn", "KafkaLeadersImbalanced"}
"""Those that end with the story; that of elections lasts for its window."""

NEVER = {"KafkaControllerGhost", "KafkaUncleanLeaderElection", "KcmBlind", "KcmBehind"}


def _hasty_rules(folder: Path) -> Path:
    """Write the rules with a second in place of each waiting time; return the file."""
    text = re.sub(r"^( +(?:for|keep_firing_for)): .*$", r"\1: 1s", rules(), flags=re.MULTILINE)
    folder.mkdir(exist_ok=True)
    path = folder / "rules.yaml"
    path.write_text(text)
    return path


def _firing(alert: str) -> str:
    return f'ALERTS{{alertname="{alert}", alertstate="firing"}}'


@pytest.fixture(scope="module")
def told(scene: Scene, board: Board, request: pytest.FixtureRequest) -> Iterator[Told]:
    """The story, scraped from before its beginning; the first module of the folder tells it."""
    assert not board.outcomes, "the story was told before Prometheus was there"
    address = scene.pipeline.exporter_url.removeprefix("http://")
    folder = scene.supervisor.folder / "boards"
    server = Prometheus(
        scene.supervisor,
        folder,
        targets={"kcm": [address]},
        rule_files=[_hasty_rules(folder)],
        scrape_interval_s=SCRAPE_S,
    )
    server.start()

    def scraped_at() -> float:
        newest = _get(server.url, "query", query="max(timestamp(kcm_cluster_up))")
        return float(newest[0]["value"][1]) if newest else 0.0

    first = wait_until(scraped_at)
    wait_until(scraped_at, lambda newest: newest > first + 2 * STEP_S)
    titles = _Titles(board)
    outcomes = request.getfixturevalue("outcomes")
    titles.close()
    assert not outcomes[-1].problem
    ended = time.time()
    wait_until(scraped_at, lambda newest: newest > ended)
    yield Told(server.url, titles.began, ended)
    server.stop()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("signal", MOVED, ids=lambda signal: signal.name)
def test_a_signal_moves_in_the_step_of_the_demo_that_it_names(told: Told, signal: Signal) -> None:
    """Within the step, from its first second on, there is more than one answer."""
    assert signal.moved_by is not None
    start, end = told.window(signal.moved_by)
    seen = told.values(signal, start, end)
    assert len(seen) > 1, f"{signal.name} in {end - start:.0f} s: {seen}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("alert", FIRED)
def test_an_alert_fires_on_its_real_failure(told: Told, alert: str) -> None:
    """By the end of the step that brings the failure the alert fires."""
    start, end = told.window(FIRED[alert])
    asked = {"query": _firing(alert), "start": math.floor(start), "end": math.ceil(end) + 1}
    assert _get(told.url, "query_range", step=STEP_S, **asked), alert


@pytest.mark.parametrize("alert", sorted(RESOLVED))
def test_an_alert_resolves_after_the_failure(told: Told, alert: str) -> None:
    """When the story has ended well, the alert ends."""
    wait_until(lambda: _get(told.url, "query", query=_firing(alert)), lambda firing: firing == [])


@pytest.mark.parametrize("alert", sorted(NEVER))
def test_an_alert_is_silent_about_what_did_not_happen(told: Told, alert: str) -> None:
    """Nothing in the story is its failure, however impatient the rule is."""
    start = math.floor(min(told.began.values()))
    asked = {"query": _firing(alert), "start": start, "end": math.ceil(told.ended)}
    assert _get(told.url, "query_range", step=STEP_S, **asked) == []
