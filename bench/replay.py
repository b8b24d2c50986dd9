"""How many changes per second the model folds on one core, decoding included."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from typing import Any

from bench import machine
from bench.load import LogLoad, messages
from controller_model.changes import decode_message
from controller_model.cluster import (
    Assumed,
    ClusterState,
    MemoryTopicStore,
    new_cluster,
    pack_topic,
)
from controller_model.ids import AsOf
from controller_model.projection import project
from controller_model.replay import finish_batch, replay

SUMMARY = "changes per second through decode, replay, totals and views, on one core"

TOPICS = 1_000
PARTITIONS = 10
BROKERS = 12
CHANGES = 100_000


def measure() -> dict[str, Any]:
    """Fold a resync, then changes, in messages of the log's own size."""
    load = LogLoad("bench", topics=TOPICS, partitions=PARTITIONS, brokers=BROKERS)
    state = ClusterState(
        new_cluster("bench", assumed=Assumed(), counters_since=0), MemoryTopicStore()
    )
    resync = _fold(state, list(messages(load.resync())))
    changes = _fold(state, list(messages(load.changes(CHANGES))))
    packed = sum(len(pack_topic(topic)) for topic in _topics(state))
    return {
        "scenario": "replay",
        "topics": TOPICS,
        "partitions": TOPICS * PARTITIONS,
        "brokers": BROKERS,
        "resync_changes_per_s": resync,
        "changes_per_s": changes,
        "packed_bytes_per_partition": round(packed / (TOPICS * PARTITIONS), 1),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "verified": state.control.log.verified_at is not None,
        "machine": machine.describe(),
    }


def _fold(state: ClusterState, log: list[bytes]) -> int:
    began = time.perf_counter()
    count = 0
    sent: dict[str, int] = {}
    for message in log:
        for change in decode_message(message).changes:
            replay(state, change)
            count += 1
        finish_batch(state, at=state.control.now)
        as_of = AsOf("bench", *state.control.log.position)
        for _ in project(state, as_of=as_of, folded_at=0, sent=sent):
            pass
    return round(count / (time.perf_counter() - began))


def _topics(state: ClusterState) -> Iterator[Any]:
    for name in state.topics.names():
        yield state.topics.get(name)
