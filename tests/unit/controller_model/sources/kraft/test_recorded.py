"""Logs of real controllers: what is folded up to each of Kafka's own snapshots is what that snapshot holds.

Recorded from Kafka 3.9.1 and 4.1.1, one controller and four brokers that existed as requests only: topics, reassignments and
their cancellation, a failed log directory, fences, controlled shutdowns, preferred and unclean elections, deletions, and
eligible leader replicas.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller_model.records.changes import decode_metadata
from controller_model.records.metadata_log import (
    AnyMetadataRecord,
    MetadataBatch,
    MetadataSlice,
    SnapshotFinished,
    SnapshotPart,
    SnapshotStarted,
)
from controller_model.records.views import BrokerView, TopicView
from tests.support.kraft_cluster import KraftFold

FOLDER = Path(__file__).parents[4] / "recorded" / "metadata_log"
NAMES = ("kafka_3_9", "kafka_4_1", "kafka_4_1_elr")


def recorded(name: str) -> tuple[list[MetadataSlice], list[SnapshotPart]]:
    """Return a recorded log, and Kafka's snapshots of it."""
    lines = gzip.decompress((FOLDER / f"{name}.jsonl.gz").read_bytes()).splitlines()
    records = [decode_metadata(line) for line in lines]
    slices = [each for each in records if isinstance(each, MetadataSlice)]
    return slices, [each for each in records if isinstance(each, SnapshotPart)]


def up_to(slices: list[MetadataSlice], end: int) -> list[MetadataSlice]:
    """Return the part of a log before an offset."""
    found = []
    for each in slices:
        if each.first >= end:
            break
        batches = []
        for batch in each.batches:
            kept = [i for i in range(len(batch.records)) if batch.offset_of(i) < end]
            if kept:
                offsets = tuple(batch.offset_of(index) for index in kept)
                held = batch.records[: len(kept)]
                batches.append(MetadataBatch(offsets[0], batch.at, held, offsets))
        last = min(each.last, end - 1)
        found.append(msgspec.structs.replace(each, last=last, batches=tuple(batches)))
    return found


def alone(part: SnapshotPart) -> list[AnyMetadataRecord]:
    """Return a snapshot as a watcher publishes it."""
    who: dict[str, Any] = {
        name: getattr(part, name)
        for name in ("v", "cluster", "generation", "watcher", "observed_at", "end", "epoch")
    }
    return [SnapshotStarted(**who), part, SnapshotFinished(**who, parts=1)]


def facts(fold: KraftFold) -> dict[str, Any]:
    """Return what a snapshot holds: no times, counters or elections."""
    views = fold.views()
    topics = {
        key: [
            getattr(view, name)
            for name in TopicView.__struct_fields__
            if name not in {"as_of", "controller_epoch"}
        ]
        for key, view in views.items()
        if isinstance(view, TopicView)
    }
    brokers = {
        view.id: (
            view.record.epoch, view.record.fenced, view.record.shutting_down, view.record.live,
            view.record.endpoints, view.record.features, view.inferred_state, view.leaders,
            view.in_isr, view.offline_if_lost,
        )
        for view in views.values()
        if isinstance(view, BrokerView) and view.record.fenced is not None
    }  # fmt: skip
    cluster = fold.cluster
    assert cluster.quorum is not None
    return {
        "topics": topics,
        "brokers": brokers,
        "counts": cluster.counts,
        "live": cluster.brokers_live,
        "config": cluster.config,
        "features": cluster.quorum.features,
        "controllers": cluster.quorum.controllers,
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_fold_agrees_with_kafkas_own_snapshots(name: str) -> None:
    """Records are merged as Kafka merges them, at each point at which it wrote what it holds."""
    slices, snapshots = recorded(name)
    assert len(snapshots) >= 13
    for snapshot in snapshots:
        folded = KraftFold().feed(up_to(slices, snapshot.end))
        assert facts(folded) == facts(KraftFold().feed(alone(snapshot)))
        assert folded.cluster.log.anomalies == 0


@pytest.mark.parametrize("name", NAMES)
def test_what_happened_is_stated(name: str) -> None:
    """Both ends of brokers, the elections after them, and nothing odd."""
    slices, _ = recorded(name)
    fold = KraftFold().feed(slices)
    kinds = {type(each).__name__ for each in fold.events}
    assert {"BrokerStopped", "LeadersElected", "PartitionsOffline", "TopicDeleted"} <= kinds
    assert {"Anomaly", "Incomplete"}.isdisjoint(kinds)
    counters = fold.cluster.counters
    assert counters.unclean_elections == (4 if name.endswith("elr") else 0)
    assert "unknown" not in counters.leader_elections
