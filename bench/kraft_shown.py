"""Measure when what a KRaft cluster's controllers write is shown: in a scrape, beside others that ask the same cluster.

The controllers are real (the newest Kafka), the brokers speak the protocol and hold nothing (`fake_brokers`), the
pipeline is as shipped. Each delay begins with the time that the active controller gave the batch when it appended it, so Kafka's own
linger (controller.quorum.append.linger.ms, 25 ms) and the commit are part of it.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench import machine
from bench.fake_brokers import FakeCluster, fake_cluster
from bench.peers import Poll, shown_by
from bench.rest import cost, used
from bench.shown import (
    SCRAPE_PAUSE_S,
    STORM_SCRAPE_PAUSE_S,
    Reached,
    Scraper,
    TopicReader,
    medians,
    value_of,
)
from bench.watched import CLUSTER
from controller_model.kafka import metadata_records as kafka
from controller_model.kafka.ids import TopicPartition
from controller_model.records.changes import decode_message
from controller_model.records.metadata_log import MetadataSlice
from kcm.run.pipeline_processes import Pipeline
from kcm.servers.process import Process
from pipeline.runtime import EnvironmentProblemError

LEADER, SECOND, THIRD = SMALL = (11, 12, 13)
"""Each leads a third of the partitions; LEADER is fenced."""
WIDE = (14, 15, 16)
"""Each has a replica of all partitions of another set; the last is fenced."""
REAL = 1
"""A real broker without partitions: whom clients of brokers ask."""
PER_TOPIC = 10
PER_WIDE_TOPIC = 100
RATE_PER_S = 10.0
STORM_PER_S = 3_000
AT_ONCE = 250
"""Changes in a request at that rate."""
SCRAPE_INTERVAL_S = 15.0
SETTLE_S = 10.0
DEADLINE_S = 120.0
POLL_S = 0.02
LIVE_DEADLINE_S = 900.0
SNAPSHOT_DEADLINE_S = 300.0
SNAPSHOT_BYTES = 32
"""Of the log for each partition, about a third of all."""
METADATA_LOG = "__cluster_metadata-0"


class AppendedReader(TopicReader):
    """Reads the log of kcm, and notes when the controller appended what is in it."""

    def __init__(self, pipeline: Pipeline, stop: threading.Event) -> None:
        super().__init__(pipeline.bootstrap_servers, "kcm.changes", self._note, stop)
        self.changes: list[float] = []
        """Of each change of a partition, in their order."""
        self.arrived: list[float] = []
        """When each of them was read from the log of kcm."""
        self.elections: list[tuple[int, float]] = []
        """The controller that was elected, and when."""

    def _note(self, value: bytes, now: float) -> None:
        for record in decode_message(value).metadata:
            if not isinstance(record, MetadataSlice):
                continue
            for batch in record.batches:
                for each in batch.records:
                    if isinstance(each, kafka.PartitionChange):
                        self.changes.append(batch.at / 1000)
                        self.arrived.append(now)
                    elif isinstance(each, kafka.LeaderChange):
                        self.elections.append((each.leader_id, batch.at / 1000))


UNDER_REPLICATED = value_of("kafka_cluster_under_replicated_partitions", cluster=CLUSTER)
PARTITIONS = value_of("kafka_cluster_partitions", cluster=CLUSTER)
ELECTIONS = value_of("kafka_controller_elections_total", cluster=CLUSTER)


def led_by_others(before: int) -> Callable[[str], int | None]:
    """Return a function that counts how many more partitions other brokers lead than before."""
    pattern = re.compile(
        rf'^kafka_broker_leaders{{cluster="{CLUSTER}",broker="(\d+)"}} (\S+)$', re.MULTILINE
    )

    def read(body: str) -> int | None:
        led = {int(broker): int(float(value)) for broker, value in pattern.findall(body)}
        return sum(count for broker, count in led.items() if broker != LEADER) - before

    return read


def pipeline_of(cluster: FakeCluster, name: str = "pipeline") -> Pipeline:
    """Describe a pipeline as shipped that watches the cluster."""
    return Pipeline(
        supervisor=cluster.supervisor,
        jars=cluster.jars,
        data_dir=cluster.folder / name,
        cluster=CLUSTER,
        zookeeper=None,
        options={"controllers": cluster.controllers},
    )


@contextmanager
def watched(partitions: int) -> Iterator[tuple[FakeCluster, Pipeline]]:
    """Make a cluster of this size and start the pipeline."""
    with fake_cluster(brokers=(REAL,)) as cluster:
        cluster.register(*SMALL, *WIDE)
        cluster.create("topic", partitions, PER_TOPIC, SMALL)
        pipeline = pipeline_of(cluster)
        pipeline.start()
        pipeline.processes["stream"].ready_deadline_s = LIVE_DEADLINE_S
        pipeline.processes["stream"].wait_ready()
        yield cluster, pipeline


@contextmanager
def following(
    pipeline: Pipeline, count: Callable[[str], int | None], *, pause_s: float
) -> Iterator[tuple[AppendedReader, Scraper]]:
    """Read the log and scrape within the block."""
    stop = threading.Event()
    reader, scraper = (
        AppendedReader(pipeline, stop),
        Scraper(pipeline.exporter_url, count, stop, pause_s=pause_s),
    )
    for each in (reader, scraper):
        each.start()
    reader.ready.wait()
    try:
        yield reader, scraper
    finally:
        time.sleep(0.5)  # the reader of the log may lag behind the exporter
        stop.set()
        for each in (reader, scraper):
            each.join()


def await_count(scraper: Reached, count: int, what: str) -> None:
    """Wait until scrapes have shown a count."""
    deadline = time.monotonic() + DEADLINE_S
    while scraper.reached < count:
        if time.monotonic() > deadline:
            raise EnvironmentProblemError(f"{what}: {scraper.reached} of {count} were shown")
        time.sleep(POLL_S)


def measure_delay(
    cluster: FakeCluster, pipeline: Pipeline, *, changes: int, warm_up: int
) -> dict[str, Any]:
    """Let preferred replicas be elected, one after another; return the delays of all but the first ones, in ms."""
    led = sum(each.leader == LEADER for each in cluster.partitions.values())
    with following(
        pipeline,
        led_by_others(len(cluster.partitions) - led),
        pause_s=STORM_SCRAPE_PAUSE_S,
    ) as (_, scraper):
        cluster.fence(LEADER)
        await_count(scraper, led, "leaders after a broker was fenced")
    cluster.bring_back(LEADER, elect=False)
    time.sleep(SETTLE_S)
    deposed = [each for each, held in cluster.partitions.items() if held.replicas[0] == LEADER]
    others = led_by_others(len(cluster.partitions))

    def count(body: str) -> int | None:
        found = others(body)
        return None if found is None else -found

    found = _one_by_one(
        pipeline,
        count,
        [partial(cluster.elect_preferred, [each]) for each in deposed[: warm_up + changes]],
        warm_up,
    )
    cluster.elect_preferred(deposed)
    time.sleep(SETTLE_S)
    return found


def measure_isr_delay(
    cluster: FakeCluster, pipeline: Pipeline, *, changes: int, warm_up: int
) -> dict[str, Any]:
    """Let leaders drop one replica from one ISR after another; return the same delays."""
    partitions = list(cluster.partitions)[: warm_up + changes]
    before = _scraped(pipeline, UNDER_REPLICATED)

    def count(body: str) -> int | None:
        found = UNDER_REPLICATED(body)
        return None if found is None else found - before

    kept = {
        each: tuple(replica for replica in held.isr if replica != held.replicas[-1])
        for each, held in cluster.partitions.items()
    }
    steps = [partial(cluster.alter, {each: kept[each]}) for each in partitions]
    found = _one_by_one(pipeline, count, steps, warm_up)
    _restore(cluster, partitions)
    return found


def _one_by_one(
    pipeline: Pipeline,
    count: Callable[[str], int | None],
    steps: Sequence[Callable[[], None]],
    warm_up: int,
) -> dict[str, Any]:
    """Take steps that change one partition each, at ten a second; return the delays of all but the first ones, by stage."""
    with following(pipeline, count, pause_s=SCRAPE_PAUSE_S) as (reader, scraper):
        began = time.monotonic()
        for number, step in enumerate(steps):
            time.sleep(max(0.0, began + number / RATE_PER_S - time.monotonic()))
            step()
        await_count(scraper, len(steps), "changes of a partition")
    stages: dict[str, list[float]] = {"append to log of kcm": [], "log to scrape": [], "all": []}
    for number in range(warm_up, len(steps)):
        at, arrived = reader.changes[number], reader.arrived[number]
        shown = scraper.when_reached(number + 1) or time.time()
        for stage, took_s in zip(stages, (arrived - at, shown - arrived, shown - at), strict=True):
            stages[stage].append(1000 * took_s)
    found = {
        stage: {
            "p50_ms": round(machine.percentile(values, 50), 1),
            "p99_ms": round(machine.percentile(values, 99), 1),
        }
        for stage, values in stages.items()
    }
    return found["all"] | {
        "max_ms": round(max(stages["all"]), 1),
        "samples": len(stages["all"]),
        "stages": found,
    }


def _restore(cluster: FakeCluster, partitions: Sequence[TopicPartition]) -> None:
    """Let leaders take all replicas into their ISRs again."""
    for begin in range(0, len(partitions), AT_ONCE):
        chunk = partitions[begin : begin + AT_ONCE]
        cluster.alter({each: cluster.partitions[each].replicas for each in chunk})


def measure_fence(cluster: FakeCluster, pipeline: Pipeline, rounds: int) -> dict[str, Any]:
    """Let a broker that leads a third of the partitions fall silent; return when its partitions' leaders are shown."""
    led = sum(each.leader == LEADER for each in cluster.partitions.values())
    others = len(cluster.partitions) - led
    runs = []
    for _ in range(rounds):
        time.sleep(SETTLE_S)
        count = led_by_others(others)
        with following(pipeline, count, pause_s=STORM_SCRAPE_PAUSE_S) as (reader, scraper):
            cluster.fence(LEADER)
            await_count(scraper, led, "leaders after a broker was fenced")
        runs.append(_after(reader.changes, scraper, led))
        cluster.bring_back(LEADER)
    return {"led": led, "partitions": len(cluster.partitions), **medians(runs), "rounds": runs}


