"""Rows: panels under a heading, and the row with which each dashboard of a cluster ends."""

from controller_model.insight.thresholds import LATE_SECONDS
from dashboards.boards.panels import YES_IS_GOOD, Panel, figure, limit, lines, word
from dashboards.signals.pipeline import BEHIND, DOUBTFUL, FOLLOWED, STATUS, VERIFIED_AGE


class Row:
    """Panels under a heading."""

    def __init__(self, title: str, *panels: Panel) -> None:
        self.title = title
        self.panels = panels


TRUST = Row(
    "Can I trust this?",
    figure("Follows the cluster", FOLLOWED, texts=YES_IS_GOOD, no_value="not served", always=True),
    word("Status", STATUS, no_value="not served", always=True),
    figure(
        "Incomplete or divergent",
        DOUBTFUL,
        texts={"0": ("no", "green"), "1": ("yes", "red"), "2": ("yes, both", "red")},
        always=True,
    ),
    figure("Last proven, ago", VERIFIED_AGE, no_value="never"),
    lines("Time since each stage reported", BEHIND, span=24, steps=limit(LATE_SECONDS)),
)
"""The row with which each dashboard of a cluster ends."""
