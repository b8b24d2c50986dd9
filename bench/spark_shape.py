"""Measure the fold alone in the shape of Spark's own benchmark of streaming: records in, records out, from topic to topic.

A thousand records a second are appended to the log, each in a message of its own, as no watcher does. A record's latency
is the time from its append until a reader of the topic of views has the batch that holds it. So the table can be laid
beside those that Spark publishes for its Real-Time Mode and its micro-batches, which measure p50 and p99 from Kafka to
Kafka at a given rate. Theirs keep no state of this size: here each record changes a partition of 10,000, and a batch
ends with the totals of the cluster.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterable
from typing import Any

from bench import machine
from bench.load import LogLoad, LogWriter, messages
from bench.rest import cost, used
from bench.shown import POLL_S, Reached, TopicReader
from bench.watched import watched_cluster
from bench.znodes import PACE_S, Size
from controller_model.records.changes import encode_change, join_changes
from controller_model.records.views import ClusterView, decode_view
from kcm.run.pipeline_processes import Pipeline
from pipeline.clock import clock_ms
from pipeline.runtime import EnvironmentProblemError

SUMMARY = "the fold alone at 1,000 records/s, from topic to topic: p50 and p99 (about 3 minutes)"

FOLDED = "shape"
"""The cluster whose log is written; the pipeline's own watcher has another, small one."""
LOAD = {"topics": 1_000, "partitions": 10, "brokers": 12}
RATE_PER_S = 1_000
WARM_UP_S, MEASURED_S = 30, 60
DEADLINE_S = 60.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument(
        "--rate", type=int, default=RATE_PER_S, help=f"records a second ({RATE_PER_S:,})"
    )


def measure(*, rate: int) -> dict[str, Any]:
    """Return the latencies of records in milliseconds, and the processor time of each part."""
    with watched_cluster(Size(1, 1)) as (_, pipeline):
        result = _run(pipeline, rate)
    return {
        "scenario": "spark-shape",
        **result,
        "settings": {
            "rate_per_s": rate,
            "warm_up_s": WARM_UP_S,
            "measured_s": MEASURED_S,
            "partitions": LOAD["topics"] * LOAD["partitions"],
            "pipeline": "as shipped; its watcher has another cluster",
        },
        "machine": machine.describe(),
    }


def _run(pipeline: Pipeline, rate: int) -> dict[str, Any]:
    stop, folded = threading.Event(), _Folded()
    reader = TopicReader(pipeline.bootstrap_servers, "kcm.views", folded.apply_record, stop)
    reader.start()
    reader.ready.wait()
    log, load = (
        LogWriter(pipeline.bootstrap_servers, 1),
        LogLoad(FOLDED, **LOAD, began_ms=clock_ms()),
    )
    log.write(FOLDED, messages(load.resync()))
    _append(log, load, range(rate * WARM_UP_S), rate)
    before = used(pipeline)
    appended = _append(log, load, range(rate * MEASURED_S), rate)
    after = used(pipeline)
    last, _ = appended[-1]
    deadline = time.monotonic() + DEADLINE_S
    while folded.reached < last:
        if time.monotonic() > deadline:
            raise EnvironmentProblemError(f"the fold is at record {folded.reached} of {last}")
        time.sleep(POLL_S)
    stop.set()
    reader.join()
    took_ms = [1000 * ((folded.when_reached(seq) or 0.0) - at) for seq, at in appended]
    return {
        "records": len(took_ms),
        "p50_ms": round(machine.percentile(took_ms, 50), 1),
        "p99_ms": round(machine.percentile(took_ms, 99), 1),
        "max_ms": round(max(took_ms), 1),
        "cpu_percent": {
            name: costs["cpu_percent"] for name, costs in cost(before, after, MEASURED_S).items()
        },
    }


def _append(
    log: LogWriter, load: LogLoad, numbers: Iterable[int], rate: int
) -> list[tuple[int, float]]:
    """Append a change in a message of its own for each number; return the seq and time of each."""
    appended = []
    began = time.monotonic()
    for number, change in zip(numbers, load.changes(rate * MEASURED_S), strict=False):
        ahead_s = began + number / rate - time.monotonic()
        if ahead_s > PACE_S:
            time.sleep(ahead_s)
        appended.append((change.seq, time.time()))
        log.append(FOLDED, join_changes([encode_change(change)]))
    log.flush()
    return appended


class _Folded(Reached):
    """The seq up to which the views hold the log."""

    def apply_record(self, value: bytes, now: float) -> None:
        """Read a view."""
        view = decode_view(value)
        if isinstance(view, ClusterView) and view.cluster == FOLDED:
            self.note(view.as_of.seq, now)