def measure_wide(cluster: FakeCluster, pipeline: Pipeline, partitions: int) -> dict[str, Any]:
    """Let a broker with a replica of every partition of a set fall silent: its controller writes batches of 10,000."""
    cluster.create("wide", partitions, PER_WIDE_TOPIC, WIDE)
    _await_partitions(pipeline, len(cluster.partitions))
    time.sleep(SETTLE_S)
    with following(pipeline, UNDER_REPLICATED, pause_s=STORM_SCRAPE_PAUSE_S) as (reader, scraper):
        cluster.fence(WIDE[-1])
        await_count(scraper, partitions, "ISRs after a broker was fenced")
    return {"changes": len(reader.changes), **_after(reader.changes, scraper, partitions)}


def _after(changes: Sequence[float], scraper: Reached, count: int) -> dict[str, float]:
    """Return how long after the last append, and after the first, scrapes showed all."""
    shown = scraper.when_reached(count) or time.time()
    return {
        "tail_s": round(shown - changes[-1], 3),
        "from_first_s": round(shown - changes[0], 3),
        "appended_within_s": round(changes[-1] - changes[0], 3),
    }


def measure_controller_kills(
    cluster: FakeCluster, pipeline: Pipeline, rounds: int
) -> dict[str, Any]:
    """Kill the active controller; return how long after its LeaderChange's append the next one is shown."""
    delays = []
    for _ in range(rounds):
        time.sleep(SETTLE_S)
        _, at, shown = _kill_controller(cluster, pipeline)
        delays.append(round(shown - at, 3))
    return {"median_s": machine.percentile(delays, 50), "max_s": max(delays), "rounds": delays}


