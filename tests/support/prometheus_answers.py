"""Ask a real Prometheus: what it sees now, and what it saw while a step of a story went on."""

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

LOOK_S = 0.25
"""Between two looks at what was seen: half of a scrape's interval, so that no scrape is passed over,
also where the next one fails and leaves nothing."""


def ask(url: str, what: str, **asked: object) -> list[Any]:
    """Return the result of `query` or `query_range`."""
    with urllib.request.urlopen(
        f"{url}/api/v1/{what}?{urllib.parse.urlencode(asked)}", timeout=10
    ) as answer:
        result: list[Any] = json.load(answer)["data"]["result"]
    return result


def firing(alert: str) -> str:
    """Return the query for an alert that fires."""
    return f'ALERTS{{alertname="{alert}", alertstate="firing"}}'


EVALUATED_S = 10.0
"""Until a rule has shown what a step did: a scrape, two evaluations and `for`, on a busy machine."""


class SeenStory(NamedTuple):
    """A story as Prometheus saw it: where to ask, and when each step began."""

    url: str
    began: dict[str, float]
    """Title -> Unix time, in the order of the steps."""
    ended: float

    def window(self, title: str) -> tuple[float, float]:
        """Return from when to when the step went on."""
        titles = list(self.began)
        place = titles.index(title)
        after = self.began[titles[place + 1]] if place + 1 < len(titles) else self.ended
        return self.began[title], after

    def fired(self, alert: str, title: str) -> bool:
        """Return whether the alert fired while the step went on, or as soon as it was evaluated."""
        start, end = self.window(title)
        last = math.ceil(end + EVALUATED_S)
        asked = {"query": firing(alert), "start": math.floor(start), "end": last}
        return bool(ask(self.url, "query_range", step=LOOK_S, **asked))

    def moved(self, signal: Signal, expr: str, title: str) -> bool:
        """Return whether the signal moved while the step went on.

        A series must take a second value; an age, a second moment that it is counted from. Where
        series come or go with it, the series that are there must change: what is not there
        while nothing is scraped has not gone.
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
        """Return the answers to a query, one for each look at the step: value by labels.

        Not a number is no answer: a rate of nothing.
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
"""What has an answer while the part is scraped that the signal comes from."""

_AGE = re.compile(r"^\(*time\(\) - | - time\(\)$")
"""An age, or a time that is left: each second it is another without anything moving."""

CLOCK_S = 0.01
"""Less than this is how a computer counts, and not a second moment."""


def without_clock(expr: str, value: float, moment: float) -> float:
    """Return what is behind a value: of an age, or of a time that is left, the moment itself."""
    found = _AGE.search(expr)
    if found is None:
        return value
    return value + moment if found[0].endswith("time()") else moment - value


def chosen(cluster: str) -> Callable[[str], str]:
    """Return what fills a board's variables in: one cluster, all of its brokers."""

    def fill(expr: str) -> str:
        return expr.replace("$cluster", cluster).replace("$broker", ".+")

    return fill
