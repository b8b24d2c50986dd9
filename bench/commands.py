"""Measure the commands that query an exporter, from the key press to the last line.

Each is a new process, as a shell starts it, against the exporter's real server over a cluster. The
first run is reported separately: Python may write its byte code then, and the exporter computes an
answer that it keeps for as long as the cluster does not change.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any, NamedTuple

from bench import machine
from bench.scrape import Shown, application
from controller_model.kafka.ids import AsOf
from controller_model.records.changes import SessionState
from controller_model.records.views import (
    VERSION,
    BrokerRecord,
    BrokerView,
    ClusterView,
    ControllerView,
    Counts,
    LogView,
    Pending,
    TopicView,
    encode_view,
    view_key,
)
from exporter.serve.server import HttpServer
from pipeline.clock import clock_ms

SUMMARY = "kcm --help, status, events, recommend, what-if: seconds from start to end"

CLUSTER = "bench"
AT = AsOf("bench", 1, 1)
SIZES = ((1_000, 12), (10_000, 100))
"""Topics and brokers."""
PARTITIONS = 20
"""Partitions of each topic."""
RUNS = 11
COMMANDS = (
    ("--help",),
    ("status",),
    ("events",),
    ("recommend",),
    ("what-if",),
    ("what-if", "--lose-broker", "3"),
)


def measure() -> dict[str, Any]:
    """Serve clusters and time each command; return the first, median and worst in seconds."""
    return {
        "scenario": "commands",
        "runs": RUNS,
        "clusters": [_measure(topics, brokers) for topics, brokers in SIZES],
        "machine": machine.describe(),
    }


def _measure(topics: int, brokers: int) -> dict[str, Any]:
    shown, now = Shown(), clock_ms()
    for view in _views(now, topics, brokers):
        shown.apply_record(view_key(view), encode_view(view))
    app = application(shown, lambda: now, partition_metrics=False)
    with HttpServer(app, "127.0.0.1", 0) as server:
        took = {" ".join(words): _time(words, server.url) for words in COMMANDS}
    return {
        "partitions": topics * PARTITIONS,
        "brokers": brokers,
        "seconds": {
            words: {
                "first": round(first.wall_s, 3),
                "p50": round(machine.percentile([each.wall_s for each in runs], 50), 3),
                "max": round(max(each.wall_s for each in runs), 3),
                "cpu_p50": round(machine.percentile([each.cpu_s for each in runs], 50), 3),
            }
            for words, (first, *runs) in took.items()
        },
    }


class _Took(NamedTuple):
    wall_s: float
    cpu_s: float
    """Usage of the command alone: the time on a machine that has nothing else to do."""


def _time(words: tuple[str, ...], url: str) -> list[_Took]:
    where = () if words == ("--help",) else ("--exporter", url)
    command = [sys.executable, "-P", "-m", "kcm", *words, *where]
    took = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:  # noqa: S603  # our own program
            _, status, used = os.wait4(process.pid, 0)
            wall_s = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        took.append(_Took(wall_s, used.ru_utime + used.ru_stime))
    return took


def _views(now: int, topics: int, count: int) -> list[BrokerView | TopicView | ClusterView]:
    """Return a cluster in which every tenth partition is not led by its preferred replica."""
    ids = tuple(range(count))
    brokers = [
        BrokerView(
            v=VERSION,
            cluster=CLUSTER,
            as_of=AT,
            id=id_,
            record=BrokerRecord(live=True, since=now, host="k", port=9092),
        )
        for id_ in ids
    ]
    wrong = topics * PARTITIONS // 10
    cluster = ClusterView(
        v=VERSION,
        cluster=CLUSTER,
        as_of=AT,
        counters_since=now,
        folded_at=now,
        controller=ControllerView(id=0, epoch=1, elected_at=now, elections=1),
        counts=Counts(
            topics=topics,
            partitions=topics * PARTITIONS,
            preferred_imbalance=wrong,
            preferred_electable=wrong,
        ),
        pending=Pending(),
        log=LogView(session=SessionState.CONNECTED, heartbeat_at=now, verified_at=now),
        brokers_live=ids,
        brokers_known=ids,
    )
    return [*brokers, *(_topic(number, count) for number in range(topics)), cluster]


def _topic(number: int, brokers: int) -> TopicView:
    count = range(PARTITIONS)
    replicas = tuple(_replicas(number + p, number, brokers) for p in count)
    return TopicView(
        v=VERSION,
        cluster=CLUSTER,
        as_of=AT,
        name=f"topic-{number}",
        chunk=0,
        chunks=1,
        partitions=tuple(count),
        replicas=replicas,
        leader=tuple(replicas[p][int(p % 10 == 0)] for p in count),
        isr=replicas,
        leader_epoch=(0,) * PARTITIONS,
        controller_epoch=(1,) * PARTITIONS,
        partition_epoch=(0,) * PARTITIONS,
        leader_recovery_state=(0,) * PARTITIONS,
    )


def _replicas(first: int, shift: int, brokers: int) -> tuple[int, int, int]:
    """Return three replicas as Kafka assigns them (AdminUtils.replicaIndex)."""
    second = 1 + shift % (brokers - 1)
    third = 1 + (shift + 1) % (brokers - 1)
    return first % brokers, (first + second) % brokers, (first + third) % brokers
