"""Measure the monitor's cost when little happens: processor and memory of each part.

It watches a cluster of znodes on a real ZooKeeper and is scraped as Prometheus does, first at rest, then while ten
leaders a second move, which the watcher sends at once, and then while ten replicas a second leave ISRs, which may wait
for others (`linger_ms`). The watched ZooKeeper, the load and the scraper are not counted.
"""

from __future__ import annotations

import argparse
import itertools
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from bench import machine
from bench.figures import judged
from bench.watched import lingering, watched_cluster
from bench.znodes import Size, Written, ZnodeCluster
from kcm.run.pipeline_processes import Pipeline

SUMMARY = "processor and memory of each part, at rest and at 10 changes/s (about 7 minutes)"

SIZE = Size(1_000, 10)
RATE_PER_S = 10.0
SCRAPE_INTERVAL_S = 15.0
WARM_UP_S = 60.0
"""Seconds with changes, until the JVM has compiled the hot paths."""
SETTLE_S = 20.0
"""Seconds after the warm-up, before the measurement at rest."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument(
        "--seconds", type=float, default=90.0, help="how long each of the three is measured (90)"
    )
    parser.add_argument(
        "--linger-ms", type=int, help="how long what may wait does so, where not as shipped"
    )


def measure(*, seconds: float, linger_ms: int | None) -> dict[str, Any]:
    """Return CPU in percent of a core and memory in MiB, for each part and in total."""
    with watched_cluster(SIZE, options=lingering(linger_ms)) as (cluster, pipeline):
        at_rest, changing, isrs_changing = _run(cluster, pipeline, seconds)
    return {
        "scenario": "rest",
        "figures": judged(
            rest_cpu=at_rest["all"]["cpu_percent"],
            rest_memory=at_rest["all"]["rss_mib"],
            trickle_cpu=isrs_changing["all"]["cpu_percent"],
        ),
        "at_rest": at_rest,
        "changing": changing,
        "isrs_changing": isrs_changing,
        "settings": {
            "partitions": SIZE.partitions,
            "seconds": seconds,
            "rate_per_s": RATE_PER_S,
            "scrape_every_s": SCRAPE_INTERVAL_S,
            "pipeline": "as shipped" if linger_ms is None else f"linger_ms={linger_ms}",
        },
        "machine": machine.describe(),
    }


def _run(
    cluster: ZnodeCluster, pipeline: Pipeline, seconds: float
) -> list[dict[str, dict[str, float]]]:
    """Return the costs at rest, while leaders move, and while replicas leave ISRs."""
    stop = threading.Event()
    scraper = threading.Thread(target=_scrape, args=(pipeline.exporter_url, stop), daemon=True)
    scraper.start()
    try:
        _change(cluster.move, cluster.size.partitions, WARM_UP_S)
        time.sleep(SETTLE_S)
        found = [used(pipeline)]
        time.sleep(seconds)
        found.append(used(pipeline))
        for change in (cluster.move, cluster.shrink):
            _change(change, cluster.size.partitions, seconds)
            found.append(used(pipeline))
    finally:
        stop.set()
        scraper.join()
    return [cost(before, after, seconds) for before, after in itertools.pairwise(found)]


def _scrape(url: str, stop: threading.Event) -> None:
    while not stop.wait(SCRAPE_INTERVAL_S):
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:  # noqa: S310  # an address of our own
            answer.read()


def _change(change: Callable[[int], Written], partitions: int, seconds: float) -> None:
    began = time.monotonic()
    for number in range(int(seconds * RATE_PER_S)):
        time.sleep(max(0.0, began + number / RATE_PER_S - time.monotonic()))
        change(number % partitions)


def used(pipeline: Pipeline) -> dict[str, machine.Usage]:
    """Return the usage of each part; Spark's JVM is listed separately."""
    found = {}
    processes = dict(pipeline.processes)
    if pipeline.broker is not None:
        processes["kafka"] = pipeline.broker
    for name, process in processes.items():
        if process.pid is not None:
            for program, usage in machine.usage(process.pid).items():
                found[_NAMES.get((name, program), f"{name}: {program}")] = usage
    return found


_NAMES = {
    ("watcher", "python"): "watcher",
    ("stream", "python"): "fold: Python",
    ("stream", "java"): "fold: Spark's JVM",
    ("exporter", "python"): "exporter",
    ("kafka", "java"): "the pipeline's Kafka",
}


def cost(
    before: dict[str, machine.Usage], after: dict[str, machine.Usage], seconds: float
) -> dict[str, dict[str, float]]:
    """Return the cost of each part and of all between two usages, so many seconds apart."""
    costs = {
        name: usage._replace(cpu_s=usage.cpu_s - before.get(name, machine.NO_USAGE).cpu_s)
        for name, usage in after.items()
    }
    costs["all"] = machine.added(costs.values())
    return {
        name: {
            "cpu_percent": round(usage.cpu_s / seconds * 100, 2),
            "rss_mib": round(usage.rss_mib, 1),
            "pss_mib": round(usage.pss_mib, 1),
        }
        for name, usage in costs.items()
    }
