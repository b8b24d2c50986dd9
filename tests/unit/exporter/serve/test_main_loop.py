"""The main loop: what it measures, logs and reports, and how it begins, hangs and ends.

What it makes of topics that are recreated, cut or gone is played by the simulation.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from confluent_kafka import OFFSET_BEGINNING, KafkaError

from controller_model.records.incidents import IncidentsSummary
from controller_model.records.views import AnyView
from exporter.core.config import ExportSettings
from exporter.core.status import ReadingStatus, reasons_not_ready
from exporter.serve import main_loop
from pipeline import topic_probe
from pipeline.kafka_errors import MISSING_S, ReadTrouble, TopicReadError
from pipeline.runtime import UnreachableError
from pipeline.settings import PipelineSettings, load
from pipeline.supervised_thread import STANDSTILL_S
from pipeline.topic_probe import TopicsAnswer
from pipeline.topic_records import Notice, Place, ReadBatch
from pipeline.topics import EnsuredTopics, topic_names
from tests.support.hostile import WIDE, with_a_number
from tests.support.kafka_client import EOF_CODE, Admin, Client, Message, use_client
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
from tests.support.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

CHANGES = "kcm.changes"
MISSING_MS = int(MISSING_S * 1000)
NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 2, {name: f"{name}-1" for name in NAMES})
PLACES = [(VIEWS, 0), (VIEWS, 1), (EVENTS, 0), (EVENTS, 1)]
PROBE, READER = "topic-probe", "reader"

VIEWS_OF_EACH_KIND: list[AnyView] = [
    cluster_view(incidents=IncidentsSummary(last_closed=last_incident())),
    broker_view(1, ends={"crashed": 1}, leader_skew=0.5, isr_leave_minutes=(1,)),
    topic_view("t", adding={0: (1,)}),
    incidents_view(incident(1)),
    recommendation_view(),
    beat(1, sent_steady=T0),
]


def following() -> Reading:
    """Return a reading that has read everything, and follows the topics."""
    reading = Reading()
    reading.loop._mark_read(reading.now)
    reading.now += 1_000
    return reading


class Source:
    """What is read from, with the positions of the reader and the last answer of the probe."""

    def __init__(self, positions: dict[Place, int]) -> None:
        self.ids = dict(TOPICS.ids)
        self.places = list(PLACES)
        self.reader = SimpleNamespace(next_offset=positions)
        self.probe = SimpleNamespace(answer=None, failure=None)

    def answer(
        self,
        reading: Reading,
        answer: TopicsAnswer | None,
        failure: str | None = None,
    ) -> None:
        """Evaluate an answer of the probe."""
        self.probe = SimpleNamespace(answer=answer, failure=failure)
        source: Any = self
        reading.loop._handle_probe(source)


def answered(at: int, ends: dict[Place, int], *topics: str) -> TopicsAnswer:
    """Return an answer of Kafka: the topics that exist, and their ends."""
    return TopicsAnswer(at, {topic: f"{topic}-1" for topic in topics}, ends)


def test_a_start_shows_only_the_state_at_the_end_of_the_topics() -> None:
    """The states before it are not shown; from then on each complete batch is, and is counted."""
    reading = Reading()
    reading.apply(record(cluster_view()), record(cluster_view(at=as_of(2))))
    assert reading.shown() == {}
    reading.loop._mark_read(reading.now)
    assert reading.shown() == {"prod": 2}
    assert (reading.state.status.stage, reading.state.status.read_to_end_at) == (
        "following the topics",
        reading.now,
    )
    reading.apply(record(cluster_view(at=as_of(3))))
    assert reading.shown() == {"prod": 3}
    assert reading.figure("clusters") == 1
    assert reading.figure("batches_total") == 2


def test_a_read_that_changes_no_cluster_renders_none() -> None:
    """Beats come several times a second."""
    reading = following()
    reading.apply(record(cluster_view()))
    rendered = reading.figure("render_seconds_count")
    reading.apply(record(beat(1, sent_steady=T0)), event_record(elected(1)))
    assert rendered
    assert reading.figure("render_seconds_count") == rendered


def test_records_from_memory_are_shown_without_kafka() -> None:
    """Each turn reads all there is: the figures are as new as the last turn, and no Kafka has to answer."""
    waiting = [[record(cluster_view())], [], [event_record(elected(1)), raw(b"prod/x", b"{")]]
    reading = Reading(feed=lambda: waiting.pop(0))
    reading.loop.poll()
    reading.apply(record(cluster_view(at=as_of(2))))
    assert reading.shown() == {"prod": 2}
    assert reading.state.status.read_at == T0
    reading.now += 20_000
    reading.loop.poll()
    assert reading.state.status.read_at == reading.now
    assert reasons_not_ready(reading.state.status, reading.now, kafka_gone_ms=1, still_ms=0) == []
    assert reading.figure("kafka_answered_timestamp_seconds") == (T0 + 5_000) / 1000
    reading.loop.poll()
    assert reading.figure("unreadable_records_total", topic=VIEWS) == 1
    assert reading.events.held_from("prod") == elected(1).event.at


def test_a_feed_that_stands_still_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a reader of Kafka that hangs is."""
    reading = Reading(feed=list)
    monkeypatch.setattr(
        reading.loop, "_thread", SimpleNamespace(check=lambda _: None, still_s=61.0)
    )
    reading.loop.check()
    assert reading.state.still_ms == 61_000


