"""Draw the plots of docs/performance.md."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Result = Mapping[str, Any]

INCHES = (7.0, 3.6)
DPI = 110
BLUE, GREY = "#2463a5", "#8a8f98"
COLOURS = (BLUE, "#d9822b", "#3c8d5a", "#a23b52", GREY, "#6b4fa0")
"""Colours of the lines in one plot, in this order."""


def draw(result: Result, folder: Path) -> dict[str, str]:
    """Draw the content of a result of all; return the titles by file."""
    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {}
    for file, (scenario, title, plot) in PLOTS.items():
        if scenario in result["scenarios"]:
            figure = Figure(figsize=INCHES, dpi=DPI, layout="constrained")
            axes = figure.subplots()
            plot(axes, result["scenarios"][scenario])
            axes.set_title(title, fontsize=10)
            axes.grid(axis="both", alpha=0.25)
            # without a date and the library's version, equal figures make equal files
            figure.savefig(folder / file, metadata={"Software": None})
            drawn[file] = title
    return drawn


def _delay(axes: Axes, result: Result) -> None:
    stages = [*result["stages"].items(), ("all", result)]
    names = [name for name, _ in stages]
    axes.barh(names, [stage["p99_ms"] or 0 for _, stage in stages], color=GREY, label="p99")
    axes.barh(names, [stage["p50_ms"] or 0 for _, stage in stages], color=BLUE, label="p50")
    axes.invert_yaxis()
    axes.set_xlabel("ms")
    axes.legend()


def _batch(axes: Axes, result: Result) -> None:
    stages = result["batch"]["stages_ms"]
    axes.barh(list(stages), list(stages.values()), color=BLUE)
    axes.invert_yaxis()
    axes.set_xlabel("ms, mean")


def _storm(axes: Axes, result: Result) -> None:
    storms = sorted(result["storms"], key=lambda storm: storm["leaders"])
    lines = {
        "last shown after last write": [storm["tail_s"] for storm in storms],
        "half after half": [storm["half_s"] for storm in storms],
    }
    _lines(axes, ("leaders that change", [storm["leaders"] for storm in storms]), ("s", lines))
    axes.set_xscale("log")


def _cold(axes: Axes, result: Result) -> None:
    sizes = result["sizes"]
    lines = {
        "cold start to live": [size["live_s"] for size in sizes],
        "fold started again: next change shown": [size["again_s"] for size in sizes],
    }
    _lines(axes, _partitions(sizes), ("s", lines))
    axes.set_xscale("log")


def _memory(axes: Axes, result: Result) -> None:
    sizes = result["sizes"]
    memory = [size["rounds"][-1]["memory_mib"] for size in sizes]
    lines = {part: [each[part] for each in memory] for part in memory[0]}
    _lines(axes, _partitions(sizes), ("MiB", lines))
    axes.set_xscale("log")


def _partitions(sizes: Sequence[Result]) -> tuple[str, list[float]]:
    return "partitions", [size["partitions"] for size in sizes]


def _rest(axes: Axes, result: Result) -> None:
    parts = [part for part in result["at_rest"] if part != "all"]
    axes.barh(parts, [result["at_rest"][part]["rss_mib"] for part in parts], color=BLUE)
    axes.invert_yaxis()
    axes.set_xlabel("MiB")


def _brokers(axes: Axes, result: Result) -> None:
    by_brokers = result["brokers"]
    kinds = next(iter(by_brokers.values()))
    lines = {kind: [batches[kind]["ms"] for batches in by_brokers.values()] for kind in kinds}
    _lines(
        axes, ("brokers", [int(count) for count in by_brokers]), ("ms of Python in a batch", lines)
    )


def _lines(
    axes: Axes, of: tuple[str, Sequence[float]], lines: tuple[str, Mapping[str, Sequence[float]]]
) -> None:
    """Draw a line for each name over the same x values; each axis comes with its label."""
    (x_label, places), (y_label, values) = of, lines
    for (name, line), colour in zip(values.items(), itertools.cycle(COLOURS), strict=False):
        axes.plot(places, line, "o-", color=colour, label=name)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.legend()


PLOTS: dict[str, tuple[str, str, Callable[[Axes, Result], None]]] = {
    "delay-stages.png": ("delay", "Delay of one change, by stage", _delay),
    "delay-batch.png": ("delay", "A warm batch, by Spark's stages", _batch),
    "storm-tail.png": ("storm", "How far a storm leaves the monitor behind", _storm),
    "cold-partitions.png": ("cold", "Start and restart, by partitions", _cold),
    "cold-memory.png": ("cold", "Memory after a cold start, by partitions", _memory),
    "brokers-batch.png": ("brokers", "Cost of a batch, by brokers", _brokers),
    "rest-memory.png": ("rest", "Memory at rest beside 10,000 partitions", _rest),
}
"""By file, whose name begins with its scenario's name."""
