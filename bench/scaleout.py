"""Run the shipped query on a standalone Spark cluster, with clusters spread over its workers, and kill a worker.

There is one watched cluster, and eleven whose logs are written as their watchers would. A change is
shown when the view that commits it is in the pipeline's Kafka. At the end every cluster's views are
compared with a replay of its log by the model alone, in one pass.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bench import machine
from bench.load import LogLoad, LogWriter, messages
from bench.shown import FETCH_WAIT_MS
from bench.spark_cluster import SparkCluster
from bench.watched import znode_cluster
from bench.znodes import Size
from controller_model.fold.projection import SentViews, project
from controller_model.fold.replay import EventBatch
from controller_model.kafka.ids import AsOf, Position
from controller_model.records.changes import decode_message, encode_change, join_changes
from controller_model.records.views import BrokerView, ClusterView, TopicView, decode_view
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.control_plane import Assumed, ControlPlane
from kcm.run.pipeline_processes import Pipeline
from pipeline.clock import clock_ms
from pipeline.runtime import UnreachableError

SUMMARY = (
    "12 clusters on a standalone Spark cluster of 3 workers, one of which is killed (2 minutes)"
)

WORKERS = 3
CORES = 2
"""Cores of each worker: the remaining ones have one for each partition of the log."""
PARTITIONS = 4  # of the pipeline's topics: clusters are folded in parallel over them
OTHERS = 11
SIZE = Size(100, 10)
BROKERS = 3
RATE_PER_S = 5.0
PHASE_S = 30.0
DEADLINE_S = 180.0


def measure() -> dict[str, Any]:
    """Start everything, fold all clusters, kill a worker during changes; return times and shares."""
    with znode_cluster(SIZE) as watched:
        began = time.monotonic()
        spark = SparkCluster(
            watched.supervisor, watched.folder / "spark", workers=WORKERS, cores=CORES
        )
        spark.start()
        pipeline = watched.pipeline(options={"partitions": str(PARTITIONS), **spark.options()})
        pipeline.start()
        pipeline.processes["stream"].wait_ready()
        return _run(spark, pipeline, began)


def _run(spark: SparkCluster, pipeline: Pipeline, began: float) -> dict[str, Any]:
    now_ms = clock_ms()
    size = {"topics": SIZE.topics, "partitions": SIZE.per_topic, "brokers": BROKERS}
    loads = {
        name: LogLoad(name, **size, began_ms=now_ms)
        for name in (f"cluster-{number}" for number in range(OTHERS))
    }
    log = LogWriter(pipeline.bootstrap_servers, PARTITIONS)
    views = _Views(pipeline.bootstrap_servers)
    views.start()
    for name, load in loads.items():
        log.write(name, messages(load.resync()))
    changes = _Changes(loads, log, views)
    changes.await_each_cluster()
    folded_s = time.monotonic() - began
    before_s = _cpu_s(spark)
    before = changes.write_for(PHASE_S)
    shares = {name: used - before_s[name] for name, used in _cpu_s(spark).items()}
    spark.workers["worker-1"].kill()
    killed = changes.write_for(PHASE_S)
    after = changes.write_for(PHASE_S)
    views.stop()
    compared, differing = _compare(pipeline.bootstrap_servers, views)
    return {
        "scenario": "scaleout",
        "clusters": OTHERS + 1,
        "partitions": (OTHERS + 1) * SIZE.partitions,
        "workers": WORKERS,
        "folded_s": round(folded_s, 1),
        "share_percent": {
            name: round(100 * used / sum(shares.values())) for name, used in shares.items()
        },
        "before": before,
        "killed": killed,
        "after": after,
        "views_compared": compared,
        "views_differing": differing,
        "settings": {"cores of a worker": CORES, "partitions of the log": PARTITIONS},
        "machine": machine.describe(),
    }


def _cpu_s(spark: SparkCluster) -> dict[str, float]:
    """Return the processor time of each worker, including its executor and the executor's Python."""
    return {
        name: machine.added(machine.usage(worker.pid).values()).cpu_s
        for name, worker in spark.workers.items()
        if worker.pid is not None
    }