def test_unreadable_records_are_counted_by_topic_and_skipped() -> None:
    """It blocks nothing: the other records are applied."""
    reading = following()
    reading.apply(raw(b"prod/cluster", b"not JSON"), record(cluster_view()))
    reading.apply(raw(b"prod", b"{}", topic=EVENTS), event_record(elected(1)))
    assert reading.shown() == {"prod": 1}
    for topic in (VIEWS, EVENTS):
        assert reading.figure("records_total", topic=topic) == 2
        assert reading.figure("unreadable_records_total", topic=topic) == 1


@pytest.mark.parametrize("number", WIDE.values(), ids=WIDE)
@pytest.mark.parametrize("view", VIEWS_OF_EACH_KIND, ids=lambda view: type(view).__name__)
def test_a_view_with_an_out_of_range_number_is_unreadable(view: AnyView, number: int) -> None:
    """Such a view counts as unreadable, whatever the number is used for; the next batch is shown."""
    good = record(view)
    reading = following()
    harmful = list(with_a_number(good.value or b"", number))
    reading.apply(*(good._replace(value=value) for value in harmful))
    assert reading.figure("unreadable_records_total", topic=VIEWS) == len(harmful)
    reading.apply(record(cluster_view(at=as_of(9))))
    assert reading.shown() == {"prod": 9}


def test_delays_are_measured_for_shown_clusters_and_never_negative() -> None:
    """A record's delay is since it was written; a change's since the watcher noticed it, measured once."""
    reading = Reading()
    reading.apply(record(cluster_view("a")), record(cluster_view("b")))
    reading.loop._mark_read(reading.now)
    assert reading.figure("record_delay_seconds_count") == 0
    seen = log_view(last_change_at=T0 + 4_000)
    reading.apply(record(cluster_view("b", at=as_of(2), log=seen)))
    reading.apply(record(cluster_view("b", at=as_of(3), log=seen)))
    assert reading.figure("record_delay_seconds_count") == 2
    assert reading.figure("record_delay_seconds_sum") == 10
    assert reading.figure("change_delay_seconds_count") == 1
    assert reading.figure("change_delay_seconds_sum") == 1
    assert reading.state.delays_ms == {"b": 1_000}
    ahead = record(cluster_view("b", at=as_of(4), log=log_view(last_change_at=T0 + 9_000)))
    reading.apply(record(deleted(as_of(2), "a"), "a/cluster"), ahead._replace(timestamp=T0 + 9_000))
    assert reading.figure("record_delay_seconds_sum") == 10
    assert reading.figure("change_delay_seconds_sum") == 1
    assert reading.state.delays_ms == {"b": None}, "the watcher's clock is ahead"
    reading.apply(record(deleted(as_of(5), "b"), "b/cluster"))
    assert reading.state.delays_ms == {}


def test_the_events_of_a_deleted_cluster_are_dropped() -> None:
    """None of its events is served any more."""
    reading = following()
    reading.apply(record(cluster_view()), event_record(elected(1)))
    assert reading.events.held_from("prod") is not None
    reading.apply(record(deleted(as_of(2)), "prod/cluster"))
    assert reading.shown() == {}
    assert reading.events.held_from("prod") is None


