"""The reading thread, without its thread: records go in, figures come out."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from controller_model.records.incidents import IncidentsSummary
from controller_model.records.views import AnyView
from pipeline.supervised_thread import StandstillError
from pipeline.topic_probe import TopicsAnswer
from pipeline.topic_records import Place, ReadBatch
from pipeline.topics import EnsuredTopics, topic_names
from tests.support.hostile import WIDE, with_a_number
from tests.support.reading import Reading
from tests.support.samples import (
    EVENTS,
    T0,
    VIEWS,
    as_of,
    beat,
    broker_view,
    cluster_view,
    deleted,
    elected,
    event_record,
    incident,
    incidents_view,
    last_incident,
    log_view,
    raw,
    recommendation_view,
    record,
    topic_view,
)

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

VIEWS_OF_EACH_KIND: list[AnyView] = [
    cluster_view(incidents=IncidentsSummary(last_closed=last_incident())),
    broker_view(1, ends={"crashed": 1}, leader_skew=0.5, isr_leave_minutes=(1,)),
    topic_view("t", adding={0: (1,)}),
    incidents_view(incident(1)),
    recommendation_view(),
    beat(1, sent_steady=T0),
]


def test_a_start_shows_the_state_at_the_end_once() -> None:
    """Not every state on the way to it; from then on each complete batch is shown."""
    reading = Reading()
    reading.take(record(cluster_view()), record(cluster_view(at=as_of(2))))
    assert reading.shown() == {}
    reading.thread._ready()
    assert reading.shown() == {"prod": 2}
    assert reading.state.status.read_to_end_once
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


@pytest.mark.parametrize("number", WIDE.values(), ids=WIDE)
@pytest.mark.parametrize("view", VIEWS_OF_EACH_KIND, ids=lambda view: type(view).__name__)
def test_no_number_of_a_view_ends_the_reading(view: AnyView, number: int) -> None:
    """Such a view counts as unreadable, whatever would be made of the number; the next batch is shown."""
    good = record(view)
    reading = Reading()
    reading.thread._ready()
    harmful = list(with_a_number(good.value or b"", number))
    reading.take(*(good._replace(value=value) for value in harmful))
    assert reading.figure("unreadable_records_total", topic=VIEWS) == len(harmful)
    reading.take(record(cluster_view(at=as_of(9))))
    assert reading.shown() == {"prod": 9}


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


class Consumer:
    """What a reader of Kafka says of its positions."""

    def __init__(self, next_offset: dict[Place, int]) -> None:
        self.next_offset = next_offset

    def reopen(self, *, from_beginning: Iterable[Place]) -> None:
        """Begin again at these places."""
        for place in from_beginning:
            self.next_offset.pop(place, None)


def answered(at: int, ends: dict[Place, int], *topics: str) -> TopicsAnswer:
    """Return Kafka's answer: these topics are there, and end so."""
    return TopicsAnswer(at, {topic: f"id-{topic}" for topic in topics}, ends, {})


def test_who_lacks_a_topic_has_not_read_to_the_end() -> None:
    """Neither by Kafka's answer, where a topic that is gone has no end, nor by ends of before."""
    reading = Reading()
    consumer: Any = Consumer({(VIEWS, 0): 5, (EVENTS, 0): 7})
    reading.thread._places = [(VIEWS, 0), (EVENTS, 0)]
    reading.thread._ids = {VIEWS: f"id-{VIEWS}", EVENTS: f"id-{EVENTS}"}
    reading.thread._note_answer(answered(T0, {(VIEWS, 0): 5}, VIEWS), consumer)
    assert reading.state.status.topics_gone == (EVENTS,)
    assert reading.state.status.read_at is None
    assert not reading.state.status.read_to_end_once
    reading.thread._note(ReadBatch([], [(VIEWS, 0), (EVENTS, 0)], []), consumer)
    assert reading.state.status.read_at is None
    both = {(VIEWS, 0): 5, (EVENTS, 0): 7}
    reading.thread._note_answer(answered(T0 + 1, both, VIEWS, EVENTS), consumer)
    assert reading.state.status.read_at == T0 + 1
    assert reading.state.status.read_to_end_once


def test_signs_that_are_read_again_from_the_beginning_prove_nothing() -> None:
    """What comes before the end of a topic may be of any age; from the end on it counts."""
    reading = Reading()
    reading.thread._note_end(reading.now)
    reading.thread._places = [(VIEWS, 0)]
    reading.take(record(cluster_view()), record(beat(1)))
    reading.now += 1000
    reading.take(record(beat(2)))
    assert reading.status() == "live"
    reading.now += 1000
    reading.thread._reread(Consumer({}), {VIEWS}, "it lost records")  # type: ignore[arg-type]  # a reader without Kafka
    for number in range(3, 9):
        reading.now += 1000
        reading.take(record(beat(number)))
    assert reading.status() == "behind"
    reading.thread._note(ReadBatch([], [(VIEWS, 0)], []), Consumer({}))  # type: ignore[arg-type]  # the same
    for number in range(10, 13):
        reading.now += 1000
        reading.take(record(beat(number)))
        reading.thread._note_end(reading.now)
    assert reading.status() == "live"


def test_signs_of_a_topic_that_was_created_again_count_no_more() -> None:
    """What the fold publishes again into the new one proves no watcher, and no beat of before does."""
    reading = Reading()
    reading.thread._ids = {VIEWS: "a", EVENTS: "e"}
    reading.thread._note_end(reading.now)
    reading.thread._places = [(VIEWS, 0)]
    reading.take(record(cluster_view()), record(beat(1)))
    reading.now += 1000
    reading.take(record(beat(2)))
    assert reading.status() == "live"
    answer = TopicsAnswer(reading.now, {VIEWS: "b", EVENTS: "e"}, {(VIEWS, 0): 9}, {})
    probe = SimpleNamespace(answer=answer, failure=None)
    reading.thread._consider(probe, Consumer({}), VIEWS)  # type: ignore[arg-type]  # both without Kafka
    reading.thread._note_end(reading.now)
    assert reading.status() == "behind"
    reading.take(record(cluster_view(at=as_of(2))))
    assert reading.status() == "behind"


def test_a_cluster_that_goes_takes_its_events_with_it() -> None:
    """Nothing of it is served any more."""
    reading = Reading()
    reading.thread._ready()
    reading.take(record(cluster_view()), event_record(elected(1)))
    assert reading.events.held_from("prod") is not None
    reading.take(record(deleted(as_of(2)), "prod/cluster"))
    assert reading.shown() == {}
    assert reading.events.held_from("prod") is None


def test_what_ended_the_probe_ends_the_reading() -> None:
    """Each turn asks for it: without answers of Kafka nobody would know what is left to read."""

    def check() -> None:
        raise StandstillError("the thread topic-probe has stood still")

    probe: Any = SimpleNamespace(thread=SimpleNamespace(check=check))
    consumer: Any = SimpleNamespace(poll=lambda _: ReadBatch([], [], []))
    with pytest.raises(StandstillError):
        Reading().thread._turn(EnsuredTopics(topic_names("kcm"), 1, {}), consumer, probe)
