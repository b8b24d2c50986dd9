"""The live picture: the story and both sides' figures as one rich renderable."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kcm.cli.event_text import event_text, event_time
from kcm.demo.cluster import WatchedCluster
from kcm.demo.monitor import LAST_VACANCY
from kcm.demo.scene import Scene
from kcm.demo.story_state import Component, StoryState
from kcm.demo.table import shown_value
from kcm.demo.truth import TrueFigures

ROWS = (
    ("controller", "controller"),
    ("epoch", "epoch"),
    ("elections in this story", "elections"),
    ("live brokers", "brokers"),
    ("topics", "topics"),
    ("partitions", "partitions"),
    ("offline", "offline"),
    ("under-replicated", "under_replicated"),
    ("preferred imbalance", "imbalance"),
)
"""The name of a figure on the screen, and its field."""
GOOD, BAD, DIM = "green", "red", "dim"
ZERO_WHEN_HEALTHY = {"offline", "under_replicated", "imbalance"}
SIGNS = {True: Text("✔", GOOD), False: Text("…", DIM)}


def picture(scene: Scene) -> RenderableType:
    """Return the whole picture."""
    story = scene.story
    truth, shown = scene.cluster.truth.observations.figures, scene.monitor.observations.figures
    parts: list[RenderableType] = [_headline(story)]
    if story.step == 0:
        parts.append(_starting(story.components))
    if figures := shown or truth:
        tables = [_figures(scene, truth, shown), _brokers(scene.cluster, figures)]
        parts.append(Columns(tables, padding=(0, 2)))
    if events := scene.monitor.events:
        parts.append(_events(events))
    if story.outcomes:
        parts.append(_outcomes(story))
    return Panel(Group(*parts), title="kcm demo", border_style="blue", box=box.ROUNDED)


def _headline(story: StoryState) -> Text:
    where = f"step {story.step}/{story.steps}: " if story.step else ""
    line = Text(f"{time.monotonic() - story.began:5.1f} s  ", DIM)
    line.append(f"{where}{story.title}", "bold")
    return line


def _starting(components: list[Component]) -> Table:
    table = Table(box=None, show_header=False)
    now = time.monotonic()
    for component in components:
        ready = component.ready_s is not None
        seconds = component.ready_s if ready else now - component.began
        words = "ready after" if ready else "starting"
        table.add_row(SIGNS[ready], component.name, Text(f"{words} {seconds:.1f} s", DIM))
    return table


def _figures(scene: Scene, truth: TrueFigures | None, shown: TrueFigures | None) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    table.add_column("truth", justify="right")
    table.add_column("monitor", justify="right")
    for words, field in ROWS:
        true, seen = _value(truth, field), _value(shown, field)
        # unequal means on its way, or wrong: the step's outcome says which
        style = "" if true == seen else "yellow"
        if true == seen and field in ZERO_WHEN_HEALTHY:
            style = GOOD if seen == "0" else BAD
        table.add_row(words, true, Text(seen, style))
    vacancy_s = scene.monitor.scrape.get((LAST_VACANCY, ""))
    vacancy = "-" if vacancy_s is None else f"{vacancy_s * 1000:.0f} ms"
    table.add_row("last vacancy at most", "", vacancy)
    table.add_row("end-to-end delay", "", scene.story.delay_words)
    return table


def _brokers(cluster: WatchedCluster, shown: TrueFigures) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("broker", "", "leaders", "preferred not led"):
        table.add_column(heading, justify="right")
    leaders, not_led = dict(shown.leaders), dict(shown.not_led)
    for broker in sorted({*cluster.brokers, *shown.brokers}):
        live = broker in shown.brokers
        state = "controller" if broker == shown.controller else "live" if live else "gone"
        led, away = str(leaders.get(broker, 0)), str(not_led.get(broker, 0))
        table.add_row(str(broker), Text(state, GOOD if live else BAD), led, away)
    load = cluster.load
    table.caption = f"load: {load.delivered:,} records taken, {load.failed:,} refused"
    return table


def _events(events: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, show_header=False, title="last events", title_justify="left")
    table.add_column(no_wrap=True, style=DIM)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for event in events[:6]:
        table.add_row(event_time(event), event_text(event))
    return table


def _outcomes(story: StoryState) -> Table:
    table = Table(box=None, show_header=False, title="done so far", title_justify="left")
    for number, outcome in enumerate(story.outcomes, start=1):
        delay = "" if outcome.delay_ms is None else f"shown after {outcome.delay_ms:.0f} ms"
        result = Text("ok", GOOD) if outcome.ok else Text(outcome.problem, BAD)
        table.add_row(str(number), outcome.done, delay, result)
    return table


def _value(figures: TrueFigures | None, field: str) -> str:
    return "-" if figures is None else shown_value(getattr(figures, field))
