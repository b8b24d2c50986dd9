"""What the demo prints: a live picture or plain lines while it runs, then a table and the result.

The screens only read the progress, several times a second: a slow screen does not change the run.
"""

import itertools
import statistics
import time
from typing import Any

from rich import box
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kcm.cli.event_text import event_text, event_time
from kcm.demo.figures import TrueFigures, differences, names_of, shown_value
from kcm.demo.monitor import LAST_VACANCY
from kcm.demo.run import DemoRun, Progress
from pipeline.supervised_thread import SupervisedThread

LIVE_REFRESHES_PER_S = 5  # smooth to the eye, and leaves the processors to the servers
PLAIN_POLL_S = 0.25  # changes closer together than this share a line
STOP_DEADLINE_S = 2.0
LAST_LINES = 8  # of the progress, in the picture
FULL_WIDTH = 116  # columns that the table takes when both sides are written out
GOOD, BAD, DIM = "green", "red", "dim"
DIFFERENT = "bold red"
ZERO_WHEN_HEALTHY = {
    *("offline", "under_replicated", "imbalance"),
    *("under_min_isr", "empty_isr", "elr"),
}
LINES = (
    (("controller", "controller"), ("epoch", "epoch")),
    (("elections", "elections"), ("brokers", "brokers")),
    (("lead", "leaders"),),
    (("not led", "not_led"), ("offline", "offline")),
    (("topics", "topics"), ("partitions", "partitions")),
    (("under-repl.", "under_replicated"), ("imbalance", "imbalance")),
    (("under min ISR", "under_min_isr"), ("empty ISR", "empty_isr")),
    (("with ELR", "elr"), ("unclean", "unclean"), ("voters", "voters")),
    (("fenced", "fenced"), ("candidacies", "candidacies")),
)
"""For each line of a side in the table, the name of a figure, and its field."""
FIGURES = tuple(itertools.chain.from_iterable(LINES))


def live_screen(console: Console, run: DemoRun[Any]) -> Live:
    """Return the live picture; it is removed with the context, since the table that follows has it all."""
    return Live(
        console=console,
        get_renderable=lambda: picture(run),
        refresh_per_second=LIVE_REFRESHES_PER_S,
        transient=True,
    )


class PlainScreen:
    """The run's lines, and one for each change of the figures that the monitor shows."""

    def __init__(self, console: Console, run: DemoRun[Any]) -> None:
        self._console = console
        self._run = run
        self._thread = SupervisedThread("screen", self._print_news, every_s=PLAIN_POLL_S)
        self._printed = 0
        self._shown: TrueFigures | None = None

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._thread.close(STOP_DEADLINE_S)
        self._thread.check()
        self._print_news()

    def _print_news(self) -> None:
        progress = self._run.progress
        lines = progress.lines[self._printed :]
        self._printed += len(lines)
        shown = self._run.monitor.observations.figures
        if shown is not None and shown != self._shown:
            self._shown = shown
            known = names_of(shown)
            figures = (
                f"{name} {shown_value(shown, field)}" for name, field in FIGURES if field in known
            )
            lines.append(progress.timed(f"  monitor: {', '.join(figures)}"))
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def picture(run: DemoRun[Any]) -> RenderableType:
    """Return the whole picture: the current step, both sides' figures, events, and what was done."""
    progress = run.progress
    where = f"step {progress.step}/{progress.steps}: " if progress.step else ""
    head = Text(f"{time.monotonic() - progress.began:5.1f} s  ", DIM)
    log = [Text(line, no_wrap=True, overflow="ellipsis") for line in progress.lines[-LAST_LINES:]]
    head.append(f"{where}{progress.title}", "bold")
    parts: list[RenderableType] = [head, *log]
    events = Table(box=None, show_header=False, title="last events", title_justify="left")
    events.add_column(no_wrap=True, style=DIM)
    events.add_column(no_wrap=True, overflow="ellipsis")
    for event in run.monitor.events:
        events.add_row(event_time(event), event_text(event))
    if run.cluster.truth.observations.latest or run.monitor.observations.latest:
        parts.insert(1, Columns([_figures(run), events], padding=(0, 2)))
    return Panel(Group(*parts), title="kcm demo", border_style="blue", box=box.ROUNDED)


