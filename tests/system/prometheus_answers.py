"""Ask a real Prometheus: what it sees now, and what it saw while a step of a story went on."""

from __future__ import annotations

import json
import math
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, NamedTuple

STEP_S = 1
"""Between two looks at what was seen: Prometheus is asked for each second."""


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
"""Until a rule has told what a step did: a scrape, two evaluations and `for`, on a busy machine."""


class Told(NamedTuple):
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
        """Tell whether the alert fired while the step went on, or as soon as it was evaluated."""
        start, end = self.window(title)
        last = math.ceil(end + EVALUATED_S)
        asked = {"query": firing(alert), "start": math.floor(start), "end": last}
        return bool(ask(self.url, "query_range", step=STEP_S, **asked))

    def values(self, expr: str, title: str) -> set[str]:
        """Return the different answers to a query, one for each second of the step."""
        start, end = self.window(title)
        first, last = math.floor(start), math.ceil(end)
        at: dict[int, list[str]] = {second: [] for second in range(first, last + 1)}
        for each in ask(self.url, "query_range", query=expr, start=first, end=last, step=STEP_S):
            for moment, value in each["values"]:
                at[round(moment)].append(f"{sorted(each['metric'].items())} {value}")
        return {"; ".join(sorted(answers)) for answers in at.values()}


def chosen(cluster: str) -> Callable[[str], str]:
    """Return what fills a board's variables in: one cluster, all of its brokers."""

    def fill(expr: str) -> str:
        return expr.replace("$cluster", cluster).replace("$broker", ".+")

    return fill