def _kill_controller(cluster: FakeCluster, pipeline: Pipeline) -> tuple[int, float, float]:
    """Kill the active controller, and start it again; return the next one, when it was elected, and when that was shown."""
    before = _scraped(pipeline, ELECTIONS)
    with following(pipeline, ELECTIONS, pause_s=SCRAPE_PAUSE_S) as (reader, scraper):
        killed = cluster.kraft.await_leader()
        cluster.kraft.controllers[killed.id].kill()
        await_count(scraper, before + 1, "elections")
    cluster.kraft.controllers[killed.id].start()
    elected, at = reader.elections[0]
    return elected, at, scraper.when_reached(before + 1) or time.time()


def _scraped(pipeline: Pipeline, count: Callable[[str], int | None]) -> int:
    """Return a figure as it is shown now."""
    with urllib.request.urlopen(f"{pipeline.exporter_url}/metrics", timeout=10) as answer:  # noqa: S310  # an address of our own
        found = count(answer.read().decode())
    if found is None:
        raise EnvironmentProblemError("a scrape does not show the cluster")
    return found


def _await_partitions(pipeline: Pipeline, count: int) -> None:
    """Wait until a scrape shows so many partitions."""
    deadline = time.monotonic() + DEADLINE_S
    while (shown := _scraped(pipeline, PARTITIONS)) < count:
        if time.monotonic() > deadline:
            raise EnvironmentProblemError(f"{shown} of {count} partitions are shown")
        time.sleep(1.0)