def test_troubles_of_reading_are_logged_by_their_severity() -> None:
    """A topic that lost records is read again from its beginning, and counted."""
    reading = following()
    source: Any = Source({})
    reopened: list[list[Place]] = []

    def reopen(*, from_beginning: list[Place]) -> None:
        reopened.append(from_beginning)

    source.reader.reopen = reopen
    notices = [
        Notice(ReadTrouble.CUT, (VIEWS, 1), "gone"),
        Notice(ReadTrouble.AWAY, (EVENTS, 0), "no leader"),
        Notice(ReadTrouble.DENIED, (EVENTS, 0), "no right"),
        Notice(ReadTrouble.CUT, None, "some"),
    ]
    with structlog.testing.capture_logs() as logged:
        reading.loop._handle_batch(source, ReadBatch([], [], notices))
    assert reopened == [[(VIEWS, 0), (VIEWS, 1)]]
    assert reading.figure("rereads_total", topic=VIEWS) == 1
    assert reading.figure("rereads_total", topic=EVENTS) is None
    levels = [(line["log_level"], line.get("trouble"), line.get("why")) for line in logged]
    assert levels == [
        ("debug", "AWAY", None),
        ("warning", "DENIED", None),
        ("warning", "CUT", None),
        ("warning", None, "lost records"),
    ]


