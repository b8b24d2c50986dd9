"""Measure the memory of the end of a resync: the walk over all znodes held, for those it did not name.

The cluster is packed, as Spark's state store holds it; one topic is gone. The store itself is not
counted, since it is in the JVM.
"""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

from bench import machine
from bench.map_state import TopicsInMemory
from controller_model.facts.origin import Origin
from controller_model.fold.replay import replay
from controller_model.kafka.ids import Position
from controller_model.records.changes import ChangeKind, ZnodeChange, digest_text
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.sources.zookeeper.state import ResyncState, ZooKeeperState
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.topic_state import PartitionRecord, TopicState

SUMMARY = "the sweep at a resync's end: peak memory and seconds at 200,000 and 1,000,000 partitions"

SIZES = (2_000, 10_000)
"""Numbers of topics."""
PARTITIONS = 100
"""Partitions of each topic."""


def measure() -> dict[str, Any]:
    """Return, by size, the peak of Python's memory above the start, and the time."""
    return {
        "scenario": "sweep",
        "machine": machine.describe(),
        "partitions": {str(size * PARTITIONS): _sweep(size) for size in SIZES},
    }


def _sweep(size: int) -> dict[str, Any]:
    store = TopicsInMemory()
    topics = store.batch()
    for number in range(size):
        topic = _topic(f"topic-{number}", resync=int(number != size // 2))
        topics.put(topic)
        if number % 100 == 99:  # noqa: PLR2004  # a batch
            topics.flush()
            topics = store.batch()
    topics.flush()
    store.new_worker()
    control = ControlPlane("bench", assumed=Assumed(), counters_since=1, now=1)
    log = control.log
    log.position, log.view.watcher, log.baseline = Position(1, 1), "w", True
    log.view.znodes = size * (PARTITIONS + 1)
    confirmed = log.view.znodes - PARTITIONS - 1
    resync = ResyncState(1, rebase=False, znodes=confirmed)
    control.source = ZooKeeperState(resync=resync, resync_ordinal=1)
    control.topics = size
    end = ZnodeChange(
        v=1,
        cluster="bench",
        generation=1,
        watcher="w",
        seq=2,
        kind=ChangeKind.RESYNC_FINISHED,
        observed_at=2,
        resync=1,
        znodes=confirmed,
        digest=digest_text(0),
    )
    state = ClusterState(control, store.batch(), ZOOKEEPER)
    tracemalloc.start()
    began = time.perf_counter()
    events, _ = replay(state, end)
    seconds = time.perf_counter() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "peak_mib": round(peak / 2**20, 1),
        "seconds_while_traced": round(seconds, 1),
        "topics_deleted": sum(type(event).__name__ == "TopicDeleted" for event in events),
    }


def _topic(name: str, *, resync: int) -> TopicState:
    partitions = {
        number: PartitionRecord(
            (1, 2, 3), 1, (1, 2, 3), 1, 1, origin=Origin(10_000 + number, 10_000, 1, resync)
        )
        for number in range(PARTITIONS)
    }
    return TopicState(name, partitions, exists=True, origin=Origin(1, 1, 0, resync))
