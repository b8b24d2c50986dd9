"""Rows: panels under a heading, and the row that each board of a cluster ends with."""

from __future__ import annotations

import dataclasses

from dashboards.boards.panels import Panel, Steps, Texts, figure, lines, word
from dashboards.signals.pipeline import BEHIND, DOUBTFUL, FOLLOWED, STATUS, VERIFIED_AGE
from dashboards.signals.thresholds import LATE_SECONDS

YES_IS_GOOD: Texts = {"0": ("no", "red"), "1": ("yes", "green")}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


def row(title: str, *panels: Panel) -> Row:
    """Return panels under a heading."""
    return Row(title=title, panels=panels)


def trust() -> Row:
    """Return the row that each board of a cluster ends with."""
    states = {"0": ("no", "green"), "1": ("yes", "red"), "2": ("yes, both", "red")}
    late: Steps = ((None, "transparent"), (LATE_SECONDS, "red"))
    return row(
        "Can I trust this?",
        figure("Follows ZooKeeper", FOLLOWED, span=6, texts=YES_IS_GOOD, no_value="not served"),
        word("Status", STATUS, span=6, no_value="not served"),
        figure("Incomplete or divergent", DOUBTFUL, span=6, texts=states),
        figure("Proven equal to ZooKeeper, ago", VERIFIED_AGE, span=6, no_value="never"),
        lines("Since the newest sign of life", BEHIND, span=24, steps=late),
    )
