"""Measure a cold start: the whole monitor is started for a cluster that exists already, until it is live.

Live is what the exporter reports once everything in ZooKeeper is read, folded, verified and served.
Then the fold is killed and restarted while a leader moves, and the time until that is shown is
measured, with what the fold itself says of the way there.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bench import machine
from bench.delay import batch_totals
from bench.figures import judged
from bench.shown import Scraper, leaders_of
from bench.watched import CLUSTER, znode_cluster
from bench.znodes import Size, ZnodeCluster
from kcm.run.pipeline_processes import Pipeline

SUMMARY = "cold start to live, and the fold's restart, by partitions (about 15 minutes)"

PER_TOPIC = {1_000: 10, 10_000: 10}
"""Partitions of each topic, by size of the cluster."""
PER_TOPIC_OF_LARGE = 100
PARTITIONS = (1_000, 10_000, 100_000, 200_000, 1_000_000)
READY_DEADLINE_S = 900.0
SHOWN_DEADLINE_S = 300.0
POLL_S = 0.02
LOGGED = {"the fold starts": "imports_s", "the query runs": "session_s"}
"""What the fold logs on its way, and the stage that ends so."""
PLANNED, RUN = "queryPlanning", "addBatch"
NEXT_LEADER = 2
"""A broker that leads nothing before the change."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument(
        "--partitions",
        nargs="+",
        type=int,
        default=PARTITIONS,
        metavar="N",
        help="sizes of the cluster (1000 10000 100000 200000 1000000)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="starts at each size (3)")


def measure(*, partitions: Sequence[int], rounds: int) -> dict[str, Any]:
    """Start the monitor for a cluster of each size; times in seconds, medians over rounds."""
    sizes = [_measure(count, rounds) for count in partitions]
    live = {size["partitions"]: size["live_s"] for size in sizes}
    again = {size["partitions"]: size["again_s"] for size in sizes}
    return {
        "scenario": "cold",
        "figures": judged(
            cold_10000=live.get(10_000),
            cold_200000=live.get(200_000),
            cold_1000000=live.get(1_000_000),
            again_200000=again.get(200_000),
        ),
        "sizes": sizes,
        "settings": {"rounds": rounds, "pipeline": "as shipped"},
        "machine": machine.describe(),
    }


def _measure(partitions: int, rounds: int) -> dict[str, Any]:
    per_topic = PER_TOPIC.get(partitions, PER_TOPIC_OF_LARGE)
    with znode_cluster(Size(partitions // per_topic, per_topic)) as watched:
        runs = []
        for number in range(rounds):
            pipeline = watched.pipeline(name=f"pipeline-{number}")
            runs.append(_run(pipeline, watched.cluster, number))
            pipeline.stop()
    return {
        "partitions": watched.cluster.size.partitions,
        "znodes": watched.znodes,
        "live_s": machine.percentile([run["live_s"] for run in runs], 50),
        "again_s": machine.percentile([run["again_s"] for run in runs], 50),
        "again_stages": {
            stage: round(machine.percentile([run["again_stages"][stage] for run in runs], 50), 2)
            for stage in runs[0]["again_stages"]
        },
        "rounds": runs,
    }


def _run(pipeline: Pipeline, cluster: ZnodeCluster, number: int) -> dict[str, Any]:
    stream = pipeline.processes["stream"]
    stream.ready_deadline_s = READY_DEADLINE_S
    began = time.monotonic()
    pipeline.start()
    stream.wait_ready()
    live_s = time.monotonic() - began
    memory = {
        name: round(sum(used.rss_mib for used in machine.usage(process.pid).values()), 1)
        for name, process in pipeline.processes.items()
        if process.pid is not None
    }
    again_s, stages = _again(pipeline, cluster, number)
    return {
        "live_s": round(live_s, 2),
        "again_s": round(again_s, 2),
        "again_stages": stages,
        "memory_mib": memory,
    }


def _again(
    pipeline: Pipeline, cluster: ZnodeCluster, number: int
) -> tuple[float, dict[str, float]]:
    """Kill the fold, start it, move a leader; return the time from the start until that was shown, and its stages."""
    stream = pipeline.processes["stream"]
    stop = threading.Event()
    scraped = Scraper(pipeline.exporter_url, leaders_of(NEXT_LEADER, CLUSTER), stop)
    stream.kill()
    logged = stream.log_path.stat().st_size
    began = time.time()
    stream.start()
    cluster.move(number)
    scraped.start()
    deadline = time.monotonic() + SHOWN_DEADLINE_S
    while scraped.reached <= number:
        if time.monotonic() >= deadline:
            raise stream.not_ready("a change after a restart", SHOWN_DEADLINE_S, "nothing of it")
        time.sleep(POLL_S)
    stop.set()
    scraped.join()
    shown = scraped.when_reached(number + 1) or time.time()
    return shown - began, _stages(pipeline, logged, began, shown)


def _stages(pipeline: Pipeline, logged: int, began: float, shown: float) -> dict[str, float]:
    """Return the seconds of each stage: until the fold's first line, until its query runs, and then of its first batch."""
    stages: dict[str, float] = {}
    before = began
    with pipeline.processes["stream"].log_path.open("rb") as log:
        log.seek(logged)
        lines = [json.loads(line) for line in log if line.startswith(b"{")]
    for line in lines:
        if stage := LOGGED.get(line["event"]):
            at = datetime.fromisoformat(line["timestamp"]).timestamp()
            stages[stage] = at - before
            before = at
    while PLANNED not in (spent := batch_totals(pipeline)):  # it has reported no batch yet
        time.sleep(POLL_S)
    stages["planning_s"], stages["batch_s"] = spent[PLANNED], spent[RUN]
    stages["rest_s"] = shown - before - spent[PLANNED] - spent[RUN]
    return {stage: round(took_s, 2) for stage, took_s in stages.items()}
