"""Every query of the boards, asked of a real Prometheus about a cluster that goes from well to ill.

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

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from controller_model.changes import SessionState
from controller_model.completeness import Reading
from controller_model.incidents import IncidentsSummary
from controller_model.predictions import Due, Verdict, WritesDue
from controller_model.recommendations import RebalanceSummary
from controller_model.views import (
    BrokerView,
    ClusterView,
    ControllerView,
    Counts,
    Failover,
    Pending,
    ResyncWanted,
    TopicView,
    encode_view,
)
from dashboards.boards import BOARDS, Board, render
from dashboards.signal import Signal
from dashboards.signals import SIGNALS
from exporter.collector import Collector
from exporter.metrics import ExporterMetrics
from exporter.records import ClusterSnapshot, TopicEntry
from exporter.render import Format
from kcm.stack.prometheus import Prometheus, find_prometheus
from kcm.stack.supervisor import Supervisor
from pipeline.maintenance import PlannedWork
from streaming.metrics import FoldMetrics
from streaming.progress import BatchReport
from tests.unit.exporter.samples import T0, broker_view, cluster_view, log_view, topic_view
from zk_source.metrics import WatcherMetrics
from zk_source.server_figures import ServerFigures

PROMTOOL = shutil.which("promtool")

pytestmark = pytest.mark.skipif(
    find_prometheus() is None or PROMTOOL is None,
    reason="prometheus and promtool are not installed (Debian: apt-get install prometheus)",
)

_INTERVAL_S = 15
_WELL_S = 1800
_ILL_S = 4500
"""Longer than an hour, in which a reassignment must not proceed to be called stalled."""

_WELL_COUNTS = Counts(topics=2, partitions=40)
_ILL_COUNTS = Counts(
    topics=3,
    partitions=41,
    offline=9,
    leaderless=4,
    leader_writes_due=5,
    without_state=1,
    under_replicated=20,
    under_min_isr=3,
    at_min_isr=17,
    preferred_imbalance=19,
    preferred_electable=4,
    reassigning=2,
    deleting_topics=1,
    replication_factor_1=6,
    min_isr_blocks=7,
    replicas_on_gone_brokers=18,
)
_WELL_CONTROLLER = ControllerView(
    id=0, epoch=7, elected_at=T0, elections=7, failover=Failover.NOT_NEEDED
)
_ILL_CONTROLLER = ControllerView(
    id=-1,
    epoch=11,
    elections=11,
    id_changes=2,
    missed_elections=1,
    vacant_since=T0 + 1000,
    vacancy_total_min_ms=50,
    vacancy_total_max_ms=90,
    vacancy_last_min_ms=20,
    vacancy_last_max_ms=30,
    failover=Failover.UNDER_WAY,
    failover_since=T0 + 1000,
    failover_last_ms=4000,
    stale_writes=1,
)
_INCIDENT = IncidentsSummary(
    open=3, open_since=T0, opened_by="BrokerStopped", total=3, last_started_at=T0, total_ms=60_000
)
_RECOMMENDING = RebalanceSummary(
    threshold_percentage=20,
    exceeding=(0, 1),
    mendable=(0,),
    electable=4,
    blocked={"not_live": 7, "not_in_isr": 1},
    recommendation=2,
    recommended_at=T0,
    recommended=4,
    made=2,
    graded={"mended": 1},
)
_OWED = WritesDue(counts={str(Due.NEW_LEADER): 5}, oldest_at=T0 + 1000, verdict=Verdict.GHOST)


def well() -> dict[str, ClusterSnapshot]:
    """Return one cluster in good order."""
    view = cluster_view(
        controller=_WELL_CONTROLLER,
        counts=_WELL_COUNTS,
        writes_due=WritesDue(verdict=Verdict.NOT_NEEDED),
    )
    brokers = (_broker(0, leaders=20), _broker(1, leaders=20))
    return {"prod": _snapshot(view, *brokers)}


def ill() -> dict[str, ClusterSnapshot]:
    """Return the same cluster in every trouble that there is, and a second one."""
    log = log_view(
        session=SessionState.SUSPENDED,
        session_since=T0 + 2000,
        zookeeper="zk2:2181",
        divergent_since=T0,
        incomplete_since=T0,
        denied=("/config",),
        resync_under_way=True,
        **dict.fromkeys(_LOG_COUNTERS, 3),
    )
    view = cluster_view(
        controller=_ILL_CONTROLLER,
        folded_at=T0 - 60_000,
        counts=_ILL_COUNTS,
        writes_due=_OWED,
        pending=Pending(oldest_reassignment_at=T0, oldest_deletion_at=T0),
        log=log,
        brokers_live=(0,),
        leader_elections={"offline": 9},
        unclean_elections=2,
        isr_shrinks=20,
        isr_expands=5,
        resync_wanted=ResyncWanted(number=1, reason="a test"),
        incidents=_INCIDENT,
        rebalance=_RECOMMENDING,
    )
    troubled = _broker(
        0,
        leaders=31,
        preferred_not_led=12,
        preferred_electable=4,
        imbalance_ratio=0.6,
        leader_skew=1.0,
        registrations=4,
        ends={"crashed": 3},
        isr_leaves=20,
        log_dir_failures=1,
        offline_if_lost=8,
        under_min_isr_if_lost=3,
        in_isr=30,
        replicas=41,
        since=T0 + 3000,
        coordinated={"group": 50},
    )
    gone = _broker(1, live=False, leaders=0, in_isr=0, leader_skew=None, imbalance_ratio=0.9)
    other = cluster_view("other", controller=_WELL_CONTROLLER, counts=_WELL_COUNTS)
    lost = topic_view("orders", leader=(1, -1), isr=((1,), (1,)), min_isr=2)
    behind = topic_view("payments", leader=(0, 0), isr=((0,), (0,)), min_isr=2)
    return {
        "prod": _snapshot(view, troubled, gone, topics=(lost, behind)),
        "other": _snapshot(other),
    }


_LOG_COUNTERS = (
    "znodes",
    "resyncs",
    "audits",
    "holes",
    "dropped_by_watcher",
    "missed_updates",
    "unreadable",
    "anomalies",
    "errors",
)


def _broker(id_: int, **fields: Any) -> BrokerView:
    usual: dict[str, Any] = {"replicas": 40, "in_isr": 40, "preferred": 20, "leader_skew": 0.0}
    return broker_view(id_, rack=f"r{id_}", **{**usual, **fields})


def _snapshot(
    view: ClusterView, *brokers: BrokerView, topics: tuple[TopicView, ...] = ()
) -> ClusterSnapshot:
    return ClusterSnapshot(
        name=view.cluster,
        partition=0,
        view=view,
        brokers={broker.id: msgspec.structs.replace(broker) for broker in brokers},
        topics={
            topic.name: TopicEntry(
                as_of=topic.as_of, name=topic.name, chunk=0, chunks=1, value=encode_view(topic)
            )
            for topic in topics
        },
    )


def _samples(clusters: dict[str, ClusterSnapshot]) -> list[str]:
    """Return the lines that the exporter serves about these clusters, and the parts about us."""
    is_ill = "other" in clusters
    collector = Collector(lambda _snapshot: Reading(read_at=T0 + 5000))
    if is_ill:
        work = PlannedWork(v=1, cluster="prod", broker=0, started_at=T0, until=T0 + 600_000)
        collector.planned.show({("prod", 0): work})
    collector.update(clusters, clusters)
    collector.worst_topics.look(collector.snapshots(), T0 + 4000 if is_ill else T0)
    text = collector.scrape(Format.TEXT, T0 + 5000).decode()
    lines = (*text.splitlines(), *_own_samples(is_ill=is_ill))
    return [line for line in lines if not line.startswith("#")]


def _own_samples(*, is_ill: bool) -> list[str]:
    """Return what the parts serve about themselves: the same kinds of series in both states."""
    registry = CollectorRegistry()
    watcher = WatcherMetrics(registry, "prod")
    watcher.gauge("buffer_changes", "h", 90 if is_ill else 0)
    watcher.zookeeper.show(_ILL_SERVER if is_ill else _WELL_SERVER)
    fold, exporter = FoldMetrics(registry), ExporterMetrics(registry)
    fold.observe(BatchReport(batch=0, took_ms=300))
    fold.measure_lag(90 if is_ill else 0)
    exporter.lag.labels("kcm.views").set(90 if is_ill else 0)
    return generate_latest(registry).decode().splitlines()


_WELL_SERVER = ServerFigures(
    server="zk1:2181",
    role="follower",
    version="3.8.4",
    latency_avg_ms=0.5,
    latency_max_ms=20,
    connections=6,
    sessions=5,
    outstanding=0,
    answered_s=0.001,
)
_ILL_SERVER = ServerFigures(
    server="zk2:2181",
    role="leader",
    version="3.8.4",
    latency_avg_ms=90,
    latency_max_ms=4000,
    connections=7,
    sessions=9,
    outstanding=40,
    answered_s=0.4,
)


def _delays(at: int, *, is_ill: bool) -> list[str]:
    """Return histograms of delays after so many seconds: 0.3 s each when well, 3 s when ill."""
    return [
        f'{name}_bucket{{{labels}le="{limit}"}} {count}'
        for name, labels in _HISTOGRAMS.items()
        for limit, count in (
            ("0.5", min(at, _WELL_S) if is_ill else at),
            ("5", at),
            ("+Inf", at),
        )
    ]


_HISTOGRAMS = {
    "kcm_watcher_change_delay_seconds": 'cluster="prod",',
    "kcm_fold_batch_seconds": "",
    "kcm_exporter_record_delay_seconds": "",
    "kcm_exporter_change_delay_seconds": "",
}
"""Their names, and the labels besides the limit."""


class Asked:
    """A real Prometheus, and the moments at which it is asked."""

    def __init__(self, url: str, began: int) -> None:
        self._url = url
        ill_since = began + _WELL_S
        self.moments = (ill_since - 60, ill_since + 30, ill_since + 600, ill_since + _ILL_S - 60)

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
            with urllib.request.urlopen(url, timeout=10) as answer:
                told: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{asked}: {error.read().decode()}") from error
        assert told["status"] == "success"
        assert not told.get("warnings"), told
        data: dict[str, Any] = told["data"]
        return data


@pytest.fixture(scope="module")
def asked(supervisor: Supervisor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A Prometheus whose database holds half an hour of well and more than an hour of ill."""
    folder = tmp_path_factory.mktemp("boards")
    began = int(time.time()) - _WELL_S - _ILL_S
    history = folder / "history.txt"
    with history.open("w") as file:
        for state, start, end in ((well(), 0, _WELL_S), (ill(), _WELL_S, _WELL_S + _ILL_S)):
            for line in _samples(state):
                if line.partition("_bucket")[0] in _HISTOGRAMS:
                    continue
                file.writelines(f"{line} {began + at}\n" for at in range(start, end, _INTERVAL_S))
        for at in range(0, _WELL_S + _ILL_S, _INTERVAL_S):
            file.writelines(f"{line} {began + at}\n" for line in _delays(at, is_ill=at >= _WELL_S))
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