class _Views(threading.Thread):
    """Reads the views: the newest of each key, and when each cluster had reached which position."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(daemon=True)
        self.newest: dict[str, bytes | None] = {}
        self._commits: dict[str, list[tuple[Position, float]]] = defaultdict(list)
        self._bootstrap_servers = bootstrap_servers
        self._stopped = threading.Event()

    def run(self) -> None:
        """Read until asked to stop."""
        for key, value in _records(self._bootstrap_servers, "kcm.views", self._stopped):
            now = time.time()
            self.newest[key] = value
            view = decode_view(value) if value else None
            if isinstance(view, ClusterView):
                place = view.as_of.position
                self._commits[view.cluster].append((place, now))

    def stop(self) -> None:
        """Stop it."""
        self._stopped.set()
        self.join()

    def when_shown(self, cluster: str, place: Position) -> float | None:
        """Return when the views of a cluster first included everything up to a position of its log."""
        commits = list(self._commits[cluster])
        return next((at for held, at in commits if held >= place), None)


class _Written(NamedTuple):
    """A change in a log."""

    cluster: str
    place: Position
    at: float


class _Changes:
    """Moves leaders, in one cluster after another."""

    def __init__(self, loads: dict[str, LogLoad], log: LogWriter, views: _Views) -> None:
        self._loads = loads
        self._log = log
        self._views = views
        self._names = itertools.cycle(loads)

    def await_each_cluster(self) -> None:
        """Write a change to each cluster, and wait until all are shown."""
        self._await([self._write() for _ in self._loads])

    def write_for(self, seconds: float) -> dict[str, Any]:
        """Write at a constant rate for so long; return the delays until changes were shown, in milliseconds."""
        written = []
        due = time.monotonic()
        for _ in range(int(seconds * RATE_PER_S)):
            time.sleep(max(0.0, due - time.monotonic()))
            due += 1 / RATE_PER_S
            written.append(self._write())
        delays = [shown - each.at for each, shown in self._await(written)]
        return {
            "samples": len(delays),
            "p50_ms": round(machine.percentile(delays, 50) * 1000),
            "most_ms": round(max(delays) * 1000),
        }

    def _write(self) -> _Written:
        name = next(self._names)
        (change,) = self._loads[name].changes(1)
        at = time.time()
        self._log.write(name, [join_changes([encode_change(change)])])
        return _Written(name, change.position, at)

    def _await(self, written: list[_Written]) -> list[tuple[_Written, float]]:
        deadline = time.monotonic() + DEADLINE_S
        shown: list[tuple[_Written, float]] = []
        for each in written:
            while (at := self._views.when_shown(each.cluster, each.place)) is None:
                if time.monotonic() >= deadline:
                    raise UnreachableError(
                        f"a change of {each.cluster} is not shown {DEADLINE_S:g} s after it"
                    )
                time.sleep(0.05)
            shown.append((each, at))
        return shown


def _records(
    bootstrap_servers: str, topic: str, stopped: threading.Event | None = None
) -> Iterator[tuple[str, bytes | None]]:
    """Yield a topic's keys and values from its beginning; to its current end, or until stopped."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
        }
    )
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
    ended = 0
    while not stopped.is_set() if stopped else ended < PARTITIONS:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            ended += 1
            continue
        yield (message.key() or b"").decode(), message.value()
    consumer.close()


def _compare(bootstrap_servers: str, views: _Views) -> tuple[int, int]:
    """Replay each log; return the number of views, and how many differ from the views that were read."""
    logs: dict[str, list[bytes]] = defaultdict(list)
    for key, value in _records(bootstrap_servers, "kcm.changes"):
        if value:
            logs[key].append(value)
    compared = differing = 0
    for cluster, log in logs.items():
        for key, expected in _replayed(cluster, log):
            value = views.newest.get(key)
            compared += 1
            differing += value is None or _facts(decode_view(value)) != expected
    return compared, differing


def _replayed(cluster: str, log: list[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    control = ControlPlane(cluster, assumed=Assumed(), counters_since=0)
    state = ClusterState(control, MemoryTopicStore(), ZOOKEEPER)
    batch = EventBatch(state)
    for message in log:
        for change in decode_message(message).changes:
            batch.apply(change)
    batch.finish()
    as_of = AsOf("replayed", *control.log.position)
    for projected in project(state, as_of=as_of, folded_at=0, sent=SentViews()):
        if isinstance(projected.view, TopicView | BrokerView | ClusterView):
            yield projected.key, _facts(projected.view)


def _facts(view: Any) -> dict[str, Any]:
    """Return a view's facts about the cluster, without when and by which lineage it was written."""
    if isinstance(view, ClusterView):
        kept = "controller counts leader_elections unclean_elections isr_shrinks isr_expands"
        facts = {name: getattr(view, name) for name in kept.split()}
        return facts | {"znodes": view.log.znodes, "digest": view.log.digest}
    facts = msgspec.structs.asdict(view)
    del facts["as_of"]
    return facts
