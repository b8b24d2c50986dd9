"""Readiness, and which stage is blamed for lateness, from plain facts."""

from __future__ import annotations

import msgspec
import pytest

from controller_model.records.completeness import Stage
from controller_model.records.views import ABSENT_IN_KRAFT
from exporter.core.status import ReadingState, ReadingStatus, reasons_not_ready
from exporter.intake.view_store import ViewStore
from tests.support.samples import T0, beat, cluster_view, log_view, record

GONE_MS = 15_000
READY = ReadingStatus(read_to_end_once=True, kafka_answered_at=T0)


def test_the_exporter_is_not_ready_before_both_topics_are_read_to_their_ends() -> None:
    """The reason says what is being done and how many records are left."""
    assert reasons_not_ready(ReadingStatus(), T0, kafka_gone_ms=GONE_MS) == [
        "waiting for the pipeline's Kafka and its topics"
    ]
    reading = ReadingStatus(stage="reading the topics to their ends", records_left=12)
    assert reasons_not_ready(reading, T0, kafka_gone_ms=GONE_MS) == [
        "reading the topics to their ends: 12 records left"
    ]


def test_the_exporter_is_ready_until_kafka_has_not_answered_for_too_long() -> None:
    """A short time without an answer is not reported; a long one is, with its length."""
    assert reasons_not_ready(READY, T0 + GONE_MS, kafka_gone_ms=GONE_MS) == []
    (reason,) = reasons_not_ready(READY, T0 + GONE_MS + 1000, kafka_gone_ms=GONE_MS)
    assert "16 s" in reason


def test_a_kafka_that_never_answered_a_probe_is_reported_as_gone() -> None:
    """Records that were read show until when it answered."""
    read = ReadingStatus(read_to_end_once=True, read_at=T0)
    assert reasons_not_ready(read, T0 + GONE_MS, kafka_gone_ms=GONE_MS) == []
    (reason,) = reasons_not_ready(read, T0 + GONE_MS + 1000, kafka_gone_ms=GONE_MS)
    assert "16 s" in reason


@pytest.mark.parametrize(("kafka_gone_ms", "bound_ms"), [(GONE_MS, GONE_MS), (3_600_000, 60_000)])
def test_a_stuck_reading_thread_is_reported_without_blaming_kafka(
    kafka_gone_ms: int, bound_ms: int
) -> None:
    """While the thread does not run, nothing is known about Kafka: it may answer all requests."""
    later = T0 + bound_ms + 1_000
    assert reasons_not_ready(READY, later, kafka_gone_ms=kafka_gone_ms, still_ms=bound_ms) == []
    (reason,) = reasons_not_ready(
        READY, later, kafka_gone_ms=kafka_gone_ms, still_ms=bound_ms + 1_000
    )
    assert f"has read nothing for {bound_ms // 1000 + 1} s: its reading thread stands" in reason


def test_not_ready_names_a_deleted_topic() -> None:
    """A deleted topic makes the exporter not ready, by name."""
    status = ReadingStatus(read_to_end_once=True, kafka_answered_at=T0, topics_gone=("kcm.views",))
    assert reasons_not_ready(status, T0, kafka_gone_ms=GONE_MS) == ["topic kcm.views is gone"]


def test_log_lag_is_measured_against_the_newest_views_of_its_partition() -> None:
    """Where one cluster's watcher died, the fold is not blamed for the partition's other clusters.

    The clocks of watchers and of Kafka do not matter: an hour ahead, or behind, blames nobody.
    """
    store = ViewStore()
    store.apply(record(cluster_view("dead", log=log_view(heartbeat_at=T0 - 3_600_000))))
    store.apply(record(cluster_view("lives", log=log_view(heartbeat_at=T0 + 3_600_000))))
    now = [T0]
    state = ReadingState(ReadingStatus(read_at=T0), steady=lambda: now[0])
    dead = store.clusters["dead"]
    state.note_clusters(store.clusters, store.clusters, is_live=True)
    assert state.of_cluster(dead).log_ahead_ms is None, "the log was not seen to move yet"
    now[0] += 90_000
    state.note_clusters(store.clusters, ["lives"], is_live=True)
    state.status = msgspec.structs.replace(state.status, log_moved_at={0: T0 + 95_000})
    assert state.of_cluster(dead).log_ahead_ms == 5_000
    elsewhere = msgspec.structs.replace(dead, partition=1)
    assert state.of_cluster(elsewhere).log_ahead_ms is None


@pytest.mark.parametrize("source", [Stage.ZOOKEEPER, Stage.CONTROLLER])
def test_a_skew_of_the_source_is_called_by_what_the_cluster_has(source: Stage) -> None:
    """The watcher of a KRaft cluster compares its clock with the active controller's: there is no ZooKeeper."""
    now = [T0]
    state = ReadingState(ReadingStatus(read_at=T0), steady=lambda: now[0], wall=lambda: now[0])
    absent = ABSENT_IN_KRAFT if source is Stage.CONTROLLER else ()
    store = ViewStore()
    store.apply(record(cluster_view(log=log_view(absent=absent))))
    for number in range(1, 12):
        now[0] += 1000
        state.status = msgspec.structs.replace(state.status, read_at=now[0])
        sent = beat(number, source_ahead_ms=70_000, sent_at=now[0], sent_steady=now[0])
        state.note_beat(sent, is_live=True)
    skew = state.of_cluster(store.clusters["prod"]).clock_skew_ms
    assert skew == {Stage.WATCHER: 0, source: 70_000}
