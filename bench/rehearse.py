"""Measure rehearsals on a cluster's views: seconds from the first view to the answer, and memory.

Decoding the views is part of the time, as in the exporter. A broker is stopped, the controller is
killed (its successor reads everything and sends requests to every broker), and a small cluster is
restarted broker by broker. Each case runs in its own process, so that its memory is measured alone.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Iterator
from typing import Any

from bench import machine
from bench.figures import judged
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.ids import AsOf
from controller_model.records.view_facts import partitions_in
from controller_model.records.views import VERSION, TopicView, decode_view, encode_view
from rehearsal.rehearse import rehearse
from rehearsal.steps import read_step

SUMMARY = "rehearsals at 10,000 and 200,000 partitions: seconds, and memory"

PARTITIONS = 100
"""Partitions of each topic."""
CASES = (
    (10_000, 30, "stop-broker:3"),
    (10_000, 30, "kill-broker:0"),
    (10_000, 30, "rolling-restart"),
    (200_000, 100, "stop-broker:3"),
    (200_000, 100, "kill-broker:0"),
)
"""Partitions, brokers, and the step; broker 0 is the controller."""
HELD = ("stop-broker:3", "kill-broker:0")
"""One operation each: the slowest of them has a bound."""


def measure() -> dict[str, Any]:
    """Rehearse each case; return seconds, changed partitions, and peak MiB."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        cases = [pool.apply(_measure, case) for case in CASES]
    worst = {
        size: max(c["seconds"] for c in cases if c["partitions"] == size and c["step"] in HELD)
        for size in (10_000, 200_000)
    }
    return {
        "scenario": "rehearse",
        "cases": cases,
        "figures": judged(rehearse_10000=worst[10_000], rehearse_200000=worst[200_000]),
        "machine": machine.describe(),
    }


def _measure(partitions: int, brokers: int, step: str) -> dict[str, Any]:
    values = [_view(number, brokers) for number in range(partitions // PARTITIONS)]
    facts = ClusterFacts(
        live=frozenset(range(brokers)), controller=0, controller_epoch=1, min_isr_assumed=2
    )
    before_mib = _most_mib()
    began, cpu = time.perf_counter(), time.process_time()
    said = rehearse(facts, _decoded(values), [read_step(step)])
    return {
        "partitions": partitions,
        "brokers": brokers,
        "step": step,
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "operations": len(said.steps),
        "changes": sum(each.changes.count for each in said.steps),
        "mib": round(_most_mib() - before_mib),
    }


def _most_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _decoded(values: list[bytes]) -> Iterator[PartitionFacts]:
    for value in values:
        view = decode_view(value)
        if isinstance(view, TopicView):
            yield from partitions_in(view)


def _view(number: int, brokers: int) -> bytes:
    replicas = tuple(
        tuple((number * 7 + partition + place) % brokers for place in range(3))
        for partition in range(PARTITIONS)
    )
    view = TopicView(
        v=VERSION,
        cluster="bench",
        as_of=AsOf("bench", 1, 1),
        name=f"topic-{number}",
        chunk=0,
        chunks=1,
        partitions=tuple(range(PARTITIONS)),
        replicas=replicas,
        leader=tuple(each[0] for each in replicas),
        isr=replicas,
        leader_epoch=(0,) * PARTITIONS,
        controller_epoch=(1,) * PARTITIONS,
        partition_epoch=(0,) * PARTITIONS,
        leader_recovery_state=(0,) * PARTITIONS,
    )
    return encode_view(view)
