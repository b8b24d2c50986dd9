"""Measure `kcm look`: one process beside a cluster that exists already, from the key press to the first figures.

The time is that until the line with the figures; `live_cpu_s` is what of it the process computed, which does not depend
on what else runs. Memory is that of the process once it is at rest, and its peak while it read; processor time is measured at
rest and at ten changes a second.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench import machine
from bench.cold import PER_TOPIC, PER_TOPIC_OF_LARGE
from bench.figures import judged
from bench.watched import CLUSTER, Watched, znode_cluster
from bench.znodes import Size, ZnodeCluster
from pipeline.runtime import UnreachableError

SUMMARY = "kcm look: seconds to the first figures, and memory, by partitions (ten minutes)"

PARTITIONS = (10_000, 200_000)
LIVE = "live: "
REST_S = 30.0
"""The time in which processor time at rest is measured; memory is read at its end."""
CHANGES_PER_S = 10
"""Leaders that move while the processor time of a trickle is measured."""
SETTLED_S = 5.0
"""After the first figures: what was read is freed, and the answers that grow with a cluster are made."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument(
        "--partitions",
        nargs="+",
        type=int,
        default=PARTITIONS,
        metavar="N",
        help="sizes of the cluster (10000 200000)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="starts at each size (3)")


def measure(*, partitions: Sequence[int], rounds: int) -> dict[str, Any]:
    """Look at a cluster of each size; times in seconds, medians over rounds."""
    sizes = {count: _measure(count, rounds) for count in partitions}
    small, large = sizes.get(10_000, {}), sizes.get(200_000, {})
    return {
        "scenario": "look",
        "figures": judged(
            look_10000=small.get("live_s"),
            look_10000_memory=small.get("rss_mib"),
            look_200000=large.get("live_s"),
            look_200000_memory=large.get("rss_mib"),
        ),
        "sizes": list(sizes.values()),
        "settings": {"rounds": rounds, "rest_s": REST_S},
        "machine": machine.describe(),
    }


def _measure(partitions: int, rounds: int) -> dict[str, Any]:
    per_topic = PER_TOPIC.get(partitions, PER_TOPIC_OF_LARGE)
    with znode_cluster(Size(partitions // per_topic, per_topic)) as watched:
        runs = [_measure_once(watched) for _ in range(rounds)]
    medians = {name: machine.percentile([run[name] for run in runs], 50) for name in runs[0]}
    return {"partitions": watched.cluster.size.partitions, "znodes": watched.znodes} | medians


def _measure_once(watched: Watched) -> dict[str, float]:
    """Look once; return its figures."""
    command = [*(sys.executable, "-m", "kcm", "look"), *("--zookeeper", watched.zookeeper)]
    began = time.monotonic()
    with subprocess.Popen(  # noqa: S603  # it is ours
        [*command, "--cluster", CLUSTER, "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            for line in process.stdout or ():
                if line.startswith(LIVE):
                    break
            else:
                raise UnreachableError("kcm look ended without figures; its error is above")
            live_s = time.monotonic() - began
            live_cpu_s = machine.added(machine.usage(process.pid).values()).cpu_s
            time.sleep(SETTLED_S)
            rest_percent = _cpu_percent(process.pid, lambda: time.sleep(REST_S))
            trickle_percent = _cpu_percent(process.pid, lambda: _trickle(watched.cluster))
            after = machine.added(machine.usage(process.pid).values())
            return {
                "live_s": round(live_s, 2),
                "live_cpu_s": round(live_cpu_s, 2),
                "rss_mib": round(after.rss_mib, 1),
                "pss_mib": round(after.pss_mib, 1),
                "peak_mib": machine.peak_memory_mib(process.pid),
                "rest_cpu_percent": rest_percent,
                "trickle_cpu_percent": trickle_percent,
            }
        finally:
            process.terminate()


def _trickle(cluster: ZnodeCluster) -> None:
    """Move leaders, one after the other, for as long as a rest is measured."""
    began = time.monotonic()
    for number in range(int(REST_S * CHANGES_PER_S)):
        cluster.move(number)
        time.sleep(max(0.0, began + (number + 1) / CHANGES_PER_S - time.monotonic()))


def _cpu_percent(pid: int, during: Callable[[], None]) -> float:
    """Return what a process computes while something is done, in percent of a core."""
    before, began = machine.added(machine.usage(pid).values()), time.monotonic()
    during()
    after, took_s = machine.added(machine.usage(pid).values()), time.monotonic() - began
    return round(100 * (after.cpu_s - before.cpu_s) / took_s, 1)
