"""Measure a resync with each way of watching: the whole tree from ZooKeeper into the log.

The scenario has a cluster of znodes on a real ZooKeeper, the watcher alone with its shipped
settings, and a reader of the log that takes the time between a resync's two marks, as the watcher
wrote them.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from bench import machine
from bench.watched import Watched, znode_cluster
from bench.znodes import Size
from controller_model.records.changes import ChangeKind, ZnodeChange, decode_message
from kcm.servers.kafka import KraftBroker
from pipeline.settings import load
from pipeline.stop_signal import StopSignal
from zk_source.config import WatchSettings
from zk_source.service.service import run
from zk_source.watcher.subscriptions import Watches

SUMMARY = "a resync of 20,000 znodes, by recursive and by one-shot watches (about 1 minute)"

SIZE = Size(topics=100, per_topic=100)  # each partition is two znodes: its directory and its state
WAYS = (Watches.RECURSIVE, Watches.ONE_SHOT)
RUNS = 3
DEADLINE_S = 120.0


def measure() -> dict[str, Any]:
    """Create the cluster, resync it a few times with each way, and return the times in seconds."""
    with znode_cluster(SIZE) as watched:
        broker = KraftBroker(watched.supervisor, watched.jars, watched.folder / "kafka")
        broker.start()
        ways = {way.value: _way(watched, broker, way) for way in WAYS}
    return {
        "scenario": "resync",
        "ways": ways,
        "settings": {"znodes": watched.znodes, "partitions": SIZE.partitions, "runs": RUNS},
        "machine": machine.describe(),
    }


def _way(watched: Watched, broker: KraftBroker, way: Watches) -> dict[str, float | list[float]]:
    names = (f"{way.value}{number}" for number in range(RUNS))
    times = [resync(watched.zookeeper, broker, way, name) for name in names]
    median = machine.percentile(times, 50)
    return {
        "median_s": round(median, 3),
        "runs_s": [round(seconds, 3) for seconds in times],
        "znodes_per_s": round(watched.znodes / median),
    }


def resync(zookeeper: str, broker: KraftBroker, way: Watches, prefix: str) -> float:
    """Run a watcher until its first resync is in the log of this prefix; return how long that took, in seconds."""
    settings = load(
        WatchSettings,
        cluster="bench",
        zookeeper=zookeeper,
        bootstrap_servers=broker.bootstrap_servers,
        topic_prefix=prefix,
        watcher_metrics_port=0,
        zk_watches=way.value,
    )
    stop = StopSignal()
    watcher = threading.Thread(target=run, args=(settings, stop), daemon=True)
    watcher.start()
    try:
        began, ended = _marks(settings)
    finally:
        stop.set()
        watcher.join()
    return (ended.observed_at - began.observed_at) / 1000


def _marks(settings: WatchSettings) -> tuple[ZnodeChange, ZnodeChange]:
    options = {"bootstrap.servers": settings.bootstrap_servers, "group.id": "bench"}
    consumer = Consumer({**options, "auto.offset.reset": "earliest", "log_level": 2})
    consumer.assign([TopicPartition(f"{settings.topic_prefix}.changes", 0, 0)])
    marks: dict[ChangeKind, ZnodeChange] = {}
    deadline = time.monotonic() + DEADLINE_S
    try:
        while ChangeKind.RESYNC_FINISHED not in marks:
            if time.monotonic() > deadline:
                raise OSError(f"no resync within {DEADLINE_S:.0f} s")
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                for change in decode_message(message.value() or b"").changes:
                    marks.setdefault(change.kind, change)
    finally:
        consumer.close()
    return marks[ChangeKind.RESYNC_STARTED], marks[ChangeKind.RESYNC_FINISHED]
