"""The end of the story: the table of all steps, and the line that gives the result."""

import statistics
from collections.abc import Collection, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from kcm.demo.comparison import StepOutcome
from kcm.demo.truth import Counts, TrueFigures, differences

DIFFERENT = "bold red"
FULL_WIDTH = 116  # columns that the table takes when both sides are written out
_GROUPS = (
    (("controller", "controller"), ("epoch", "epoch")),
    (("elections", "elections"), ("brokers", "brokers")),
    (("lead", "leaders"),),
    (("not led", "not_led"), ("offline", "offline")),
    (("topics", "topics"), ("partitions", "partitions")),
    (("under-repl.", "under_replicated"), ("imbalance", "imbalance")),
)
"""For each line, the name of a figure as shown, and its field."""


def outcome_table(outcomes: Sequence[StepOutcome], *, width: int) -> Table:
    """Return the table: what was done, the truth, what was shown, the delay, and whether they are equal.

    Where `width` columns are too few for both sides, equal figures are printed once.
    """
    wide = width >= FULL_WIDTH
    table = Table(box=box.ROUNDED, show_lines=True, title="truth and monitor, step by step")
    table.add_column("#", justify="right")
    table.add_column("done to the cluster", min_width=12, max_width=22 if wide else 12)
    table.add_column("truth: ZooKeeper and Kafka", no_wrap=wide)
    table.add_column("shown by the monitor", no_wrap=wide)
    table.add_column("after ms", justify="right")
    table.add_column("", min_width=9, max_width=24)
    for number, outcome in enumerate(outcomes, start=1):
        wrong = wrong_figures(outcome)
        table.add_row(
            str(number),
            outcome.done,
            figures_text(outcome.truth, wrong),
            figures_text(outcome.shown, wrong) if wide else _shown_briefly(outcome, wrong),
            "" if outcome.delay_ms is None else f"{outcome.delay_ms:.0f}",
            Text("ok", "green") if outcome.ok else Text(outcome.problem, DIFFERENT),
        )
    return table


def wrong_figures(outcome: StepOutcome) -> list[str]:
    """Return the fields in which the two sides differ; empty when all are equal or one side is missing."""
    if outcome.truth is None or outcome.shown is None:
        return []
    return differences(outcome.truth, outcome.shown)


def figures_text(figures: TrueFigures | None, wrong: Collection[str] = ()) -> Text:
    """Return figures in a few lines, with the `wrong` fields marked; None is a dash."""
    if figures is None:
        return Text("-")
    text = Text()
    for group in _GROUPS:
        if text:
            text.append("\n")
        for position, (word, field) in enumerate(group):
            words = f"{'  ' if position else ''}{word} {shown_value(getattr(figures, field))}"
            text.append(words, DIFFERENT if field in wrong else "")
    return text


def _shown_briefly(outcome: StepOutcome, wrong: Collection[str]) -> Text:
    """Return only what differs from the truth."""
    if outcome.truth is None or outcome.shown is None:
        return figures_text(outcome.shown)
    words = [
        f"{word} {shown_value(getattr(outcome.shown, field))}"
        for group in _GROUPS
        for word, field in group
        if field in wrong
    ]
    return Text("\n".join(words), DIFFERENT) if words else Text("the same")


def shown_value(value: int | tuple[int, ...] | Counts | None) -> str:
    """Return a figure as text.

    >>> shown_value(None), shown_value((0, 2)), shown_value(((0, 9), (2, 3))), shown_value(())
    ('-', '0,2', '0:9 2:3', 'none')
    """
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    words = [f"{item[0]}:{item[1]}" if isinstance(item, tuple) else str(item) for item in value]
    return (" " if ":" in words[0] else ",").join(words) if words else "none"


def ending(outcomes: Sequence[StepOutcome], *, steps: int) -> str:
    """Return the last line: the result of the story, and the delays of the monitor."""
    failed = [(n, outcome) for n, outcome in enumerate(outcomes, start=1) if not outcome.ok]
    if failed:
        what = "; ".join(f"step {n} ({o.done}): {o.problem}" for n, o in failed)
        return f"demo FAILED: {what}"
    if len(outcomes) < steps:
        return f"demo FAILED: only {len(outcomes)} of {steps} steps were done"
    delays = [outcome.delay_ms for outcome in outcomes if outcome.delay_ms is not None]
    speed = f", shown after p50 {statistics.median(delays):.0f} ms, at most {max(delays):.0f} ms"
    return f"demo ended well: {steps} steps, every figure equal{speed if delays else ''}"