def test_a_topic_that_is_read_again_is_read_once_its_own_partitions_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their former ends say nothing, and its beats are of any age until then."""
    reading = following()
    source: Any = Source({})
    source.reader.reopen = lambda **_places: None
    are_live: list[bool] = []
    monkeypatch.setattr(
        reading.state, "note_beat", lambda _beat, *, is_live: are_live.append(is_live)
    )

    def read(*at_end: Place) -> None:
        reading.now += 1_000
        reading.apply(record(beat(1, sent_steady=T0)))
        reading.loop._handle_batch(source, ReadBatch([], list(at_end), []))

    read(*PLACES)
    read_at = reading.now
    assert reading.state.status.read_at == read_at
    lost = Notice(ReadTrouble.CUT, (VIEWS, 1), "gone")
    reading.loop._handle_batch(source, ReadBatch([], [], [lost]))
    read((VIEWS, 1), (EVENTS, 0), (EVENTS, 1))
    assert reading.state.status.read_at == read_at
    read((VIEWS, 0))
    assert reading.state.status.read_at == reading.now
    read((VIEWS, 0))
    assert are_live == [True, False, False, True]


def test_a_kafka_failure_is_in_the_status_until_kafka_answers() -> None:
    """The status has its text; the log has one line when it begins and one when it ends."""
    reading, source = following(), Source({})
    with structlog.testing.capture_logs() as logged:
        for failure in ("refused", "refused", None, None):
            source.answer(reading, None, failure)
            assert reading.state.status.kafka_failure == failure
    assert [line["log_level"] for line in logged] == ["warning", "info"]


def test_an_answer_gives_the_lag_and_the_time_of_the_request() -> None:
    """The number is by topic; a partition of which nothing was read counts in full; it is never negative."""
    reading = following()
    source = Source({(VIEWS, 0): 3, (VIEWS, 1): 0, (EVENTS, 0): 9})
    asked_at, reading.now = reading.now, reading.now + 2_000
    ends = {(VIEWS, 0): 5, (VIEWS, 1): 4, (EVENTS, 0): 7, (EVENTS, 1): 2}
    answer = answered(asked_at, ends, VIEWS, EVENTS, CHANGES)
    source.answer(reading, answer)
    status = reading.state.status
    assert (status.records_left, status.kafka_answered_at) == (8, asked_at)
    assert (status.topics_gone, status.log_moved_at) == ((), {})
    assert reading.figure("lag_records", topic=VIEWS) == 6
    assert reading.figure("lag_records", topic=EVENTS) == 2
    # The machine's clock is at T0 + 5 s, and the request is 2 s old.
    assert reading.figure("kafka_answered_timestamp_seconds") == (T0 + 3_000) / 1000
    assert status.read_at == asked_at - 1_000
    source.reader.next_offset.update(ends)
    source.answer(reading, answer)
    assert reading.state.status.records_left == 8, "the same answer says nothing new"


def test_an_answer_with_nothing_left_to_read_dates_what_is_read() -> None:
    """It is as of the question, also where nothing new arrives; an older question does not take that back."""
    reading, source = following(), Source({})
    ends = dict.fromkeys(PLACES, 5)
    source.reader.next_offset.update(ends)
    asked_at, reading.now = reading.now, reading.now + 2_000
    for at, read_at in ((asked_at, asked_at), (asked_at - 500, asked_at)):
        source.answer(reading, answered(at, ends, *NAMES))
        assert reading.state.status.read_at == read_at
    source.answer(reading, answered(asked_at + 500, ends, VIEWS, CHANGES))
    assert reading.state.status.read_at == asked_at, "a topic that is gone is not read to its end"


def test_a_client_that_reads_nothing_is_replaced() -> None:
    """After 15 s in which Kafka has more; one that reads, be it slowly, or has read all, is not."""
    reading = following()
    reading.now += 1_000_000
    source = Source({})
    reopened: list[int] = []

    def reopen(*, from_beginning: list[Place]) -> None:
        assert not from_beginning
        reopened.append(second)

    source.reader.reopen = reopen
    began = reading.now
    for second in range(100):
        if second == 0:
            source.answer(reading, answered(began, dict.fromkeys(PLACES, 5), *NAMES))
            source.reader.next_offset.update(dict.fromkeys(PLACES, 5))
        if 20 <= second < 60:
            source.reader.next_offset[VIEWS, 0] += second % 10 == 0
        end = source.reader.next_offset[VIEWS, 0] + (second < 80)
        ends = dict.fromkeys(PLACES, 5) | {(VIEWS, 0): end}
        source.answer(reading, answered(began + second * 1_000, ends, *NAMES))
    assert reopened == [16, 66]


def test_the_log_has_moved_when_its_end_has() -> None:
    """By the time of the question, by partition; a first end may have stood there for long, and is nothing to read."""
    reading = following()
    source = Source({})
    for end in (70, 70, 71):
        reading.now += 1_000
        ends = {(CHANGES, 0): 9, (CHANGES, 1): end}
        source.answer(reading, answered(reading.now, ends, VIEWS, EVENTS, CHANGES))
        moved = {1: reading.now} if end == 71 else {}
        status = reading.state.status
        assert (status.log_moved_at, status.records_left) == (moved, 0)


def test_topics_are_gone_when_they_are_missing_for_a_while() -> None:
    """A broker that has just started does not know them; they are logged once, and again with others."""
    reading, source = following(), Source({})
    whole = (VIEWS, EVENTS, CHANGES)
    with structlog.testing.capture_logs() as logged:
        source.answer(reading, answered(reading.now, {}))
        reading.now += MISSING_MS - 1
        source.answer(reading, answered(reading.now, {}))
        source.answer(reading, None, "refused")
        reading.now += 1
        source.answer(reading, answered(reading.now, {}))
        assert reading.state.status.topics_gone == (), "it was away: the wait begins anew"
        gone = []
        for topics in (whole, (VIEWS,), (VIEWS,), (VIEWS,), (), whole):
            source.answer(reading, answered(reading.now, {}, *topics))
            gone.append(len(reading.state.status.topics_gone))
            reading.now += MISSING_MS
    assert gone == [0, 0, 2, 2, 3, 0], "an answer with all of them lets the wait begin anew, too"
    said = [line["topics"] for line in logged if "topics" in line]
    assert said == [f"{CHANGES}, {EVENTS}", f"{CHANGES}, {EVENTS}, {VIEWS}"]
    assert reading.state.status.topics_gone == ()


def test_a_cluster_that_a_recreated_topic_does_not_hold_is_dropped_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until then it is shown as it was: the fold may not have written it again yet."""
    now_s = 0.0
    monkeypatch.setattr(main_loop, "time", SimpleNamespace(monotonic=lambda: now_s))
    reading, source = following(), Source({})
    source.reader.reopen = lambda **_places: None
    reading.apply(record(cluster_view("goes")), record(cluster_view("stays")))
    recreated = TopicsAnswer(reading.now, TOPICS.ids | {VIEWS: "another"}, {})
    source.answer(reading, recreated)
    reading.apply(record(cluster_view("stays", at=as_of(2))))
    now_s = load(ExportSettings).forget_after_s - 1
    source.answer(reading, recreated)
    assert reading.shown() == {"goes": 1, "stays": 2}
    now_s += 1
    with structlog.testing.capture_logs() as logged:
        source.answer(reading, recreated)
        source.answer(reading, recreated)
    assert reading.shown() == {"stays": 2}
    assert [line["clusters"] for line in logged] == ["goes"]


