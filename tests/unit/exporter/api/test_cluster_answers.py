"""The JSON of the API, without HTTP."""

from __future__ import annotations

from urllib.parse import urljoin

import msgspec

from controller_model.kafka.ids import Position, TopicPartition
from controller_model.metrics.metric import Moment
from controller_model.records.completeness import ReaderProgress, assess
from controller_model.records.event_records import EventId, EventRecord
from controller_model.records.events import BrokerStarted, IsrShrunk, RecommendationGraded
from controller_model.records.views import ClusterConfig, ControllerView, KraftMigration
from exporter.api import cluster_answers
from exporter.intake.view_store import ViewStore
from tests.support.samples import (
    FRESH,
    T0,
    as_of,
    broker_view,
    cluster_view,
    elected,
    log_view,
    recommendation_view,
    record,
)

LARGEST_SAFE = 2**53
"""JavaScript and many other JSON readers round integers above this."""


def integers(body: object) -> list[int]:
    """Return all integers in a JSON value."""
    if isinstance(body, dict):
        return [n for item in body.values() for n in integers(item)]
    if isinstance(body, list | tuple):
        return [n for item in body for n in integers(item)]
    return [body] if isinstance(body, int) else []


def test_no_integer_exceeds_two_to_the_53() -> None:
    """Generation, zxids and broker epochs are text wherever they occur."""
    huge = 2**62
    store = ViewStore()
    migration = KraftMigration(
        controller=3000, controller_epoch=1, metadata_offset=huge, metadata_epoch=1, written_at=T0
    )
    view = cluster_view(
        at=as_of(1, generation=huge),
        log=log_view(read_zxid=huge),
        config=ClusterConfig(migration=migration),
    )
    store.apply(record(broker_view(0, as_of(1, generation=huge), epoch=huge)))
    store.apply(record(view))
    started = BrokerStarted(
        at=T0, position=Position(huge, 1), source_number=huge, broker=0, epoch=huge, host="h"
    )
    event = EventRecord(v=1, cluster="prod", id=EventId("L1", huge, 1, 0), event=started)
    moment = Moment(completeness=assess(view, FRESH, T0), behind_ms={}, vacant_ms=0)
    events = [cluster_answers.event(event), cluster_answers.event(elected(1))]
    body = cluster_answers.detail(store.clusters["prod"], moment, [], events)
    msgspec.json.encode(body)
    assert max(integers(body)) < LARGEST_SAFE
    assert body["log"]["read_zxid"] == str(huge)
    assert body["migration"]["metadata_offset"] == str(huge)
    assert body["events"][0]["epoch"] == str(huge)
    assert body["events"][1]["epoch"] == 1


def test_an_event_of_many_partitions_lists_the_first_and_counts_all() -> None:
    """An answer stays small however many partitions an event has."""
    partitions = tuple(TopicPartition("t", n) for n in range(500))
    shrunk = IsrShrunk(
        at=T0,
        position=Position(1, 1),
        who=(1,),
        leader=0,
        by_controller=True,
        partitions=partitions,
    )
    event = cluster_answers.event(
        EventRecord(v=1, cluster="prod", id=EventId("L", 1, 1, 0), event=shrunk)
    )
    assert event["partition_count"] == 500
    assert event["partitions"][0] == {"topic": "t", "partition": 0}
    assert len(event["partitions"]) < 50


def test_the_event_of_a_grade_names_its_partitions() -> None:
    """As the recommendation's answer does, which has the same grade."""
    (grade,) = recommendation_view().graded
    graded = RecommendationGraded(at=T0, position=Position(1, 1), grade=grade)
    event = cluster_answers.event(
        EventRecord(v=1, cluster="prod", id=EventId("L", 1, 1, 0), event=graded)
    )
    assert event["grade"]["examples_lost_again"] == [{"topic": "t", "partition": 1}]


def test_a_summary_has_name_completeness_controller_and_counts() -> None:
    """It has the name, completeness, controller and counts."""
    store = ViewStore()
    view = cluster_view(controller=ControllerView(id=3, epoch=9, elections=4))
    store.apply(record(view))
    answer = cluster_answers.summary(
        store.clusters["prod"], assess(view, ReaderProgress(read_ms=None, watcher_ms=0), T0)
    )
    body = msgspec.to_builtins(answer)
    assert body["controller"] == {"id": 3, "epoch": 9}
    assert body["completeness"]["status"] == "behind"
    assert body["completeness"]["stage"] == "exporter"
    assert urljoin("http://h/prefix/api/v1/clusters", body["href"]) == (
        "http://h/prefix/api/v1/clusters/prod"
    )
