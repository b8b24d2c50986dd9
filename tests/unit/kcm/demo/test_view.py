"""The demo's live picture: the truth next to what the monitor shows."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from kcm.demo.comparison import StepOutcome
from kcm.demo.monitor import LAST_VACANCY
from kcm.demo.scene import Scene
from kcm.demo.view import picture
from tests.unit.kcm.demo.figures import HEALTHY


def _rendered(scene: Scene) -> str:
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as captured:
        console.print(picture(scene))
    return captured.get()


def _row(text: str, start: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.strip("│ ").startswith(start))
    return line.strip("│ ").removeprefix(start).split()


def test_starting_servers_are_shown_until_the_first_step(described: Scene) -> None:
    """Each server is either ready, with the seconds it took, or starting."""
    story = described.story
    story.steps = 9
    story.ready(story.starting("ZooKeeper 3.8"))
    story.starting("watcher, Spark, exporter")
    text = _rendered(described)
    assert _row(text, "✔")[:2] == ["ZooKeeper", "3.8"]
    assert _row(text, "…")[:3] == ["watcher,", "Spark,", "exporter"]
    story.begin("a broker is killed")
    text = _rendered(described)
    assert "step 1/9: a broker is killed" in text
    assert "ZooKeeper" not in text


def test_figures_brokers_and_outcomes_are_shown(described: Scene) -> None:
    """The monitor's figures are in its column, a dead broker is gone, each step has its outcome."""
    story, monitor = described.story, described.monitor
    story.steps = 9
    monitor.observations.add(1.0, replace(HEALTHY, brokers=(0, 1), under_replicated=21))
    monitor.scrape = {(LAST_VACANCY, ""): 0.0123}
    story.begin("a broker is killed")
    story.end(StepOutcome(done="broker 2 killed", delay_ms=312.4))
    text = _rendered(described)
    assert _row(text, "under-replicated")[:2] == ["-", "21"]
    assert _row(text, "last vacancy at most")[0] == "12"
    assert _row(text, "1  broker 2 killed") == ["shown", "after", "312", "ms", "ok"]
    assert "controller" in text