def _figures(run: DemoRun[Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("", "truth", "monitor"):
        table.add_column(heading, justify="right" if heading else "left")
    truth, shown = run.cluster.truth.observations.figures, run.monitor.observations.figures
    known = names_of(truth, shown)
    for name, field in FIGURES:
        if field not in known:
            continue
        true, seen = shown_value(truth, field), shown_value(shown, field)
        # unequal means on its way, or wrong: the step's outcome says which
        style = "" if true == seen else "yellow"
        if true == seen and field in ZERO_WHEN_HEALTHY:
            style = GOOD if seen == "0" else BAD
        table.add_row(name, true, Text(seen, style))
    vacancy_s = run.monitor.scrape.get((LAST_VACANCY, ""))
    vacancy = "-" if vacancy_s is None else f"{vacancy_s * 1000:.0f} ms"
    table.add_row("last vacancy at most", "", vacancy)
    delays_ms = [o.delay_ms for o in run.progress.outcomes if o.delay_ms is not None]
    delay = f"{delays_ms[-1]:.0f} ms" if delays_ms else "-"
    table.add_row("end-to-end delay", "", delay)
    load = run.cluster.load
    table.caption = f"load: {load.delivered:,} records taken, {load.failed:,} refused"
    return table


def outcome_table(progress: Progress, *, width: int) -> Table:
    """Return the table: what was done, the truth, what was shown, the delay, and whether they are equal.

    Where `width` columns are too few for both sides, equal figures are printed once.
    """
    wide = width >= FULL_WIDTH
    table = Table(box=box.ROUNDED, show_lines=True, title="truth and monitor, step by step")
    table.add_column("#", justify="right")
    table.add_column("done to the cluster", min_width=12, max_width=22 if wide else 12)
    table.add_column(f"truth: {progress.sources}", no_wrap=wide)
    table.add_column("shown by the monitor", no_wrap=wide)
    table.add_column("after ms", justify="right")
    table.add_column("", min_width=9, max_width=24)
    for number, outcome in enumerate(progress.outcomes, start=1):
        truth, shown, problem = outcome.truth, outcome.shown, outcome.problem
        wrong = differences(truth, shown) if truth and shown else []
        only = wrong if truth and not wide else None
        table.add_row(
            str(number),
            outcome.done,
            _side(truth, wrong),
            _side(shown, wrong, only=only),
            "" if outcome.delay_ms is None else f"{outcome.delay_ms:.0f}",
            Text(problem, DIFFERENT) if problem else Text("ok", GOOD),
        )
    return table


def _side(figures: TrueFigures | None, wrong: list[str], *, only: list[str] | None = None) -> Text:
    """Return a side's figures in a few lines, with the `wrong` fields marked; `only`: none but these."""
    if figures is None:
        return Text("-")
    lines, known = [], names_of(figures)
    for group in LINES:
        texts = [
            Text(f"{name} {shown_value(figures, field)}", DIFFERENT if field in wrong else "")
            for name, field in group
            if field in known and (only is None or field in only)
        ]
        if texts:
            lines.append(Text("  ").join(texts))
    return Text("\n").join(lines) if lines else Text("the same")


def ending(progress: Progress) -> tuple[str, bool]:
    """Return the last line, with the result and the delays of the monitor, and whether all went well."""
    outcomes, steps = progress.outcomes, progress.steps
    failed = [(number, each) for number, each in enumerate(outcomes, start=1) if each.problem]
    if failed:
        what = "; ".join(f"step {n} ({each.done}): {each.problem}" for n, each in failed)
        return f"demo FAILED: {what}", False
    if len(outcomes) < steps:
        return f"demo FAILED: only {len(outcomes)} of {steps} steps were done", False
    delays = [each.delay_ms for each in outcomes if each.delay_ms is not None]
    speed = f"shown after p50 {statistics.median(delays):.0f} ms, at most {max(delays):.0f} ms"
    return f"demo ended well: {steps} steps, every figure equal, {speed}", True
