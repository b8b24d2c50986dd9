"""Measure how many changes per processor second the model folds, from bytes to events, and its memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from bench import machine
from bench.figures import judged
from bench.load import LogLoad, messages
from bench.map_state import TopicsInMemory
from controller_model.fold.projection import SentViews, project
from controller_model.fold.replay import EventBatch
from controller_model.kafka.ids import AsOf
from controller_model.records.changes import decode_message
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.contribution import Contribution
from controller_model.state.control_plane import Assumed, ControlPlane
from streaming.fixed_costs import relax_gc

SUMMARY = "changes per processor second: decode, replay, accounts; with views; 1,000,000 partitions"

TOPICS = 1_000
PARTITIONS = 10
BROKERS = 12
CHANGES = 100_000
MESSAGES_PER_BATCH = 400
"""Changes of a batch, as the fold takes them (max_offsets_per_trigger)."""

LARGE_TOPICS = 10_000
LARGE_PARTITIONS = 100
LARGE_BROKERS = 100


def measure() -> dict[str, Any]:
    """Fold a resync, then changes, with and without views; then build 1,000,000 partitions.

    It runs as the fold's worker does, including its garbage collector.
    """
    relax_gc()
    small = _new_state()
    load = LogLoad("bench", topics=TOPICS, partitions=PARTITIONS, brokers=BROKERS)
    resync = _fold(small, messages(load.resync()))
    changes = _fold(small, messages(load.changes(CHANGES)))
    shown = _fold(small, messages(load.changes(CHANGES)), views=True)
    memory = machine.peak_memory_mib(os.getpid())
    large = _new_state()
    partitions = LARGE_TOPICS * LARGE_PARTITIONS
    heavy = LogLoad(
        "bench", topics=LARGE_TOPICS, partitions=LARGE_PARTITIONS, brokers=LARGE_BROKERS
    )
    built = _fold(large, messages(heavy.resync()))
    return {
        "scenario": "replay",
        "figures": judged(replay_leaders=changes.rate),
        "topics": TOPICS,
        "partitions": TOPICS * PARTITIONS,
        "brokers": BROKERS,
        "resync_changes_per_s": resync.rate,
        "changes_per_s": changes.rate,
        "changes_per_s_with_views": shown.rate,
        "large_partitions": partitions,
        "large_built_s": round(built.seconds, 1),
        "large_changes_per_s": built.rate,
        "large_packed_bytes_per_partition": round(large.topics.state_bytes() / partitions, 1),
        "small_peak_memory_mib": memory,
        "large_peak_memory_mib": machine.peak_memory_mib(os.getpid()),
        "large_verified": large.control.log.view.verified_at is not None,
        "large_totals_equal_a_count_from_scratch": _count(large) == large.control.totals,
        "machine": machine.describe(),
    }


class _Folded:
    """The processor time of a fold, without the time to generate its load."""

    def __init__(self) -> None:
        self.changes = 0
        self.seconds = 0.0

    @property
    def rate(self) -> int:
        """Changes per second."""
        return round(self.changes / self.seconds)


class _Held(NamedTuple):
    """What the fold's state store holds of a cluster."""

    control: ControlPlane
    topics: TopicsInMemory


def _new_state() -> _Held:
    return _Held(ControlPlane("bench", assumed=Assumed(), counters_since=0), TopicsInMemory())


def _count(held: _Held) -> Contribution:
    counted = ClusterState(_new_state().control, MemoryTopicStore(), ZOOKEEPER)
    state = ClusterState(held.control, held.topics.batch(), ZOOKEEPER)
    for name in state.topics.names():
        counted.put_topic(state.topic(name))
    return counted.control.totals


def _fold(held: _Held, log: Iterable[bytes], *, views: bool = False) -> _Folded:
    """Fold a log as the fold's worker does: each batch begins and ends with packed topics."""
    folded = _Folded()
    sent = SentViews()
    for messages_ in _batches(log):
        began = time.process_time()
        topics = held.topics.batch()
        state = ClusterState(held.control, topics, ZOOKEEPER)
        batch = EventBatch(state)
        for message in messages_:
            for change in decode_message(message).changes:
                batch.apply(change)
                folded.changes += 1
        batch.finish()
        if views:
            as_of = AsOf("bench", *state.control.log.position)
            for _ in project(state, as_of=as_of, folded_at=0, sent=sent):
                pass
        topics.flush()
        folded.seconds += time.process_time() - began
    return folded


def _batches(log: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for message in log:
        batch.append(message)
        if len(batch) == MESSAGES_PER_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