# --- as a thread, on a simulated Kafka -----------------------------------------------------------


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    """Return the simulated brokers, which have the topics and answer at once."""
    made = Admin(TOPICS.ids)
    monkeypatch.setattr(topic_probe, "AdminClient", lambda _properties, logger: logger or made)
    monkeypatch.setattr(main_loop, "ensure_topics", lambda _settings, stop: stop and TOPICS)
    monkeypatch.setattr(main_loop, "_PROBE_INTERVAL_S", 0.001)
    return made


def started() -> Reading:
    """Return a reading whose thread runs."""
    reading = Reading()
    assert not reading.loop._thread.alive
    reading.loop.start()
    return reading


def status_once(reading: Reading, holds: Callable[[ReadingStatus], bool]) -> ReadingStatus:
    """Wait until the status holds, and return it; fails at once when the thread has ended."""

    def look() -> ReadingStatus:
        reading.loop.check()
        return reading.state.status

    return wait_until(look, holds)


def await_threads(*names: str) -> None:
    """Wait until exactly these threads of the reading run."""

    def running() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name in {PROBE, READER}]

    wait_until(running, lambda seen: seen == [*names])


def to_the_end(place: Place) -> list[Message]:
    """Return Kafka's message for the end of a partition, at the end that the brokers report."""
    return [Message(place, 10 + place[1], EOF_CODE)]


class Stuck(Client):
    """A client whose polls do not return until the test releases them."""

    def __init__(self, *polls: list[Message] | KafkaError) -> None:
        super().__init__(*polls)
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)

    def poll(self, timeout: float) -> Message | None:
        """Wait until the test releases the poll."""
        self.begun.release()
        self.go_on.acquire(timeout=DEADLINE_S)
        return super().poll(timeout)

    def release(self) -> None:
        """Release the current poll, and wait until the next one hangs."""
        self.go_on.release()
        assert self.begun.acquire(timeout=DEADLINE_S)


@pytest.mark.usefixtures("admin")
def test_a_start_reads_both_topics_to_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads all partitions from the beginning, under a group name that ACLs may use; then it follows them."""
    view = record(cluster_view())
    client = Client(
        [Message((VIEWS, 0), 9, key=view.key, value=view.value), *to_the_end((VIEWS, 0))],
        *([*to_the_end(place)] for place in PLACES[1:]),
    )
    use_client(monkeypatch, client)
    reading = started()
    status_once(reading, lambda seen: seen.read_to_end_once)
    assert reading.shown() == {"prod": 1}
    assert client.assigned == [dict.fromkeys(PLACES, OFFSET_BEGINNING)]
    assert client.properties["group.id"] == "kcm.exporter"
    assert reading.figure("unreadable_records_total", topic=VIEWS) == 0
    assert reading.figure("unreadable_records_total", topic=EVENTS) == 0
    reading.now += 1_000
    status = status_once(reading, lambda seen: seen.kafka_answered_at == T0 + 1_000)
    assert (status.stage, status.records_left) == ("following the topics", 0)
    assert status.log_moved_at == {}
    reading.loop.close()
    reading.loop.check()
    await_threads()
    assert client.closed == 1


@pytest.mark.usefixtures("admin")
def test_a_start_reports_the_records_left_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is for both topics, by the ends that the brokers report."""
    use_client(monkeypatch, Client())
    reading = started()
    status = status_once(reading, lambda seen: bool(seen.records_left))
    assert (status.stage, status.records_left) == ("reading the topics to their ends", 42)
    assert not status.read_to_end_once
    reading.loop.close()
    await_threads()


