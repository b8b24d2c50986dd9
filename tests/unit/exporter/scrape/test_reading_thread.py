"""The reading thread's logic, without the thread: from records to figures."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from controller_model.records.incidents import IncidentsSummary
from controller_model.records.views import AnyView
from exporter.scrape import reading_thread
from pipeline.kafka_errors import MISSING_S, ReadTrouble
from pipeline.supervised_thread import StandstillError
from pipeline.topic_probe import TopicsAnswer
from pipeline.topic_records import Notice, Place, ReadBatch, Record
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

CHANGES = "kcm.changes"
MISSING_MS = int(MISSING_S * 1000)

VIEWS_OF_EACH_KIND: list[AnyView] = [
    cluster_view(incidents=IncidentsSummary(last_closed=last_incident())),
    broker_view(1, ends={"crashed": 1}, leader_skew=0.5, isr_leave_minutes=(1,)),
    topic_view("t", adding={0: (1,)}),
    incidents_view(incident(1)),
    recommendation_view(),
    beat(1, sent_steady=T0),
]


def test_a_start_shows_only_the_state_at_the_end_of_the_topics() -> None:
    """The states before it are not shown; from then on each complete batch is."""
    reading = Reading()
    reading.take(record(cluster_view()), record(cluster_view(at=as_of(2))))
    assert reading.shown() == {}
    reading.thread._note_end(reading.now)
    assert reading.shown() == {"prod": 2}
    assert reading.state.status.read_to_end_once
    reading.take(record(cluster_view(at=as_of(3))))
    assert reading.shown() == {"prod": 3}
    assert reading.figure("clusters") == 1


def test_unreadable_records_are_counted_by_topic_and_skipped() -> None:
    """It blocks nothing: the other records are applied."""
    reading = Reading()
    reading.thread._note_end(reading.now)
    reading.take(raw(b"prod/cluster", b"not JSON"), record(cluster_view()))
    reading.take(raw(b"prod", b"{}", topic=EVENTS), event_record(elected(1)))
    assert reading.shown() == {"prod": 1}
    for topic in (VIEWS, EVENTS):
        assert reading.figure("records_total", topic=topic) == 2
        assert reading.figure("unreadable_records_total", topic=topic) == 1


@pytest.mark.parametrize("number", WIDE.values(), ids=WIDE)
@pytest.mark.parametrize("view", VIEWS_OF_EACH_KIND, ids=lambda view: type(view).__name__)
def test_a_view_with_an_out_of_range_number_is_unreadable(view: AnyView, number: int) -> None:
    """Such a view counts as unreadable, whatever the number is used for; the next batch is shown."""
    good = record(view)
    reading = Reading()
    reading.thread._note_end(reading.now)
    harmful = list(with_a_number(good.value or b"", number))
    reading.take(*(good._replace(value=value) for value in harmful))
    assert reading.figure("unreadable_records_total", topic=VIEWS) == len(harmful)
    reading.take(record(cluster_view(at=as_of(9))))
    assert reading.shown() == {"prod": 9}


def test_delays_are_measured_for_records_after_the_start() -> None:
    """A record's delay is since it was written; a change's since the watcher noticed it, measured once."""
    reading = Reading()
    reading.take(record(cluster_view()))
    reading.thread._note_end(reading.now)
    assert reading.figure("record_delay_seconds_count") == 0
    later = log_view(last_change_at=T0 + 4_000)
    reading.take(record(cluster_view(at=as_of(2), log=later)))
    reading.take(record(cluster_view(at=as_of(3), log=later)))
    assert reading.figure("record_delay_seconds_count") == 2
    assert reading.figure("record_delay_seconds_sum") == 10
    assert reading.figure("change_delay_seconds_count") == 1
    assert reading.figure("change_delay_seconds_sum") == 1


class Consumer:
    """A reader of Kafka with its positions, which notes where it has to begin again."""

    def __init__(self, next_offset: dict[Place, int] | None = None) -> None:
        self.next_offset = dict(next_offset or {})
        self.reopened: list[set[Place]] = []

    def reopen(self, *, from_beginning: Iterable[Place]) -> None:
        """Begin again at these places."""
        self.reopened.append(set(from_beginning))
        for place in self.reopened[-1]:
            self.next_offset.pop(place, None)


PLACES = [(VIEWS, 0), (VIEWS, 1), (EVENTS, 0)]


def following() -> Reading:
    """Return a reading that has read all partitions to their ends, and follows them."""
    reading = Reading()
    reading.thread._places = list(PLACES)
    reading.thread._ids = {topic: f"id-{topic}" for topic in (VIEWS, EVENTS, CHANGES)}
    note(reading, at_end=PLACES)
    reading.now += 1_000
    return reading


def note(
    reading: Reading,
    *records: Record,
    at_end: Iterable[Place] = (),
    notices: Iterable[Notice] = (),
    consumer: Consumer | None = None,
) -> None:
    """Apply one poll's positions and notices."""
    reader: Any = consumer or Consumer()
    reading.thread._note(ReadBatch(list(records), list(at_end), list(notices)), reader)


