"""The real end-to-end delay: from a write to ZooKeeper to its value in a scrape.

A cluster of znodes on a real ZooKeeper, the whole pipeline with its shipped settings, a plain
client that moves the leader of one partition per change, and a scraper that polls /metrics. A
change is shown when `kafka_broker_leaders` of the broker that gains leaders has reached its number:
the count is that high only when this change and all before it are folded.
"""

from __future__ import annotations

import http.client
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kazoo.client import KazooClient

from bench import machine
from kcm.jars.jars import ensure_jars
from kcm.local.pipeline_processes import Pipeline
from kcm.processes.supervisor import Supervisor
from kcm.stack.zookeeper import ZooKeeper

SUMMARY = "a znode is written, its value is scraped: p50 and p99, by stage (about 3 minutes)"

CLUSTER = "bench"
CHANGES = 1_000
RATE_PER_S = 10.0
WARM_UP_S = 30.0  # about 100 micro-batches until the JVM has compiled the hot paths
PARTITIONS = 10
TOPICS = int(WARM_UP_S * RATE_PER_S + CHANGES) // PARTITIONS  # each change has its own partition
SCRAPE_PAUSE_S = (
    0.025  # adds half of itself to each figure, and leaves the processor to the pipeline
)
STRAGGLERS_S = 15.0
OLD_LEADER, NEW_LEADER = 1, 2
_LEADERS = re.compile(
    rf'^kafka_broker_leaders{{cluster="{CLUSTER}",broker="{NEW_LEADER}"}} (\S+)$', re.MULTILINE
)


def measure() -> dict[str, Any]:
    """Start everything, warm up, write the changes, and return the delays in milliseconds."""
    jars = ensure_jars()
    with (
        tempfile.TemporaryDirectory(prefix="kcm-bench-") as folder,
        Supervisor(Path(folder), kill_on_exit=True) as supervisor,
    ):
        zookeeper = ZooKeeper(supervisor, jars, Path(folder) / "zookeeper")
        zookeeper.start()
        writer = KazooClient(zookeeper.connect_string)
        writer.start()
        try:
            make_cluster(writer)
            pipeline = Pipeline(
                supervisor=supervisor,
                jars=jars,
                data_dir=Path(folder) / "pipeline",
                cluster=CLUSTER,
                zookeeper=zookeeper.connect_string,
            )
            pipeline.start()
            pipeline.processes["stream"].wait_ready()
            return _run(writer, pipeline)
        finally:
            writer.stop()
            writer.close()


def _run(writer: KazooClient, pipeline: Pipeline) -> dict[str, Any]:
    stop = threading.Event()
    scraped = Scraper(pipeline.exporter_url, stop)
    changes = _Topic(pipeline.bootstrap_servers, "kcm.changes", _changed_paths, stop)
    views = _Topic(pipeline.bootstrap_servers, "kcm.views", _leaders_in_views, stop)
    threads = [scraped, changes, views]
    for thread in threads:
        thread.start()
    changes.ready.wait()
    views.ready.wait()
    warm_up = int(WARM_UP_S * RATE_PER_S)
    written = _write(writer, warm_up + CHANGES)
    deadline = time.monotonic() + STRAGGLERS_S
    while time.monotonic() < deadline and scraped.reached < warm_up + CHANGES:
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    return _result(written[warm_up:], warm_up, scraped, changes, views)


def _write(writer: KazooClient, count: int) -> list[tuple[str, float]]:
    """Move the leader of one partition after the other; return (path, wall time before it)."""
    written = []
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number / RATE_PER_S - time.monotonic()))
        written.append((_state_path(number), time.time()))
        move_leader(writer, number)
    return written


def _result(
    written: list[tuple[str, float]],
    warm_up: int,
    scraped: Scraper,
    changes: _Topic,
    views: _Topic,
) -> dict[str, Any]:
    stages: dict[str, list[float]] = {"watch": [], "produce": [], "fold": [], "serve": []}
    total = []
    for index, (path, wrote) in enumerate(written):
        number = warm_up + index + 1
        observed, produced = changes.first[path]
        folded = views.when_reached(number)
        shown = scraped.when_reached(number)
        if folded is None or shown is None:
            continue
        stages["watch"].append(observed - wrote)
        stages["produce"].append(produced - observed)
        stages["fold"].append(folded - produced)
        stages["serve"].append(shown - folded)
        total.append(shown - wrote)
    return {
        "scenario": "delay",
        "p50_ms": _ms(total, 50),
        "p99_ms": _ms(total, 99),
        "samples": len(total),
        "lost": len(written) - len(total),
        "stages": {
            name: {"p50_ms": _ms(values, 50), "p99_ms": _ms(values, 99)}
            for name, values in stages.items()
        },
        "offsets_moved": {"kcm.changes": changes.moved, "kcm.views": views.moved},
        "settings": {
            "changes": CHANGES,
            "rate_per_s": RATE_PER_S,
            "warm_up_s": WARM_UP_S,
            "partitions": TOPICS * PARTITIONS,
            "scrape_pause_ms": SCRAPE_PAUSE_S * 1000,
            "pipeline": "as shipped",
        },
        "machine": machine.describe(),
    }


