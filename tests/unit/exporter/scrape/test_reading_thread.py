"""The reading thread, without its thread: records go in, figures come out."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from exporter.core.config import ExportSettings
from exporter.core.metrics import ExporterMetrics
from exporter.core.status import ReadingState
from exporter.intake.event_store import EventStore
from exporter.intake.view_store import ViewStore
from exporter.scrape.collector import Collector
from exporter.scrape.reading_thread import ReadingThread
from pipeline.settings import load
from pipeline.topic_records import Record
from tests.support.samples import (
    EVENTS,
    T0,
    VIEWS,
    as_of,
    cluster_view,
    deleted,
    elected,
    event_record,
    log_view,
    raw,
    record,
)

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


class Reading:
    """A reading thread that is not started, and what it fills."""

    def __init__(self) -> None:
        self.events = EventStore(kept=10)
        self.registry = CollectorRegistry()
        state = ReadingState("kafka:9092")
        self.thread = ReadingThread(
            load(ExportSettings),
            views=ViewStore(),
            events=self.events,
            collector=Collector(state.of_cluster),
            state=state,
            metrics=ExporterMetrics(self.registry),
            clock=lambda: T0 + 5_000,
        )

    def take(self, *records: Record) -> None:
        """Take records in as one reading of Kafka."""
        self.thread._take_in(list(records), VIEWS, EVENTS)

    def shown(self) -> dict[str, int]:
        """Return the clusters that are shown, each with the seq it holds for."""
        held = self.thread.collector.clusters
        return {name: each.snapshot.view.as_of.seq for name, each in held.items()}

    def figure(self, name: str, **labels: str) -> float | None:
        """Return a figure of the exporter about itself."""
        return self.registry.get_sample_value(f"kcm_exporter_{name}", labels)


def test_a_start_shows_the_state_at_the_end_once() -> None:
    """Not every state on the way to it; from then on each complete batch is shown."""
    reading = Reading()
    reading.take(record(cluster_view()), record(cluster_view(at=as_of(2))))
    assert reading.shown() == {}
    reading.thread._ready()
    assert reading.shown() == {"prod": 2}
    assert reading.thread.status.read_to_end_once
    reading.take(record(cluster_view(at=as_of(3))))
    assert reading.shown() == {"prod": 3}
    assert reading.figure("clusters") == 1


def test_what_cannot_be_read_is_counted_by_its_topic() -> None:
    """It holds nothing up: the records beside it are taken in."""
    reading = Reading()
    reading.thread._ready()
    reading.take(raw(b"prod/cluster", b"not JSON"), record(cluster_view()))
    reading.take(raw(b"prod", b"{}", topic=EVENTS), event_record(elected(1)))
    assert reading.shown() == {"prod": 1}
    for topic in (VIEWS, EVENTS):
        assert reading.figure("records_total", topic=topic) == 2
        assert reading.figure("unreadable_records_total", topic=topic) == 1


def test_delays_are_measured_of_what_comes_after_the_start() -> None:
    """Of a record since it was written, of a change since the watcher noticed it, once."""
    reading = Reading()
    reading.take(record(cluster_view()))
    reading.thread._ready()
    assert reading.figure("record_delay_seconds_count") == 0
    later = log_view(last_change_at=T0 + 4_000)
    reading.take(record(cluster_view(at=as_of(2), log=later)))
    reading.take(record(cluster_view(at=as_of(3), log=later)))
    assert reading.figure("record_delay_seconds_count") == 2
    assert reading.figure("record_delay_seconds_sum") == 10
    assert reading.figure("change_delay_seconds_count") == 1
    assert reading.figure("change_delay_seconds_sum") == 1


def test_a_cluster_that_goes_takes_its_events_with_it() -> None:
    """Nothing of it is served any more."""
    reading = Reading()
    reading.thread._ready()
    reading.take(record(cluster_view()), event_record(elected(1)))
    assert reading.events.held_from("prod") is not None
    reading.take(record(deleted(as_of(2)), "prod/cluster"))
    assert reading.shown() == {}
    assert reading.events.held_from("prod") is None