def consider(
    reading: Reading,
    answer: TopicsAnswer | None,
    consumer: Consumer | None = None,
    *,
    failure: str | None = None,
) -> None:
    """Evaluate an answer of the probe."""
    probe: Any = SimpleNamespace(answer=answer, failure=failure)
    reader: Any = consumer or Consumer()
    reading.thread._consider(probe, reader, VIEWS)


def answered(at: int, ends: dict[Place, int], *topics: str) -> TopicsAnswer:
    """Return an answer of Kafka: the topics that exist, and their ends."""
    return TopicsAnswer(at, {topic: f"id-{topic}" for topic in topics}, ends, {})


def test_topics_are_not_read_to_the_end_while_one_is_gone() -> None:
    """This holds for Kafka's answer, where a topic that is gone has no end, and for ends reached earlier."""
    reading = Reading()
    consumer: Any = Consumer({(VIEWS, 0): 5, (EVENTS, 0): 7})
    reading.thread._places = [(VIEWS, 0), (EVENTS, 0)]
    reading.thread._ids = {VIEWS: f"id-{VIEWS}", EVENTS: f"id-{EVENTS}"}
    for asked_at, gone in ((T0, ()), (T0 + MISSING_MS, (EVENTS,))):
        reading.thread._note_answer(answered(asked_at, {(VIEWS, 0): 5}, VIEWS), consumer)
        assert reading.state.status.topics_gone == gone
        reading.thread._note(ReadBatch([], [(VIEWS, 0), (EVENTS, 0)], []), consumer)
    assert reading.state.status.read_at is None
    assert not reading.state.status.read_to_end_once
    reading.thread._note(ReadBatch([], [(VIEWS, 0), (EVENTS, 0)], []), consumer)
    assert reading.state.status.read_at is None
    both = {(VIEWS, 0): 5, (EVENTS, 0): 7}
    asked_at = T0 + 2 * MISSING_MS
    reading.thread._note_answer(answered(asked_at, both, VIEWS, EVENTS), consumer)
    assert reading.state.status.read_at == asked_at
    assert reading.state.status.read_to_end_once


def test_signs_of_life_count_only_after_a_reread_reaches_the_end() -> None:
    """A record before the end of a topic may be of any age; after the end it counts."""
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


def test_signs_of_life_from_before_a_topic_recreation_do_not_count() -> None:
    """Neither what the fold publishes again nor an earlier beat proves that the watcher runs."""
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


def test_the_events_of_a_deleted_cluster_are_dropped() -> None:
    """None of its events is served any more."""
    reading = Reading()
    reading.thread._note_end(reading.now)
    reading.take(record(cluster_view()), event_record(elected(1)))
    assert reading.events.held_from("prod") is not None
    reading.take(record(deleted(as_of(2)), "prod/cluster"))
    assert reading.shown() == {}
    assert reading.events.held_from("prod") is None


