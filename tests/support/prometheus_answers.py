"""Query a real Prometheus: current values, and values during a step of the demo's story."""

from __future__ import annotations

import json
import math
import re
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, NamedTuple

from dashboards.signals.signal import Signal
from tests.support.signals import appears
from tests.support.waiting import DEADLINE_S

LOOK_S = 0.25
"""Time between two evaluations: half of a scrape interval.

So no scrape is missed, also where the next one fails and leaves no sample.
"""


def ask(url: str, what: str, **asked: object) -> list[Any]:
    """Return the result of `query` or `query_range`."""
    with urllib.request.urlopen(
        f"{url}/api/v1/{what}?{urllib.parse.urlencode(asked)}", timeout=DEADLINE_S
    ) as answer:
        result: list[Any] = json.load(answer)["data"]["result"]
    return result


def firing(alert: str) -> str:
    """Return the query for an alert that fires."""
    return f'ALERTS{{alertname="{alert}", alertstate="firing"}}'


EVALUATED_S = 10.0
"""How long a rule may take to show the effect of a step: a scrape, two evaluations and `for`, on a busy machine."""


class SeenStory(NamedTuple):
    """A story as Prometheus saw it: its URL, and when each step began."""

    url: str
    began: dict[str, float]
    """Unix time by title, in the order of the steps."""
    ended: float

    def window(self, title: str) -> tuple[float, float]:
        """Return the start and end of the step."""
        titles = list(self.began)
        place = titles.index(title)
        after = self.began[titles[place + 1]] if place + 1 < len(titles) else self.ended
        return self.began[title], after

    def fired(self, alert: str, title: str) -> bool:
        """Return whether the alert fired during the step, or as soon as it was evaluated."""
        start, end = self.window(title)
        last = math.ceil(end + EVALUATED_S)
        asked = {"query": firing(alert), "start": math.floor(start), "end": last}
        return bool(ask(self.url, "query_range", step=LOOK_S, **asked))

    def moved(self, signal: Signal, expr: str, title: str) -> bool:
        """Return whether the signal moved during the step.

        A series must take a second value; an age must count from a second moment. For signals whose
        series come or go, the set of series must change; series that are missing while nothing is
        scraped do not count as gone.
        """
        answers = self.answers(expr, title)
        values: dict[str, set[float]] = {}
        for moment, series in answers.items():
            for labels, value in series.items():
                values.setdefault(labels, set()).add(without_clock(expr, value, moment))
        if any(
            max(each) - min(each) > CLOCK_S * bool(_AGE.search(expr)) for each in values.values()
        ):
            return True
        served = self.answers(_OF_WATCHER if "kcm_watcher_" in expr else _OF_EXPORTER, title)
        there = {frozenset(answers[moment]) for moment in answers if served[moment]}
        return appears(signal) and len(there) > 1

    def answers(self, expr: str, title: str) -> dict[float, dict[str, float]]:
        """Return the answers to a query at each evaluation in the step: value by labels.

        Not a number is no answer: it is a rate of nothing.
        """
        start, end = self.window(title)
        first, last = math.floor(start), math.ceil(end)
        looks = round((last - first) / LOOK_S)
        at: dict[float, dict[str, float]] = {first + n * LOOK_S: {} for n in range(looks + 1)}
        for each in ask(self.url, "query_range", query=expr, start=first, end=last, step=LOOK_S):
            labels = json.dumps(each["metric"], sort_keys=True)
            for moment, value in each["values"]:
                if value != "NaN":
                    at[moment][labels] = float(value)
        return at


_OF_EXPORTER = "count(kcm_cluster_up)"
_OF_WATCHER = "count(kcm_watcher_leader)"
"""A query that has an answer while the part that the signal comes from is scraped."""

_AGE = re.compile(r"^\(*time\(\) - | - time\(\)$")
"""An age, or a remaining time: it changes each second without anything moving."""

CLOCK_S = 0.01
"""A difference below this is a rounding error, not a second moment."""


def without_clock(expr: str, value: float, moment: float) -> float:
    """Return the moment behind an age or a remaining time; any other value is unchanged."""
    found = _AGE.search(expr)
    if found is None:
        return value
    return value + moment if found[0].endswith("time()") else moment - value


def chosen(cluster: str) -> Callable[[str], str]:
    """Return a function that fills in a dashboard's variables: one cluster, all of its brokers."""

    def fill(expr: str) -> str:
        return expr.replace("$cluster", cluster).replace("$broker", ".+")

    return fill
