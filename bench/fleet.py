"""Fifty clusters in one pipeline, of which one is read again: what the others feel.

One cluster is watched on a real ZooKeeper and its delay is measured as in `delay`; the logs of the
others are written as their watchers would.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from bench import delay, machine
from bench.load import LogLoad, LogWriter, messages
from bench.shown import Scraper, leaders_of
from bench.watched import CLUSTER, watched_cluster
from bench.znodes import ZnodeCluster
from controller_model.records.changes import encode_change, join_changes
from kcm.local.pipeline_processes import Pipeline
from pipeline.clock import clock_ms

SUMMARY = "50 clusters, one of which resyncs 200,000 partitions: its time, the others' delay"

SMALL_CLUSTERS = 48
SMALL = {"topics": 10, "partitions": 10, "brokers": 3}
LARGE = {"topics": 2_000, "partitions": 100, "brokers": 100}
LARGE_CLUSTER = "large"
PARTITIONS = 4  # of the pipeline's topics: clusters are folded in parallel over them
RATE_PER_S = 5.0
QUIET_S = 30.0  # enough for some 150 delays before the large cluster comes
AFTER_S = 10.0
DEADLINE_S = 300.0
HEARTBEAT_S = 10.0
_PARTITIONS = re.compile(r'^kafka_cluster_partitions\{cluster="(.+?)"\} (\S+)$', re.MULTILINE)


def measure() -> dict[str, Any]:
    """Start everything, fold 49 clusters, then the large one; return times and memory."""
    options = {"partitions": str(PARTITIONS)}
    with watched_cluster(delay.SIZE, options=options) as (cluster, pipeline):
        return _run(cluster, pipeline)


def _run(cluster: ZnodeCluster, pipeline: Pipeline) -> dict[str, Any]:
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
    count = leaders_of(delay.NEW_LEADER, CLUSTER)
    scraped = Scraper(pipeline.exporter_url, count, stop)
    scraped.start()
    changes = _Changes(cluster, stop)
    changes.start()
    time.sleep(QUIET_S)
    large = LogLoad(LARGE_CLUSTER, **LARGE, began_ms=clock_ms())
    whole = list(messages(large.resync()))
    began = time.time()
    log.write(LARGE_CLUSTER, whole)
    partitions = LARGE["topics"] * LARGE["partitions"]
    _wait_for(
        pipeline,
        lambda shown: shown.get(LARGE_CLUSTER) == partitions,
        "the large cluster",
    )
    ended = time.time()
    time.sleep(AFTER_S)
    stop.set()
    for thread in (beats, scraped, changes):
        thread.join()
    return {
        "scenario": "fleet",
        "clusters": SMALL_CLUSTERS + 2,
        "large_partitions": partitions,
        "large_messages": len(whole),
        "large_shown_after_s": round(ended - began, 1),
        "delay_before": _delays(changes.written, scraped, until=began),
        "delay_during": _delays(changes.written, scraped, since=began, until=ended),
        "peak_memory_mib": {
            name: machine.peak_memory_mib(process.pid)
            for name, process in pipeline.processes.items()
            if process.pid is not None
        },
        "settings": {"partitions": PARTITIONS, "pipeline": "otherwise as shipped"},
        "machine": machine.describe(),
    }


def _delays(
    written: list[float], scraped: Scraper, *, since: float = 0.0, until: float
) -> dict[str, float | int | None]:
    delays = []
    for number, wrote in enumerate(written, start=1):
        shown = scraped.when_reached(number)
        if shown is not None and since <= wrote < until:
            delays.append(shown - wrote)
    if not delays:
        return {"samples": 0, "p50_ms": None, "max_ms": None}
    return {
        "samples": len(delays),
        "p50_ms": round(machine.percentile(delays, 50) * 1000, 1),
        "max_ms": round(max(delays) * 1000, 1),
    }


def _wait_for(pipeline: Pipeline, reached: Callable[[dict[str, int]], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        shown = _shown(pipeline.exporter_url)
        if reached(shown):
            return
        if time.monotonic() >= deadline:
            stream = pipeline.processes["stream"]
            raise stream.not_ready(what, DEADLINE_S, f"{len(shown)} clusters")
        time.sleep(0.1)


def _shown(url: str) -> dict[str, int]:
    """Return each cluster that the exporter shows, with its partitions."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:  # noqa: S310  # an address of our own
        body = answer.read().decode()
    return {name: int(float(partitions)) for name, partitions in _PARTITIONS.findall(body)}


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