def test_a_failed_probe_ends_the_reading() -> None:
    """Each turn checks the probe: without Kafka's answers it is not known what is left to read."""

    def check() -> None:
        raise StandstillError("the thread topic-probe has stood still")

    probe: Any = SimpleNamespace(thread=SimpleNamespace(check=check))
    consumer: Any = SimpleNamespace(poll=lambda _: ReadBatch([], [], []))
    with pytest.raises(StandstillError):
        Reading().thread._turn(EnsuredTopics(topic_names("kcm"), 1, {}), consumer, probe)


def test_signs_of_life_before_the_first_end_do_not_count() -> None:
    """They may be of any age; those after the end count."""
    reading = Reading()
    reading.take(record(cluster_view()), record(beat(1)))
    reading.now += 1_000
    reading.take(record(beat(2)))
    reading.thread._note_end(reading.now)
    assert reading.status() == "behind"
    for number in (3, 4):
        reading.now += 1_000
        reading.take(record(beat(number)))
        reading.thread._note_end(reading.now)
    assert reading.status() == "live"


def test_progress_without_beats_counts_only_after_a_reread_ends() -> None:
    """While a topic is read again from its beginning, the figures may have moved at any time."""
    reading = following()
    reading.take(record(cluster_view()))
    assert reading.status() == "live"
    reading.now += 60_000
    reading.thread._reread(Consumer(), {VIEWS}, "it lost records")  # type: ignore[arg-type]  # a reader without Kafka
    reading.take(record(cluster_view(at=as_of(2))))
    reading.thread._note_end(reading.now)
    assert reading.status() == "behind"
    reading.take(record(cluster_view(at=as_of(3))))
    assert reading.status() == "live"


def test_delays_are_measured_for_shown_clusters_and_never_negative() -> None:
    """A cluster that is removed in the same batch has no delay, and the others keep theirs; clocks may differ."""
    reading = following()
    reading.take(record(cluster_view("a")), record(cluster_view("b")))
    ahead = record(cluster_view("b", at=as_of(2), log=log_view(last_change_at=T0 + 9_000)))
    reading.take(record(deleted(as_of(2), "a"), "a/cluster"), ahead._replace(timestamp=T0 + 9_000))
    assert reading.figure("record_delay_seconds_count") == 3
    assert reading.figure("record_delay_seconds_sum") == 10
    assert reading.figure("change_delay_seconds_count") == 1
    assert reading.figure("change_delay_seconds_sum") == 0


def test_a_change_delay_is_measured_when_the_change_is_first_shown() -> None:
    """The first figures of a cluster are not measured, nor those without a newer change."""
    reading = following()
    reading.take(record(cluster_view()))
    reading.take(record(cluster_view(at=as_of(2))))
    assert reading.figure("change_delay_seconds_count") == 0
    reading.take(record(cluster_view(at=as_of(3), log=log_view(last_change_at=T0 + 4_000))))
    assert reading.figure("change_delay_seconds_count") == 1
    assert reading.figure("change_delay_seconds_sum") == 1


def test_topics_are_read_once_every_partition_is_at_its_end() -> None:
    """The ends are reached one by one, and a new record means that its partition is not at its end."""
    reading = following()
    read_at = reading.state.status.read_at
    note(reading, record(cluster_view()))
    note(reading, at_end=[(VIEWS, 1)])
    assert reading.state.status.read_at == read_at
    reading.thread._set_status(records_left=1)
    note(reading, at_end=[(VIEWS, 0)])
    assert reading.state.status.read_at == reading.now
    assert reading.state.status.records_left == 0


def test_records_and_the_end_after_them_may_come_in_one_poll() -> None:
    """Then their partition is at its end; a partition that is not read does not matter."""
    reading = following()
    note(reading, record(cluster_view()), at_end=[(VIEWS, 0), ("other", 0)])
    assert reading.state.status.read_at == reading.now


def test_a_notice_does_not_advance_read_at() -> None:
    """A notice of a problem is no answer of the broker that has the records."""
    reading = following()
    note(reading, notices=[Notice(ReadTrouble.AWAY, None, "gone")])
    assert reading.state.status.read_at == reading.now - 1_000