def test_a_wait_for_kafka_is_no_standstill_and_ends_with_a_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long it takes; a failure at the start is raised for the owner."""
    error = UnreachableError("no Kafka")

    def away(_settings: PipelineSettings, stop: threading.Event) -> EnsuredTopics:
        assert stop.wait(DEADLINE_S)
        raise error

    monkeypatch.setattr(main_loop, "ensure_topics", away)
    reading = started()
    began_s = time.monotonic()
    for second in range(100):
        reading.loop.check(began_s + second)
    assert reading.state.still_ms == 0
    reading.loop.close()
    assert not reading.loop._thread.alive
    with pytest.raises(UnreachableError, match="no Kafka"):
        reading.loop.check()


@pytest.mark.usefixtures("admin")
def test_a_fatal_kafka_error_ends_the_loop_and_closes_its_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The owner gets an error that no retry can fix, and no thread or client is left behind."""
    fatal = Message((VIEWS, 0), 0, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    fatal._error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied", fatal=True)
    client = Client([fatal])
    use_client(monkeypatch, client)
    reading = started()
    wait_until(lambda: not reading.loop._thread.alive)
    with pytest.raises(TopicReadError):
        reading.loop.check()
    reading.loop.close()
    await_threads()
    assert client.closed == 1


def test_a_probe_that_hangs_does_not_block_close(
    monkeypatch: pytest.MonkeyPatch, admin: Admin
) -> None:
    """It is waited for for a limited time."""
    asked, go_on = threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> dict[str, object]:
        asked.set()
        go_on.wait(DEADLINE_S)
        return {}

    monkeypatch.setattr(admin, "describe_topics", hang)
    use_client(monkeypatch, Client())
    reading = started()
    assert asked.wait(DEADLINE_S)
    wait_until(lambda: reading.loop._source is not None)
    monkeypatch.setattr(main_loop, "_CLOSE_TIMEOUT_S", 0.5)
    reading.loop.close()
    await_threads(PROBE)
    go_on.set()
    await_threads()


@pytest.mark.usefixtures("admin")
def test_the_age_of_the_last_turn_grows_while_the_loop_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For /healthz: a turn begins it anew."""
    client = Stuck()
    use_client(monkeypatch, client)
    reading = started()
    assert client.begun.acquire(timeout=DEADLINE_S)
    hung_s, turned_at = reading.loop.age_s, reading.loop._stop._turned_at
    wait_until(lambda: reading.loop.age_s, lambda age_s: age_s > hung_s + 0.1)
    assert reading.loop._stop._turned_at == turned_at
    client.release()
    assert reading.loop._stop._turned_at > turned_at
    monkeypatch.setattr(main_loop, "_CLOSE_TIMEOUT_S", 0.01)
    reading.loop.close()
    client.go_on.release(1_000)
    wait_until(lambda: not reading.loop._thread.alive)
    reading.loop.close()
    await_threads()


@pytest.mark.usefixtures("admin")
def test_a_loop_that_hangs_is_reported_and_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a minute of checks it is logged once, with the place; what was read is still served."""
    client = Stuck()
    use_client(monkeypatch, client)
    reading = started()
    assert client.begun.acquire(timeout=DEADLINE_S)
    client.release()
    began_s = math.ceil(time.monotonic())  # whole seconds: sums of fractions may exceed a minute
    with structlog.testing.capture_logs() as logged:
        for second in range(int(STANDSTILL_S) + 1):
            reading.loop.check(began_s + second)
        assert logged == []
        for second in (61, 62):
            reading.loop.check(began_s + second)
            assert reading.state.still_ms == second * 1_000
        (line,) = logged
        assert line["log_level"] == "error"
        assert "hangs" in line["event"]
        assert ", poll (test_main_loop.py:" in line["why"]
        state, now = reading.state, reading.now
        reasons = reasons_not_ready(
            state.status, now, kafka_gone_ms=15_000, still_ms=state.still_ms
        )
        assert any("has read nothing for 62 s" in reason for reason in reasons)
        assert reading.loop._thread.alive
        client.release()
        reading.loop.check(began_s + 63)
        reading.loop.check(began_s + 64)
    assert reading.state.still_ms == 1_000
    assert [line["event"] for line in logged[1:]] == ["the reading thread reads again"]
    monkeypatch.setattr(main_loop, "_CLOSE_TIMEOUT_S", 0.01)
    reading.loop.close()
    assert reading.loop._thread.alive, "the caller continues, and the process can end"
    assert all(each.daemon for each in threading.enumerate() if each.name == READER)
    client.go_on.release(1_000)
    wait_until(lambda: not reading.loop._thread.alive)
    reading.loop.close()
    await_threads()
