"""Measure how far a storm leaves the monitor behind: thousands of leaders change at once.

There are two kinds. The leaders of a cluster of znodes are rewritten in random order through a real
ZooKeeper, at the rate at which a controller writes them; and a real broker that leads thousands of
partitions is killed. The whole pipeline runs with its shipped settings. A partition's delay is from
the mtime that ZooKeeper gave its state to the arrival of the cluster's view that completes the
partition's batch: then readers show it. The number of partitions shown is read from scrapes.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bench import kill, machine
from bench.figures import judged
from bench.real_cluster import PARTITIONS
from bench.shown import (
    STORM_SCRAPE_PAUSE_S,
    leaders_of,
    medians,
    observed,
    storm_result,
    when_shown,
)
from bench.watched import CLUSTER, watched_cluster
from bench.znodes import MOVING, Size, ZnodeCluster
from kcm.run.pipeline_processes import Pipeline
from pipeline.runtime import UsageError

SUMMARY = "thousands of leaders change at once, in znodes and by killing a broker (half an hour)"

SEED = 1  # the same order every time
WARM_UP_S = 30.0  # about 100 micro-batches until the JVM has compiled the hot paths
WARM_UP_RATE_PER_S = 10.0
WARM_UP_STORM_PER_S = 1_000.0
QUIET_S = 5.0  # between two storms
DEADLINE_S = 300.0


class Storm(NamedTuple):
    """A cluster, and how many of its leaders change."""

    size: Size
    leaders: int


SMALL = Storm(Size(1_000, 10), 10_000)
LARGE = Storm(Size(2_000, 100), 67_000)
STORMS = (Storm(Size(1_000, 10), 100), Storm(Size(1_000, 10), 1_000), SMALL, LARGE)
LED = (3_334, 10_000)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument(
        "--storms",
        nargs="*",
        type=storm_of,
        default=STORMS,
        metavar="TOPICSxPARTITIONS:LEADERS",
        help="clusters of znodes and how many leaders change "
        "(1000x10:100 1000x10:1000 1000x10:10000 2000x100:67000)",
    )
    parser.add_argument(
        "--led",
        nargs="*",
        type=int,
        default=LED,
        metavar="N",
        help="a real broker that leads so many partitions is killed (3334 10000)",
    )
    parser.add_argument(
        "--of",
        type=int,
        default=PARTITIONS,
        metavar="N",
        help="partitions of that cluster (10,000)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="storms on each cluster (5)")
    parser.add_argument("--kills", type=int, default=5, help="kills of each broker (5)")
    parser.add_argument("--rate", type=float, default=3_000, help="writes a second (3,000)")
    parser.add_argument(
        "--set",
        nargs="*",
        default=(),
        type=setting_of,
        dest="settings",
        metavar="NAME=VALUE",
        help="settings of the pipeline that are not as shipped",
    )


def storm_of(text: str) -> Storm:
    """Read a storm from the command line.

    >>> storm_of("1000x10:500")
    Storm(size=Size(topics=1000, per_topic=10), leaders=500)
    """
    found = re.fullmatch(r"(\d+)x(\d+):(\d+)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"not TOPICSxPARTITIONS:LEADERS: {text}")
    topics, per_topic, leaders = map(int, found.groups())
    if not 0 < leaders <= topics * per_topic:
        raise argparse.ArgumentTypeError(f"not 1 to {topics * per_topic} leaders: {text}")
    return Storm(Size(topics, per_topic), leaders)


def setting_of(text: str) -> tuple[str, str]:
    """Read a setting from the command line."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"not NAME=VALUE: {text}")
    return name, value


def measure(
    *,
    storms: Sequence[Storm],
    led: Sequence[int],
    of: int,
    rounds: int,
    kills: int,
    rate: float,
    settings: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """Run each storm and each kill; times in seconds, medians over rounds."""
    if any(count > of for count in led):
        raise UsageError(f"--led: a broker of {of} partitions leads no more")
    options = dict(settings)
    in_znodes = [_storm(storm, rounds, rate, options) for storm in storms]
    killed = [kill.measure(count, of, kills, options) for count in led]
    result = {(s["partitions"], s["leaders"]): s for s in in_znodes}
    small, large = (result.get((s.size.partitions, s.leaders), {}) for s in (SMALL, LARGE))
    real: dict[str, Any] = next(
        (k for k in killed if (k["led"], k["partitions"]) == (LED[0], PARTITIONS)), {}
    )
    return {
        "scenario": "storm",
        "figures": judged(
            storm_10000_tail=small.get("tail_s"),
            storm_10000_half=small.get("half_s"),
            storm_67000_tail=large.get("tail_s"),
            storm_67000_half=large.get("half_s"),
            kill_median=real.get("partition_p50_s"),
            kill_max=real.get("partition_max_s"),
        ),
        "storms": in_znodes,
        "kills": killed,
        "settings": {
            "rate_per_s": rate,
            "scrape_pause_ms": STORM_SCRAPE_PAUSE_S * 1000,
            "pipeline": options or "as shipped",
        },
        "machine": machine.describe(),
    }


def _storm(storm: Storm, rounds: int, rate: float, options: Mapping[str, str]) -> dict[str, Any]:
    order = random.Random(SEED)  # noqa: S311  # a load, no secret
    numbers = order.sample(range(storm.size.partitions), storm.leaders)
    chosen = frozenset(numbers)
    with watched_cluster(storm.size, moves=chosen.__contains__, options=options) as watched:
        cluster, pipeline = watched
        _warm_up(pipeline, cluster, numbers)
        runs = []
        for _ in range(rounds):
            order.shuffle(numbers)
            runs.append(_round(pipeline, cluster, numbers, rate))
    return {
        "topics": storm.size.topics,
        "partitions": storm.size.partitions,
        "leaders": storm.leaders,
        **medians(runs),
        "rounds": runs,
    }


def _warm_up(pipeline: Pipeline, cluster: ZnodeCluster, numbers: list[int]) -> None:
    """Move leaders one by one for a while, then the rest of them, so that one broker leads all."""
    moves = int(WARM_UP_S * WARM_UP_RATE_PER_S)
    alone = numbers[:moves] * max(1, moves // len(numbers))
    for number in alone:
        cluster.move(number)
        time.sleep(1 / WARM_UP_RATE_PER_S)
    _round(pipeline, cluster, numbers[moves:], rate=WARM_UP_STORM_PER_S, of=len(numbers))


def _round(
    pipeline: Pipeline,
    cluster: ZnodeCluster,
    numbers: Sequence[int],
    rate: float,
    of: int | None = None,
) -> dict[str, Any]:
    """Move the leaders of these partitions; `of` is how many the next leader leads afterwards."""
    if not numbers:
        return {}
    time.sleep(QUIET_S)
    target = MOVING[(MOVING.index(cluster.leader(numbers[0])) + 1) % len(MOVING)]
    written, views, scraped = observed(
        pipeline,
        leaders_of(target, CLUSTER),
        of or len(numbers),
        lambda: cluster.move_all(numbers, rate_per_s=rate),
        deadline_s=DEADLINE_S,
    )
    return storm_result(written, when_shown(views, written), scraped)