def _chosen(expr: str) -> str:
    """Return the expression with the choice 'prod, all brokers', of the fleet 'all clusters'."""
    return (
        expr.replace('cluster="$cluster"', 'cluster="prod"')
        .replace('cluster=~"$cluster"', 'cluster=~".+"')
        .replace("$broker", ".+")
    )


@pytest.mark.parametrize("made", BOARDS, ids=lambda made: made.name)
def test_every_query_of_a_board_is_answered(asked: Asked, made: Board) -> None:
    """No panel stays empty: each query, asked as Grafana asks it, gives data at some moment."""
    for panel in json.loads(render(made))["panels"]:
        for target in panel.get("targets", []):
            expr = _chosen(target["expr"])
            if target["instant"]:
                told: list[Any] = [asked.at(expr, moment) for moment in asked.moments]
            else:
                told = asked.over_time(expr)
            assert any(told), f"{panel['title']}: {expr}"


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
def test_every_signal_moves_when_what_it_tells_of_happens(asked: Asked, signal: Signal) -> None:
    """What is always the same tells nothing: between well and ill each answer changes."""
    expr = _chosen((signal.for_fleet() if "cluster" in signal.name else signal).on_board())
    told = [asked.at(expr, moment) for moment in asked.moments]
    assert any(told), expr
    assert any(one != told[0] for one in told[1:]), told[0]


