"""What a board is put together from, and where on a figure trouble begins.

The rule: a limit that a board draws and an alert compares with is one constant.
"""

from __future__ import annotations

import dataclasses

from controller_model.completeness import LATE_MS
from dashboards.panels import Panel, Steps, Texts, figure, lines, word
from dashboards.signals_pipeline import BEHIND, DOUBTFUL, FOLLOWED, STATUS, VERIFIED_AGE

FLAPPING_ELECTIONS = 3
"""So many elections within the short window are flapping: the restart of one broker makes one at
most."""

FLAPPING_LONG_ELECTIONS = 6
"""So many within the long window: a rolling restart of a small cluster makes fewer, if it ends with
the controller, as it should."""

ABOVE_THRESHOLD = 1.0001
"""Of the threshold: what equals it is not above it."""

SKEW_RATIO = 0.5
"""Half as many leaders again as an even share, or half as many: worth a reassignment."""

LATE_SECONDS = LATE_MS // 1000
"""A stage without a sign of life for so long is called late by the verdict."""

SLOW_FAILOVER_SECONDS = 60
"""With 10,000 partitions a new controller needs up to 15 s until its first write."""

RESTLESS_MINUTES = 5
"""In so many minutes of the window: a restart makes two at most, and two restarts four."""

BOUNCES = 3
"""Registrations within the window: a restart makes one."""

YES_IS_GOOD: Texts = {"0": ("no", "red"), "1": ("yes", "green")}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


def trust() -> Row:
    """Return the row that each board of a cluster ends with."""
    doubts = {"0": ("no", "green"), "1": ("yes", "red"), "2": ("yes, both", "red")}
    late: Steps = ((None, "transparent"), (LATE_SECONDS, "red"))
    return Row(
        title="Can I trust this?",
        panels=(
            figure("Follows ZooKeeper", FOLLOWED, span=6, texts=YES_IS_GOOD, no_value="not served"),
            word("Status", STATUS, span=6, no_value="not served"),
            figure("Incomplete or divergent", DOUBTFUL, span=6, texts=doubts),
            figure("Proven equal to ZooKeeper, ago", VERIFIED_AGE, span=6, no_value="never"),
            lines("Since the newest sign of life", BEHIND, span=24, steps=late),
        ),
    )