def _ms(seconds: list[float], percent: float) -> float | None:
    return round(machine.percentile(seconds, percent) * 1000, 1) if seconds else None


class _Reached:
    """When a rising count first was at least so much."""

    def __init__(self) -> None:
        self.reached = 0
        self._times: list[float] = []

    def note(self, count: int, now: float) -> None:
        """Take a newer value of the count."""
        if count > self.reached:
            self._times += [now] * (count - self.reached)
            self.reached = count

    def when_reached(self, count: int) -> float | None:
        """Return when the count first was at least that; None if it never was."""
        return self._times[count - 1] if count <= len(self._times) else None


class Scraper(threading.Thread, _Reached):
    """Polls /metrics on one connection."""

    def __init__(self, url: str, stop: threading.Event) -> None:
        threading.Thread.__init__(self, daemon=True)
        _Reached.__init__(self)
        self._address = url.removeprefix("http://")
        self._stop_polling = stop

    def run(self) -> None:
        """Scrape until asked to stop."""
        connection = http.client.HTTPConnection(self._address, timeout=10)
        while not self._stop_polling.is_set():
            connection.request("GET", "/metrics")
            body = connection.getresponse().read().decode()
            found = _LEADERS.search(body)
            if found:
                self.note(int(float(found.group(1))), time.time())
            time.sleep(SCRAPE_PAUSE_S)
        connection.close()


class _Topic(threading.Thread, _Reached):
    """Reads a topic from its end on, as a stranger would."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        take: Callable[[_Topic, bytes, float], None],
        stop: threading.Event,
    ) -> None:
        threading.Thread.__init__(self, daemon=True)
        _Reached.__init__(self)
        self.first: dict[str, tuple[float, float]] = {}
        self.ready = threading.Event()
        self.moved = 0
        self._topic = topic
        self._take = take
        self._stop_reading = stop
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "bench",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 5,
            }
        )

    def run(self) -> None:
        """Read until asked to stop."""
        partition = TopicPartition(self._topic, 0)
        end = self._consumer.get_watermark_offsets(partition, timeout=10)[1]
        self._consumer.assign([TopicPartition(self._topic, 0, end)])
        self.ready.set()
        while not self._stop_reading.is_set():
            message = self._consumer.poll(0.2)
            if message is None or message.error():
                continue
            now, value = time.time(), message.value()
            self.moved = (message.offset() or 0) + 1 - end
            if value is not None:
                self._take(self, value, now)
        self._consumer.close()


def _changed_paths(topic: _Topic, value: bytes, now: float) -> None:
    for change in json.loads(value):
        if change["kind"] == "set":
            topic.first[change["path"]] = (change["observed_at"] / 1000, now)


def _leaders_in_views(topic: _Topic, value: bytes, now: float) -> None:
    view = json.loads(value)
    if view["view"] == "broker" and view["id"] == NEW_LEADER:
        topic.note(view["leaders"], now)


def make_cluster(client: KazooClient) -> None:
    """Write the znodes of a small cluster."""
    for broker in (1, 2, 3):
        registration = {"version": 5, "host": "localhost", "port": 9092, "endpoints": []}
        payload = json.dumps(registration | {"timestamp": "0"}).encode()
        client.create(f"/brokers/ids/{broker}", payload, ephemeral=True, makepath=True)
    controller = {"version": 2, "brokerid": 3, "timestamp": "0", "kraftControllerEpoch": -1}
    client.create("/controller_epoch", b"1")
    client.create("/controller", json.dumps(controller).encode(), ephemeral=True)
    for topic in range(TOPICS):
        replicas = {str(partition): [1, 2, 3] for partition in range(PARTITIONS)}
        payload = json.dumps({"version": 2, "partitions": replicas}).encode()
        client.create(f"/brokers/topics/topic-{topic}", payload, makepath=True)
        for partition in range(PARTITIONS):
            path = _state_path(topic * PARTITIONS + partition)
            client.create(path, _state(OLD_LEADER, 0), makepath=True)


def move_leader(client: KazooClient, number: int) -> None:
    """Write a state with another leader for the partition of that number."""
    client.set(_state_path(number), _state(NEW_LEADER, 1))


def _state_path(number: int) -> str:
    topic, partition = divmod(number, PARTITIONS)
    return f"/brokers/topics/topic-{topic}/partitions/{partition}/state"


def _state(leader: int, leader_epoch: int) -> bytes:
    state = {
        "controller_epoch": 1,
        "leader": leader,
        "version": 1,
        "leader_epoch": leader_epoch,
        "isr": [1, 2, 3],
    }
    return json.dumps(state).encode()