@pytest.mark.parametrize("made", BOARDS, ids=lambda made: made.name)
def test_what_is_drawn_over_the_graphs_is_answered(asked: Asked, made: Board) -> None:
    """Each annotation's query gives data, and its times are those of what happened."""
    for mark in json.loads(render(made)).get("annotations", {}).get("list", []):
        told = [asked.at(_chosen(mark["expr"]), moment) for moment in asked.moments]
        assert any(told), mark["name"]
        if mark["useValueForTime"] == "on":
            times = [value for each in told for value in each.values()]
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
    trouble = next(signal for signal in SIGNALS if signal.name == "trouble").for_fleet()
    told = asked.at(_chosen(trouble.on_board()), asked.moments[-1])
    by_cluster = {json.loads(labels)["cluster"]: value for labels, value in told.items()}
    assert by_cluster == {"prod": 16 + 8 + 4 + 2 + 1, "other": 0}


def test_all_that_is_asked_for_is_served() -> None:
    """The exporter's own rendering of the two states holds every metric that a signal names."""
    served = {re.split("[{ ]", line)[0] for state in (well(), ill()) for line in _samples(state)}
    asked_for = {name for s in SIGNALS for name in re.findall(r"\b(?:kafka|kcm)_\w+", s.expr)}
    assert asked_for <= served