def measure_rest(cluster: FakeCluster, pipeline: Pipeline, seconds: float) -> dict[str, Any]:
    """Return what the parts use at rest, and at thousands of changes a second, scraped as Prometheus does."""
    stop = threading.Event()
    scraper = Scraper(pipeline.exporter_url, lambda _: None, stop, pause_s=SCRAPE_INTERVAL_S)
    scraper.start()
    time.sleep(SETTLE_S)
    before = used(pipeline)
    time.sleep(seconds)
    rest = used(pipeline)
    changed, took_s = _change(cluster, seconds)
    changing = used(pipeline)
    stop.set()
    scraper.join()
    return {
        "at_rest": cost(before, rest, seconds),
        "changing": cost(rest, changing, took_s),
        "changes_per_s": round(changed / took_s),
    }


def _change(cluster: FakeCluster, seconds: float) -> tuple[int, float]:
    """Let leaders drop and take back replicas; return how many changes were made, and in what time."""
    partitions = [each for each, held in cluster.partitions.items() if held.leader == SECOND]
    began, changed = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        time.sleep(max(0.0, began + changed / STORM_PER_S - time.monotonic()))
        first = changed % (len(partitions) - AT_ONCE)
        chunk = partitions[first : first + AT_ONCE]
        cluster.alter({each: _other_isr(cluster, each) for each in chunk})
        changed += len(chunk)
    return changed, time.monotonic() - began


def _other_isr(cluster: FakeCluster, partition: TopicPartition) -> tuple[int, ...]:
    held = cluster.partitions[partition]
    return held.replicas if len(held.isr) < len(held.replicas) else (held.leader,)


def measure_cold(partitions: int, rounds: int) -> dict[str, Any]:
    """Start the pipeline beside a cluster of this size that has a snapshot; return the time until it is live."""
    # A few snapshots on the way: one for each MiB of a large log would be most of what the controller does.
    between = max(1 << 20, SNAPSHOT_BYTES * partitions)
    properties = {"metadata.log.max.record.bytes.between.snapshots": between}
    heap_mib = 512 + partitions // 250
    with fake_cluster(controllers=1, heap_mib=heap_mib, properties=properties) as cluster:
        cluster.register(*SMALL)
        cluster.create("topic", partitions, PER_WIDE_TOPIC, SMALL)
        snapshot = _await_snapshot(cluster)
        runs = []
        for number in range(rounds):
            pipeline = pipeline_of(cluster, f"pipeline-{number}")
            stream = pipeline.processes["stream"]
            stream.ready_deadline_s = LIVE_DEADLINE_S
            began = time.monotonic()
            pipeline.start()
            stream.wait_ready()
            live_s = time.monotonic() - began
            parts = used(pipeline)
            runs.append(
                {
                    "live_s": round(live_s, 2),
                    "cpu_s": {name: round(each.cpu_s, 1) for name, each in parts.items()},
                    "memory_mib": {name: round(each.rss_mib, 1) for name, each in parts.items()},
                }
            )
            pipeline.stop()
    live = medians([{"live_s": run["live_s"]} for run in runs])["live_s"]
    return {"partitions": partitions, "snapshot_mib": snapshot, "live_s": live, "rounds": runs}


