"""What a story about a rule is: written-out series, and when the rule's alert fires on them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

INTERVAL_S = 15
"""Between two scrapes, and between two evaluations; sample i is scraped at i * 15 s."""

EXPORTER = 'cluster="prod", instance="a:9640", job="kcm"'
OTHER_EXPORTER = 'cluster="prod", instance="b:9640", job="kcm"'


class Proves(enum.Enum):
    """What a story is for."""

    FIRES = enum.auto()
    """It fires, and resolves when what it reports is over."""
    SILENT = enum.auto()
    """It does not fire just below, or on what only looks alike."""
    GAP = enum.auto()
    """It goes on over a minute without scrapes, or counts what happened in it."""
    RESET = enum.auto()
    """A counter, or the epoch, that starts again does not set it off."""
    MOVE = enum.auto()
    """It is one alert that goes on while the exporter moves to another address."""
    SWAP = enum.auto()
    """Two exporters that begin to count again one after the other do not set it off."""


@dataclasses.dataclass(frozen=True, slots=True)
class Story:
    """What was scraped, and whether one alert fires at each of some moments."""

    claim: str
    proves: Proves
    series: dict[str, str]
    moments: dict[int, float | None]
    """Seconds -> the value that it fires with; None: it does not fire."""
    alert: str = ""
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    """Labels of the alert besides cluster and severity."""


def about(
    alert: str, *stories: Story, labels: Mapping[str, str] | None = None
) -> tuple[Story, ...]:
    """Return stories as those of an alert, which has these labels in all of them."""
    named = dict(labels or {})
    return tuple(dataclasses.replace(story, alert=alert, labels=named) for story in stories)


def times(*runs: tuple[float | str, int]) -> str:
    """Return samples as promtool reads them, from (value, how many scrapes).

    `stale` is what Prometheus writes when a scrape fails, `_` is no sample at all.
    """
    return " ".join(str(value) for value, count in runs for _ in range(count))


GAP: tuple[tuple[float | str, int], ...] = (("stale", 1), ("_", 3))
"""A minute in which the exporter is not scraped."""

DEAD_7_H: tuple[tuple[float | str, int], ...] = (("stale", 1), ("_", 1679))
"""Seven hours in which it is not."""


def one(metric: str, *runs: tuple[float | str, int], **labels: str) -> dict[str, str]:
    """Return one series of one exporter."""
    more = "".join(f', {name}="{value}"' for name, value in labels.items())
    return {f"{metric}{{{EXPORTER}{more}}}": times(*runs)}


def swapped(metric: str, before: int, after: int, **labels: str) -> dict[str, str]:
    """Return a counter of two exporters, of which the other one changes its lineage a minute later.

    The new lineage counts from a younger start: it has seen less.
    """
    series = {}
    for exporter, old in ((EXPORTER, 8), (OTHER_EXPORTER, 12)):
        more = "".join(f', {name}="{value}"' for name, value in labels.items())
        series[f"{metric}{{{exporter}{more}}}"] = times((before, old), (after, 40 - old))
        since = f"kcm_cluster_counters_since_timestamp_seconds{{{exporter}}}"
        series[since] = times((1_000_000, old), (2_000_000, 40 - old))
    return series


SWAP_MOMENTS: dict[int, float | None] = dict.fromkeys((105, 120, 150, 165, 180, 195, 300, 585))
"""Before, while the two differ, and after."""
