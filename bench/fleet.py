"""Fifty clusters in one pipeline: what the others feel while a large one is read.

One cluster is watched on a real ZooKeeper and its delay is measured as in `delay`; the logs of the
other small ones are written as their watchers would. Then a real watcher reads a large cluster, and
later there is a backlog: the whole of another one is in the log at once, as a fold finds it that
was away.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any, NamedTuple

from bench import delay, machine
from bench.load import LogLoad, LogWriter, messages
from bench.shown import Scraper, leaders_of
from bench.watched import CLUSTER, Watched, znode_cluster
from bench.znodes import Size, ZnodeCluster, connected
from controller_model.records.changes import encode_change, join_changes
from kcm.run.pipeline_processes import Pipeline
from kcm.servers.supervisor import Supervisor
from pipeline.clock import clock_ms

SUMMARY = "51 clusters, two of 200,000 partitions: their resync, a backlog; the others' delay"

SMALL_CLUSTERS = 48
SMALL = {"topics": 10, "partitions": 10, "brokers": 3}
LARGE = {"topics": 2_000, "partitions": 100, "brokers": 100}
RESYNCED_CLUSTER = "resynced"
"""Its log has a partition in common with the cluster whose delay is measured."""
BACKLOG_CLUSTER = "large"
PARTITIONS = 4  # of the pipeline's topics: clusters are folded in parallel over them
RATE_PER_S = 5.0
QUIET_S = 30.0  # enough for some 150 delays before the large cluster comes
AFTER_S = 10.0
DEADLINE_S = 300.0
HEARTBEAT_S = 10.0
_PROVEN = re.compile(r'^kcm_cluster_incomplete\{cluster="(.+?)"\} 0(?:\.0)?$', re.MULTILINE)


def measure() -> dict[str, Any]:
    """Start everything, fold 49 clusters, then the large ones; return times and memory."""
    large = Size(LARGE["topics"], LARGE["partitions"])
    with znode_cluster(delay.SIZE, others=large.partitions) as watched:
        watched.cluster.make_chroot(RESYNCED_CLUSTER)
        zookeeper = f"{watched.zookeeper}/{RESYNCED_CLUSTER}"
        with connected(zookeeper) as client:
            ZnodeCluster(client, large).make()
            return _run(watched, zookeeper)


def _run(watched: Watched, large_zookeeper: str) -> dict[str, Any]:
    pipeline = watched.pipeline(options={"partitions": str(PARTITIONS)})
    pipeline.start()
    pipeline.processes["stream"].wait_ready()
    log = LogWriter(pipeline.bootstrap_servers, PARTITIONS)
    now_ms = clock_ms()
    small = {f"small-{n}": SMALL for n in range(SMALL_CLUSTERS)}
    loads = {name: LogLoad(name, **size, began_ms=now_ms) for name, size in small.items()}
    for name, load in loads.items():
        log.write(name, messages(load.resync()))
    clusters = SMALL_CLUSTERS + 1
    _wait_for(pipeline, lambda shown: len(shown) == clusters, f"{clusters} clusters")
    stop = threading.Event()
    beats = threading.Thread(target=_beat, args=(log, loads, stop), daemon=True)
    beats.start()
    scraped = Scraper(pipeline.exporter_url, leaders_of(delay.NEW_LEADER, CLUSTER), stop)
    scraped.start()
    changes = _Changes(watched.cluster, stop)
    changes.start()
    time.sleep(QUIET_S)
    resync = _resync(watched, pipeline, large_zookeeper)
    time.sleep(AFTER_S)
    backlog = LogLoad(BACKLOG_CLUSTER, **LARGE, began_ms=clock_ms())
    whole = list(messages(backlog.resync()))
    flood = _until_shown(pipeline, BACKLOG_CLUSTER, lambda: log.write(BACKLOG_CLUSTER, whole))
    time.sleep(AFTER_S)
    stop.set()
    for thread in (beats, scraped, changes):
        thread.join()
    return {
        "scenario": "fleet",
        "clusters": clusters + 2,
        "large_partitions": LARGE["topics"] * LARGE["partitions"],
        "delay_before": _delays(changes.written, scraped, _Span(0.0, resync.began)),
        "resync_s": resync.lasted_s,
        "delay_in_resync": _delays(changes.written, scraped, resync),
        "backlog_messages": len(whole),
        "backlog_s": flood.lasted_s,
        "delay_in_backlog": _delays(changes.written, scraped, flood),
        "peak_memory_mib": {
            name: machine.peak_memory_mib(process.pid)
            for name, process in pipeline.processes.items()
            if process.pid is not None
        },
        "settings": {"partitions": PARTITIONS, "pipeline": "otherwise as shipped"},
        "machine": machine.describe(),
    }


class _Span(NamedTuple):
    """A time of the run, in seconds since 1970."""

    began: float
    ended: float

    @property
    def lasted_s(self) -> float:
        """How long it was."""
        return round(self.ended - self.began, 1)


def _resync(watched: Watched, pipeline: Pipeline, zookeeper: str) -> _Span:
    """Let a watcher read the large cluster; return when it did so."""
    folder = watched.folder / RESYNCED_CLUSTER
    # The other one has a watcher as well: processes of a supervisor have names of their own.
    with Supervisor(folder, kill_on_exit=True) as supervisor:
        of_large = Pipeline(
            supervisor=supervisor,
            jars=watched.jars,
            data_dir=folder,
            cluster=RESYNCED_CLUSTER,
            zookeeper=zookeeper,
            bootstrap_servers=pipeline.bootstrap_servers,
            options={"partitions": str(PARTITIONS)},
        )
        return _until_shown(pipeline, RESYNCED_CLUSTER, of_large.processes["watcher"].start)


def _until_shown(pipeline: Pipeline, cluster: str, begin: Callable[[], None]) -> _Span:
    """Begin something; return from when until all of the cluster was shown, and proven."""
    began = time.time()
    begin()
    _wait_for(pipeline, lambda shown: cluster in shown, f"the cluster {cluster}")
    return _Span(began, time.time())


def _delays(written: list[float], scraped: Scraper, span: _Span) -> dict[str, float | int | None]:
    delays = []
    for number, wrote in enumerate(written, start=1):
        shown = scraped.when_reached(number)
        if shown is not None and span.began <= wrote < span.ended:
            delays.append(shown - wrote)
    if not delays:
        return {"samples": 0, "p50_ms": None, "max_ms": None}
    return {
        "samples": len(delays),
        "p50_ms": round(machine.percentile(delays, 50) * 1000, 1),
        "max_ms": round(max(delays) * 1000, 1),
    }


def _wait_for(pipeline: Pipeline, reached: Callable[[set[str]], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        shown = _shown(pipeline.exporter_url)
        if reached(shown):
            return
        if time.monotonic() >= deadline:
            stream = pipeline.processes["stream"]
            raise stream.not_ready(what, DEADLINE_S, f"{len(shown)} clusters")
        time.sleep(0.1)


def _shown(url: str) -> set[str]:
    """Return the clusters that the exporter shows whole: all that ZooKeeper has of them is proven."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:  # noqa: S310  # an address of our own
        return set(_PROVEN.findall(answer.read().decode()))


def _beat(log: LogWriter, loads: dict[str, LogLoad], stop: threading.Event) -> None:
    """Write each cluster's heartbeat, spread over the interval, until asked to stop."""
    for name in itertools.cycle(loads):
        if stop.wait(HEARTBEAT_S / len(loads)):
            return
        beat = loads[name].heartbeat(clock_ms())
        log.write(name, [join_changes([encode_change(beat)])])


class _Changes(threading.Thread):
    """Moves one leader of the watched cluster after the other."""

    def __init__(self, cluster: ZnodeCluster, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.written: list[float] = []
        self._cluster = cluster
        self._stop_writing = stop

    def run(self) -> None:
        """Write until asked to stop, or until every partition has moved."""
        for number in range(delay.SIZE.partitions):
            if self._stop_writing.wait(1 / RATE_PER_S):
                return
            self.written.append(time.time())
            self._cluster.move(number)