def _await_snapshot(cluster: FakeCluster) -> float:
    """Wait until the controller has written a snapshot of most of the cluster; return its MiB."""
    (controller,) = cluster.kraft.controllers.values()
    folder = Path(controller.log_dir) / METADATA_LOG
    log_bytes = sum(each.stat().st_size for each in folder.glob("*.log"))
    deadline = time.monotonic() + SNAPSHOT_DEADLINE_S
    while time.monotonic() < deadline:
        sizes = [each.stat().st_size for each in folder.glob("*.checkpoint")]
        if max(sizes, default=0) > log_bytes // 2:
            time.sleep(SETTLE_S)
            return round(max(sizes) / 2**20, 1)
        time.sleep(1.0)
    raise EnvironmentProblemError("the controller has written no snapshot")


class Asker:
    """A poller that asks the cluster itself, in a process of its own."""

    def __init__(self, cluster: FakeCluster, kind: str, address: str, every_s: float) -> None:
        self.name = f"{kind}, asked each {every_s:g} s"
        self._notes = cluster.folder / f"polls-{kind}-{every_s:g}.json"
        self._notes.touch()
        command = [sys.executable, "-P", "-m", "bench.poller", kind, address]
        self.process = Process(
            cluster.supervisor, f"poller-{kind}", [*command, f"{every_s:g}", self._notes]
        )

    def polls(self) -> list[Poll]:
        """Return what it has seen so far."""
        self.process.check()
        text = self._notes.read_text()
        whole = text[: text.rfind("\n") + 1]
        return [Poll(**json.loads(line)) for line in whole.splitlines()]


def measure_peers(cluster: FakeCluster, pipeline: Pipeline) -> list[dict[str, Any]]:
    """Let others ask the same cluster, one after the other, while a broker is fenced and a controller is killed."""
    addresses = {"metadata": cluster.kraft.bootstrap_servers, "quorum": cluster.controllers}
    turns = []
    for kind, every_s in (("metadata", 1.0), ("metadata", 15.0), ("quorum", 1.0)):
        asker = Asker(cluster, kind, addresses[kind], every_s)
        asker.process.start()
        time.sleep(SETTLE_S)
        turn: dict[str, Any] = {"peer": asker.name}
        if kind == "metadata":
            turn["fenced"] = _peer_fence(cluster, pipeline, asker, every_s)
        turn["controller_killed"] = _peer_kill(cluster, pipeline, asker, every_s)
        turn["cpu_s"] = round(_cpu_s(asker.process), 1)
        asker.process.stop()
        turns.append(turn)
    return turns


def _peer_fence(
    cluster: FakeCluster, pipeline: Pipeline, asker: Asker, every_s: float
) -> dict[str, Any]:
    led = [each for each, held in cluster.partitions.items() if held.leader == LEADER]
    count = led_by_others(sum(each.leader >= 0 for each in cluster.partitions.values()) - len(led))
    with following(pipeline, count, pause_s=STORM_SCRAPE_PAUSE_S) as (reader, scraper):
        cluster.fence(LEADER)
        await_count(scraper, len(led), "leaders after a broker was fenced")
    wanted = {f"{t}/{p}": cluster.partitions[TopicPartition(t, p)].leader for t, p in led}
    time.sleep(2 * every_s + SETTLE_S)
    shown = shown_by(asker.polls(), wanted, since=reader.changes[0])
    last = max(shown.values()) - reader.changes[-1] if len(shown) == len(wanted) else None
    ours = _after(reader.changes, scraper, len(led))["tail_s"]
    cluster.bring_back(LEADER)
    return {"tail_s": None if last is None else round(last, 2), "this_tail_s": ours}


def _peer_kill(
    cluster: FakeCluster, pipeline: Pipeline, asker: Asker, every_s: float
) -> dict[str, Any]:
    elected, at, shown = _kill_controller(cluster, pipeline)
    time.sleep(2 * every_s + SETTLE_S)
    named = [each.ended for each in asker.polls() if each.controller == elected]
    after = [each - at for each in named if each >= at]
    return {
        "shown_s": round(min(after), 2) if after else None,
        "this_shown_s": round(shown - at, 3),
    }


def _cpu_s(process: Process) -> float:
    return (
        0.0
        if process.pid is None
        else sum(each.cpu_s for each in machine.usage(process.pid).values())
    )
