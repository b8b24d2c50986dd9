"""How fast a resync is, by each way of watching: the whole tree from ZooKeeper into the log.

A cluster of znodes on a real ZooKeeper, the watcher alone with its shipped settings, and a reader of
the log that takes the time between a resync's two marks, as the watcher wrote them.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kazoo.client import KazooClient

from bench import machine
from controller_model.records.changes import ChangeKind, ZnodeChange, decode_message
from kcm.jars.jars import ensure_jars
from kcm.processes.supervisor import Supervisor
from kcm.stack.kafka import KraftBroker
from kcm.stack.zookeeper import ZooKeeper
from pipeline.settings import load
from zk_source.config import WatchSettings
from zk_source.service.service import run
from zk_source.watcher.subscriptions import Watches

SUMMARY = "a resync of 20,000 znodes, by recursive and by one-shot watches (about 1 minute)"

TOPICS = 100
PARTITIONS = 100  # each is two znodes: its directory and its state
RUNS = 3
AT_ONCE = 1_000  # creates under way while the cluster is made
DEADLINE_S = 120.0
_STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,3]}'


def measure() -> dict[str, Any]:
    """Make the cluster, resync it a few times by each way, and return the times in seconds."""
    jars = ensure_jars()
    with (
        tempfile.TemporaryDirectory(prefix="kcm-bench-") as folder,
        Supervisor(Path(folder), kill_on_exit=True) as supervisor,
    ):
        zookeeper = ZooKeeper(supervisor, jars, Path(folder) / "zookeeper")
        zookeeper.start()
        broker = KraftBroker(supervisor, jars, Path(folder) / "kafka")
        broker.start()
        znodes = _make_cluster(zookeeper.connect_string)
        ways = {}
        for way in (Watches.RECURSIVE, Watches.ONE_SHOT):
            times = [_resync(zookeeper, broker, way, number) for number in range(RUNS)]
            median = machine.percentile(times, 50)
            ways[way.value] = {
                "median_s": round(median, 3),
                "runs_s": [round(seconds, 3) for seconds in times],
                "znodes_per_s": round(znodes / median),
            }
    return {
        "scenario": "resync",
        "ways": ways,
        "settings": {"znodes": znodes, "partitions": TOPICS * PARTITIONS, "runs": RUNS},
        "machine": machine.describe(),
    }


def _resync(zookeeper: ZooKeeper, broker: KraftBroker, way: Watches, number: int) -> float:
    """Run a watcher until its first resync is in the log; return how long that took."""
    settings = load(
        WatchSettings,
        cluster="bench",
        zookeeper=zookeeper.connect_string,
        bootstrap_servers=broker.bootstrap_servers,
        topic_prefix=f"{way.value}{number}",
        watcher_metrics_port=0,
        zk_watches=way.value,
    )
    stop = threading.Event()
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


def _make_cluster(zookeeper: str) -> int:
    """Make the znodes; return how many."""
    client = KazooClient(zookeeper)
    client.start()
    nodes = [("/brokers", b""), ("/brokers/ids", b""), ("/brokers/topics", b"")]
    nodes += [(f"/brokers/ids/{broker}", b"{}") for broker in (1, 2, 3)]
    assignment = ",".join(f'"{partition}":[1,2,3]' for partition in range(PARTITIONS))
    payload = b'{"version":2,"partitions":{%s}}' % assignment.encode()
    for topic in range(TOPICS):
        path = f"/brokers/topics/topic-{topic}"
        nodes += [(path, payload), (f"{path}/partitions", b"")]
        for partition in range(PARTITIONS):
            directory = f"{path}/partitions/{partition}"
            nodes += [(directory, b""), (f"{directory}/state", _STATE)]
    try:
        for begin in range(0, len(nodes), AT_ONCE):
            made = [client.create_async(*node) for node in nodes[begin : begin + AT_ONCE]]
            for result in made:
                result.get()
    finally:
        client.stop()
        client.close()
    return len(nodes)
