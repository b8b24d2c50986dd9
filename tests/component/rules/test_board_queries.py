"""Every query of the boards, by a real Prometheus, over a cluster that becomes unhealthy.

The exporter's own rendering of two states is written into Prometheus's database with times of its
own, so an hour of history costs no waiting.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from dashboards.boards.boards import BOARDS, Board, render
from dashboards.signals.first_screen import (
    NOT_IN_KRAFT,
    STALE,
    unless_in_kraft,
    unless_stale,
    while_followed,
)
from kcm.servers.prometheus import Prometheus
from kcm.servers.supervisor import Supervisor
from tests.component.rules.board_history import (
    HISTOGRAMS,
    HISTORY,
    ILL_S,
    INTERVAL_S,
    WELL_S,
    delays,
    samples,
)
from tests.support.prometheus_answers import without_clock
from tests.support.samples import (
    T0,
)
from tests.support.signals import SIGNALS
from tests.support.waiting import DEADLINE_S

PROMTOOL = shutil.which("promtool")

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or PROMTOOL is None,
    reason="prometheus and promtool are not installed (Debian: apt-get install prometheus)",
)


class Asked:
    """A real Prometheus, and the times at which it is queried."""

    def __init__(self, url: str, began: int) -> None:
        self._url = url
        ill_since = began + WELL_S
        self.moments = (ill_since - 60, ill_since + 30, ill_since + 600, ill_since + ILL_S - 60)

    def at(self, expr: str, moment: float) -> dict[str, float]:
        """Return the answer as Grafana gets it for a figure of now: value by labels."""
        found = self._get("query", query=expr, time=moment)
        if found["resultType"] == "scalar":
            return {"": float(found["result"][1])}
        return {
            json.dumps(each["metric"], sort_keys=True): float(each["value"][1])
            for each in found["result"]
        }

    def over_time(self, expr: str) -> list[Any]:
        """Return the answer as Grafana gets it for a graph."""
        first, *_, last = self.moments
        series: list[Any] = self._get("query_range", query=expr, start=first, end=last, step=60)[
            "result"
        ]
        return series

    def _get(self, what: str, **asked: object) -> dict[str, Any]:
        url = f"{self._url}/api/v1/{what}?{urllib.parse.urlencode(asked)}"
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
                shown: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{asked}: {error.read().decode()}") from error
        assert shown["status"] == "success"
        assert not shown.get("warnings"), shown
        data: dict[str, Any] = shown["data"]
        return data


@pytest.fixture(scope="module")
def asked(supervisor: Supervisor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A Prometheus whose database holds half an hour of well and more than an hour of ill."""
    folder = tmp_path_factory.mktemp("boards")
    began = int(time.time()) - WELL_S - ILL_S
    history = folder / "history.txt"
    with history.open("w") as file:
        for state, start, end in HISTORY:
            for line in samples(state):
                if line.partition("_bucket")[0] in HISTOGRAMS:
                    continue
                file.writelines(f"{line} {began + at}\n" for at in range(start, end, INTERVAL_S))
        for at in range(0, WELL_S + ILL_S, INTERVAL_S):
            file.writelines(f"{line} {began + at}\n" for line in delays(at, is_ill=at >= WELL_S))
        file.write("# EOF\n")
    assert PROMTOOL is not None
    database = folder / "tsdb"
    done = subprocess.run(
        [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", str(history), str(database)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    server = Prometheus(supervisor, folder, targets={})
    server.start()
    yield Asked(server.url, began)
    server.stop()


def _chosen(expr: str, cluster: str = "prod") -> str:
    """Return the expression with the choice of a cluster and all brokers, of the fleet 'all clusters'."""
    return (
        expr.replace('cluster="$cluster"', f'cluster="{cluster}"')
        .replace('cluster=~"$cluster"', 'cluster=~".+"')
        .replace("$broker", ".+")
        .replace("$job", ".*")
        .replace("$instance", ".*")
    )


def _of(made: Board) -> str:
    """Return the cluster that a board is about: only the board Quorum has nothing to show of one in ZooKeeper."""
    return "kraft" if made.name == "quorum" else "prod"


@pytest.mark.parametrize("made", BOARDS, ids=lambda made: made.name)
def test_every_query_of_a_board_returns_data(asked: Asked, made: Board) -> None:
    """No panel stays empty: each query, sent as Grafana sends it, returns data at some time."""
    for panel in json.loads(render(made))["panels"]:
        for target in panel.get("targets", []):
            expr = _chosen(target["expr"], _of(made))
            if target["instant"]:
                shown: list[Any] = [asked.at(expr, moment) for moment in asked.moments]
            else:
                shown = asked.over_time(expr)
            assert any(shown), f"{panel['title']}: {expr}"


@pytest.mark.parametrize("made", BOARDS, ids=lambda made: made.name)
def test_a_figure_that_kraft_does_not_have_says_so(asked: Asked, made: Board) -> None:
    """A figure of ZooKeeper's alone is "not in KRaft" there, be the cluster well or ill, and never 0 or nothing."""
    by_query = {
        form.on_board(): signal
        for signal in SIGNALS.values()
        if signal.only_in_zookeeper
        for form in (
            unless_in_kraft(signal),
            unless_stale(unless_in_kraft(signal)),
            unless_in_kraft(while_followed(signal)),
        )
    }
    for panel in json.loads(render(made))["panels"]:
        for target in panel.get("targets", []):
            expr = target["expr"].replace(', job=~"$job", instance=~"$instance"', "")
            named = by_query.get(expr)
            for moment in asked.moments[:2]:
                values = asked.at(_chosen(target["expr"], "kraft"), moment).values()
                if named is not None:
                    assert list(values) == [NOT_IN_KRAFT], panel["title"]
                elif panel["type"] == "stat":
                    assert NOT_IN_KRAFT not in values, panel["title"]


OF_NOTHING = {"not_served"}
"""Signals of a cluster that nobody serves: this one is served all the time."""

OF_KRAFT = {
    *("broker_fenced", "broker_is_fenced", "broker_shutting_down", "broker_offline_dirs"),
    *("broker_metadata_lag", "broker_metadata_lag_records", "broker_metadata_behind"),
    *("isr_empty", "with_elr", "recovering"),
}
"""Signals whose metrics only a KRaft cluster has, besides those of its quorum."""


@pytest.mark.parametrize("name", sorted(SIGNALS.keys() - OF_NOTHING))
def test_every_signal_changes_when_its_failure_happens(asked: Asked, name: str) -> None:
    """What is always the same says nothing: between well and ill each answer changes.

    That an age grows is no change; what it is counted from must be another moment.
    """
    signal = SIGNALS[name]
    of_quorum = "kafka_quorum_" in signal.expr or name in OF_KRAFT
    expr = _chosen(
        (signal.for_fleet() if "cluster" in name else signal).on_board(),
        "kraft" if of_quorum else "prod",
    )
    shown = [
        {
            labels: round(without_clock(expr, value, moment), 2)
            for labels, value in asked.at(expr, moment).items()
        }
        for moment in asked.moments
    ]
    assert any(shown), expr
    assert any(one != shown[0] for one in shown[1:]), shown[0]


@pytest.mark.parametrize("made", BOARDS, ids=lambda made: made.name)
def test_every_annotation_query_returns_data(asked: Asked, made: Board) -> None:
    """Each annotation's query gives data, and its times are those of what happened."""
    for mark in json.loads(render(made)).get("annotations", {}).get("list", []):
        shown = [asked.at(_chosen(mark["expr"]), moment) for moment in asked.moments]
        assert any(shown), mark["name"]
        if mark["useValueForTime"] == "on":
            times = [value for each in shown for value in each.values()]
            assert all(T0 <= value <= T0 + 5000 for value in times), mark["name"]


def test_brokers_are_chosen_by_id_host_and_rack(asked: Asked) -> None:
    """The choice shows all three and asks by the id."""
    board = json.loads(render(next(made for made in BOARDS if made.name == "balance")))
    variable = next(v for v in board["templating"]["list"] if v["name"] == "broker")
    query = re.fullmatch(r"query_result\((.*)\)", variable["query"])
    assert query is not None
    pattern = variable["regex"].strip("/").replace("(?<", "(?P<")
    found = set()
    for labels in asked.at(_chosen(query[1]), asked.moments[0]):
        as_grafana = ", ".join(f'{k}="{v}"' for k, v in json.loads(labels).items())
        match = re.search(pattern, f"{{{as_grafana}}}")
        assert match is not None
        found.add((match["value"], match["text"]))
    assert found == {("0", "0 kafka0 r0"), ("1", "1 kafka1 r1")}


def test_the_worst_cluster_has_the_most_trouble(asked: Asked) -> None:
    """The fleet's order puts the cluster with all troubles above the one that is well."""
    trouble = SIGNALS["trouble"].for_fleet()
    shown = asked.at(_chosen(trouble.on_board()), asked.moments[-1])
    by_cluster = {json.loads(labels)["cluster"]: value for labels, value in shown.items()}
    assert by_cluster == {"prod": 16 + 8 + 4 + 2 + 1, "kraft": 4, "other": 0}


def test_gone_brokers_are_stale_while_the_figures_are(asked: Asked) -> None:
    """With live figures the table has the broker that is gone; with stale ones every row is stale.

    Without a served cluster the table is not empty: that would mean that no broker is gone.
    """
    expr = _chosen(SIGNALS["brokers_gone_now"].on_board())
    well, followed, stale, _ = asked.moments
    shown = [
        {json.loads(labels)["broker"]: value for labels, value in asked.at(expr, moment).items()}
        for moment in (well, followed, stale, time.time() + 3600)
    ]
    assert shown == [
        {},
        {"1": 40},
        {"1": STALE, "any other": STALE},
        {"any other": STALE},
    ]


def test_panels_over_time_are_empty_while_figures_are_stale(asked: Asked) -> None:
    """Bars and cells over time keep what was true while the figures followed, and only that."""
    for made in BOARDS:
        for panel in json.loads(render(made))["panels"]:
            if panel["type"] not in {"status-history", "state-timeline"} or made.by_target:
                continue
            (target,) = panel["targets"]
            well, _, _, last = (
                asked.at(_chosen(target["expr"]), moment) for moment in asked.moments
            )
            assert well, panel["title"]
            assert STALE not in well.values()
            assert last, panel["title"]
            assert set(last.values()) == {STALE}, panel["title"]