def test_a_partition_with_new_records_is_not_at_its_end() -> None:
    """Only partitions that were at their ends count."""
    reading = following()
    note(reading, record(cluster_view()))
    assert reading.thread._at_end == {(VIEWS, 1), (EVENTS, 0)}
    assert reading.state.status.read_at == reading.now - 1_000


def test_a_topic_that_lost_records_is_read_again_from_its_beginning() -> None:
    """All its partitions are read again, and no other topic; other problems are logged by their severity."""
    reading, consumer = following(), Consumer()
    notices = [
        Notice(ReadTrouble.CUT, (VIEWS, 1), "gone"),
        Notice(ReadTrouble.AWAY, (EVENTS, 0), "no leader"),
        Notice(ReadTrouble.DENIED, (EVENTS, 0), "no right"),
        Notice(ReadTrouble.CUT, None, "some"),
    ]
    with structlog.testing.capture_logs() as logged:
        note(reading, notices=notices, consumer=consumer)
    assert consumer.reopened == [{(VIEWS, 0), (VIEWS, 1)}]
    assert reading.thread._at_end == {(EVENTS, 0)}
    assert reading.figure("rereads_total", topic=VIEWS) == 1
    assert reading.figure("rereads_total", topic=EVENTS) is None
    levels = [(line["log_level"], line.get("trouble"), line.get("why")) for line in logged]
    assert levels == [
        ("debug", "AWAY", None),
        ("warning", "DENIED", None),
        ("warning", "CUT", None),
        ("warning", None, "lost records"),
    ]


def test_a_kafka_failure_is_in_the_status_until_kafka_answers() -> None:
    """The status has its text; the log has one line when it begins and one when it ends."""
    reading = following()
    with structlog.testing.capture_logs() as logged:
        for failure in ("refused", "refused", None, None):
            consider(reading, None, failure=failure)
            assert reading.state.status.kafka_failure == failure
    assert [line["log_level"] for line in logged] == ["warning", "info"]


def test_an_answer_gives_the_lag_and_the_time_of_the_request() -> None:
    """The number is by topic; a partition of which nothing was read counts in full; it is never negative."""
    reading = following()
    consumer = Consumer({(VIEWS, 0): 3, (VIEWS, 1): 0, (EVENTS, 0): 9})
    asked_at, reading.now = reading.now, reading.now + 2_000
    ends = {(VIEWS, 0): 5, (VIEWS, 1): 4, (EVENTS, 0): 7, (EVENTS, 1): 2}
    answer = TopicsAnswer(
        asked_at, {t: f"id-{t}" for t in (VIEWS, EVENTS, CHANGES)}, ends, {(CHANGES, 1): 77}
    )
    consider(reading, answer, consumer)
    status = reading.state.status
    assert (status.records_left, status.kafka_answered_at) == (8, asked_at)
    assert (status.topics_gone, status.log_written_at) == ((), {1: 77})
    assert reading.figure("lag_records", topic=VIEWS) == 6
    assert reading.figure("lag_records", topic=EVENTS) == 2
    # The machine's clock is at T0 + 5 s, and the request is 2 s old.
    assert reading.figure("kafka_answered_timestamp_seconds") == (T0 + 3_000) / 1000
    assert status.read_at == asked_at - 1_000


def test_the_same_answer_is_evaluated_once() -> None:
    """The same answer again says nothing about what was read meanwhile."""
    reading, consumer = following(), Consumer({(VIEWS, 0): 5})
    answer = answered(reading.now, {(VIEWS, 0): 6}, VIEWS, EVENTS, CHANGES)
    consider(reading, answer, consumer)
    assert reading.state.status.records_left == 1
    consumer.next_offset[VIEWS, 0] = 6
    consider(reading, answer, consumer)
    assert reading.state.status.records_left == 1


def test_an_older_answer_does_not_lower_read_at() -> None:
    """Its request was sent before the ends were reached: by then, and later, everything was read."""
    reading = following()
    consider(reading, answered(reading.now - 2_000, {}, VIEWS, EVENTS, CHANGES))
    assert reading.state.status.read_at == reading.now - 1_000
    consider(reading, answered(reading.now, {}, VIEWS, EVENTS, CHANGES))
    assert reading.state.status.read_at == reading.now


def test_gone_topics_are_logged_once() -> None:
    """They are logged again only when others are gone."""
    reading = following()
    with structlog.testing.capture_logs() as logged:
        whole = (VIEWS, EVENTS, CHANGES)
        for topics in (whole, (VIEWS,), (VIEWS,), (VIEWS,), (), whole):
            consider(reading, answered(reading.now, {}, *topics))
            reading.now += MISSING_MS
    said = [line["topics"] for line in logged if "topics" in line]
    assert said == [f"{CHANGES}, {EVENTS}", f"{CHANGES}, {EVENTS}, {VIEWS}"]
    assert reading.state.status.topics_gone == ()


def test_topics_that_are_missing_for_a_moment_are_not_gone() -> None:
    """A broker that has just started does not know them; while Kafka does not answer, none is missing."""
    reading = following()
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            consider(reading, answered(reading.now, {}))
            reading.now += MISSING_MS - 1
            consider(reading, answered(reading.now, {}))
            consider(reading, None, failure="refused")
            reading.now += 1
        assert reading.state.status.topics_gone == ()
        consider(reading, answered(reading.now, {}), failure=None)
        reading.now += MISSING_MS
        consider(reading, answered(reading.now, {}))
    assert reading.state.status.topics_gone == tuple(sorted((VIEWS, EVENTS, CHANGES)))
    assert len([line for line in logged if "topics" in line]) == 1


def test_read_to_end_at_is_the_time_of_the_first_end() -> None:
    """It is dated once: a later end is another stage of reading, which the status names."""
    reading = following()
    first = reading.now - 1_000
    assert reading.state.status.read_to_end_at == first
    assert reading.state.status.stage == "following the topics"
    note(reading, at_end=PLACES)
    assert reading.state.status.read_to_end_at == first


def test_a_recreated_topic_is_read_again_before_it_counts_as_read() -> None:
    """The position in the old topic says nothing about the new one; the other topics are not affected."""
    reading = following()
    consumer = Consumer({(VIEWS, 0): 100, (VIEWS, 1): 100, (EVENTS, 0): 100})
    ids = {VIEWS: f"id-{VIEWS}", EVENTS: "new", CHANGES: "new"}
    answer = TopicsAnswer(reading.now, ids, {(VIEWS, 0): 100, (EVENTS, 0): 9}, {})
    with structlog.testing.capture_logs() as logged:
        consider(reading, answer, consumer)
    assert consumer.reopened == [{(EVENTS, 0)}]
    assert reading.state.status.records_left == 9
    assert reading.state.status.read_at == reading.now - 1_000
    assert [line["why"] for line in logged] == ["it was recreated"]
    consider(reading, answer._replace(asked_at=reading.now + 1), consumer)
    assert len(consumer.reopened) == 1


def test_clusters_missing_from_a_recreated_topic_are_dropped_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clusters that the fold publishes again stay; it has the time of the setting for that."""
    clock = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr(reading_thread, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    reading = following()
    reading.take(record(cluster_view("gone")), record(cluster_view("stays")))
    consider(reading, TopicsAnswer(reading.now, {VIEWS: "new", EVENTS: f"id-{EVENTS}"}, {}, {}))
    reading.take(record(cluster_view("stays", at=as_of(2))))
    clock.now_s += 599.0
    consider(reading, None)
    assert set(reading.shown()) == {"gone", "stays"}
    clock.now_s += 1.0
    consider(reading, None)
    assert set(reading.shown()) == {"stays"}
    assert reading.figure("clusters") == 1
    clock.now_s += 1_000.0
    reading.thread._views.begin_reread()
    consider(reading, None)
    assert set(reading.shown()) == {"stays"}
