"""Nothing is published without a valid lease, and what cannot be published is counted."""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
import structlog
from confluent_kafka import KafkaError

from controller_model.kafka.ids import AsOf
from controller_model.records.changes import VERSION, ChangeKind, ZnodeChange, encode_change
from controller_model.records.views import WatcherBeat
from pipeline import kafka_errors
from pipeline.kafka_errors import TopicReadError
from pipeline.runtime import Backoff
from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from source_log import fold_lag, log_writer, publisher, readback
from source_log.config import SourceSettings
from source_log.generation_fencing import Generations
from source_log.lease import LeaseLostError, LeaseStatus, SoleWatcher
from source_log.log_writer import (
    CLOSE_TIMEOUT_S,
    CUT_OFF_MS,
    HURRY_MS,
    Dropped,
    LogLostError,
    LogWriter,
)
from source_log.readback import ReadBack
from source_log.recorder import LogRecorder
from tests.support.kafka_client import AWAY_CODE, Client, Message, use_client
from tests.support.producer import Kafka, Polled
from tests.support.samples import cluster_view, log_view

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))


class Lease(SoleWatcher):
    """A lease whose status a test sets."""

    def __init__(self) -> None:
        self.status = LeaseStatus.VALID
        self.invalidated = self.reports = 0

    def invalidate(self) -> None:
        """Count it."""
        self.invalidated += 1

    def report_alive(self) -> None:
        """Count it."""
        self.reports += 1


class Writing:
    """A log writer with its Kafka and its lease."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, buffer_changes: int = 2) -> None:
        monkeypatch.setattr(readback, "SupervisedThread", Polled)
        monkeypatch.setattr(readback, "Backoff", lambda **_: Backoff(first_s=0.001))
        self.kafka, self.client = Kafka(monkeypatch, NAMES), Client(ends=((0, 0),))
        use_client(monkeypatch, self.client)
        self.lease, self.leads = Lease(), list[bool]()
        self.recorder = LogRecorder("prod", Generations("me"))
        self.recorder.generations.begin_next(0)
        settings = load(SourceSettings, cluster="prod", buffer_changes=buffer_changes)
        self.delays_ms: list[int] = []
        self.writer = LogWriter(
            settings,
            TOPICS,
            self.lease,
            self.recorder,
            on_lead=self.leads.append,
            on_sent=self.delays_ms.append,
        )
        self.items: list[ReadBack] = []

    def add(self, changes: int, **about: Any) -> None:
        """Append so many records of a source."""
        for _ in range(changes):
            change = ZnodeChange(**self.recorder.next_header(7), kind=ChangeKind.HEARTBEAT)
            self.writer.publisher.add(encode_change(change), change.position, **about)

    def beat(self, now_ms: int) -> None:
        """Offer a beat."""
        self.writer.beat(now_ms, oldest_round=0, complete=lambda header: WatcherBeat(**header))


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Writing:
    """A writer in its term, whose buffer is for two changes if a test does not say another number."""
    writing = Writing(monkeypatch, buffer_changes=getattr(request, "param", 2))
    assert writing.writer.begin(threading.Event(), writing.items.append) is not None
    return writing


def test_without_a_proved_lease_changes_and_beats_wait(writing: Writing) -> None:
    """Each change of the lease is logged and reported once; a lost lease ends the term."""
    writing.lease.status = LeaseStatus.UNPROVEN
    writing.add(2)
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            assert writing.writer.send(0, may_drop=True) is None
            writing.writer.check(0)
            writing.beat(0)
    assert (writing.kafka.log, writing.writer.is_flushed) == ([], False)
    assert (writing.leads, len(logged)) == ([True, False], 1)
    writing.lease.status = LeaseStatus.VALID
    writing.writer.send(0, may_drop=True)
    writing.writer.check(5)
    writing.beat(5)
    writing.writer.check(5)
    assert [change.seq for change in writing.kafka.log] == [1, 2]
    (beat,) = writing.kafka.beats
    assert (beat.v, beat.position, beat.sent_steady) == (VERSION, writing.kafka.log[-1].position, 5)
    assert (writing.leads, writing.writer.is_flushed) == ([True, False, True], True)
    writing.lease.status = LeaseStatus.LOST
    with pytest.raises(LeaseLostError):
        writing.writer.send(0, may_drop=True)


def test_beats_go_on_behind_another_watchers_of_the_same_generation(writing: Writing) -> None:
    """Readers take only larger numbers of a generation."""
    writing.beat(5)
    writing.writer.check(5)
    (beat,) = writing.kafka.beats
    writing.writer.observe_beat(msgspec.structs.replace(beat, number=40))
    writing.beat(5_000)
    writing.writer.check(5_000)
    assert [each.number for each in writing.kafka.beats] == [1, 41]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (LeaseStatus.UNPROVEN, "the lease could not be proved in time"),
        (LeaseStatus.VALID, "the pipeline's Kafka did not accept changes in time"),
    ],
)
def test_what_exceeds_the_buffer_is_dropped_at_once_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, writing: Writing, status: LeaseStatus, reason: str
) -> None:
    """Unless changes were dropped already: the source publishes nothing until Kafka is back."""
    monkeypatch.setattr(publisher, "MAX_MESSAGES_IN_FLIGHT", 1)
    writing.kafka.up = False
    writing.add(1)
    writing.writer.send(0, may_drop=True)
    writing.lease.status = status
    writing.add(3)
    assert writing.writer.send(0, may_drop=False) is None
    assert not writing.writer.has_room(0)
    assert writing.writer.send(0, may_drop=True) == Dropped(3, reason)
    assert writing.writer.publisher.waiting == 0


def cut_off(writing: Writing) -> None:
    """Let Kafka accept nothing and be out of reach; others stand for election, and something waits to be accepted."""
    writing.kafka.up = False
    writing.lease.others = 1
    writing.client.polls.append(KafkaError(AWAY_CODE))
    writing.add(2)
    writing.writer.send(0, may_drop=False)
    writing.add(1)
    writing.writer.check(0)


def test_a_leader_that_is_cut_off_from_the_log_resigns_where_others_reach_it(
    writing: Writing,
) -> None:
    """After twenty seconds in which others stood for election all the time; what waits counts as dropped."""
    cut_off(writing)
    writing.writer.check(CUT_OFF_MS)
    with pytest.raises(LogLostError, match="out of reach for 20 s, and another") as lost:
        writing.writer.check(CUT_OFF_MS + 1)
    assert lost.value.dropped == 1, "what is in the producer may still reach the log"


def test_a_leader_keeps_its_changes_while_nobody_reaches_the_log(writing: Writing) -> None:
    """Candidates withdraw then; those who stand again before it is back for the leader do not end its term at once."""
    cut_off(writing)
    writing.lease.others = 0
    for now_ms in (15_000, 300_000):
        writing.writer.check(now_ms)
    writing.lease.others = 1
    writing.writer.check(300_000 + CUT_OFF_MS)
    writing.kafka.up = True
    writing.writer.send(0, may_drop=False)
    for now_ms in (300_001 + CUT_OFF_MS, 900_000):
        writing.writer.check(now_ms)
    assert [change.seq for change in writing.kafka.log] == [1, 2, 3]


def test_a_leader_whose_changes_kafka_refuses_keeps_its_lead(writing: Writing) -> None:
    """As where too few replicas are in sync: what arrives shows that it reaches Kafka, and another would be refused as well."""
    cut_off(writing)
    writing.client.polls.append([Message((NAMES.views, 0), 7, key=b"another")])
    for now_ms in (1, CUT_OFF_MS + 1, 2 * CUT_OFF_MS + 2):
        writing.writer.check(now_ms)


def test_an_unproven_lease_is_no_log_that_accepts_nothing(writing: Writing) -> None:
    """Changes wait for the lease, and its end is decided by the election."""
    cut_off(writing)
    writing.lease.status = LeaseStatus.UNPROVEN
    for now_ms in (0, CUT_OFF_MS + 1):
        writing.writer.send(0, may_drop=False)
        writing.writer.check(now_ms)


def test_another_writer_invalidates_the_lease_once_per_generation(writing: Writing) -> None:
    """A stream of its records must not stop our log for ever. The fold's view names its writer."""
    for watcher, generation in (("she", 9), ("she", 9), ("me", 99), ("she", 10)):
        writing.writer.observe_writer(watcher, generation)
    assert writing.lease.invalidated == 2
    for watcher in ("me", "he"):
        view = cluster_view("prod", AsOf("l", 11, 4), log=log_view(watcher=watcher))
        writing.writer.on_view(view, 0)
    assert writing.lease.invalidated == 3


def test_a_fold_that_others_need_limits_what_is_not_news(
    monkeypatch: pytest.MonkeyPatch, writing: Writing
) -> None:
    """A fold that processes one cluster alone may be as late as it is."""
    monkeypatch.setattr(fold_lag, "STEP", 1)
    view = cluster_view("prod", AsOf("l", 1, 0), log=log_view(watcher="me"))
    writing.writer.on_view(view, 0)
    writing.recorder.generations.seq = 2
    assert writing.writer.has_room(0)
    writing.writer._readback.is_shared = True
    assert not writing.writer.has_room(0)


@pytest.mark.parametrize("writing", [100], indirect=True)
def test_the_delay_of_news_is_told_when_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, writing: Writing
) -> None:
    """It includes every wait: for a proof of the lease, and for other changes."""
    monkeypatch.setattr(log_writer, "clock_ms", lambda: 10_000)
    writing.lease.status = LeaseStatus.UNPROVEN
    writing.add(1, happened_ms=9_000)
    writing.writer.send(0, may_drop=False)
    assert writing.delays_ms == []
    writing.lease.status = LeaseStatus.VALID
    writing.writer.send(0, may_drop=False)
    writing.writer.check(0)
    assert writing.delays_ms == [1_000]
    writing.add(1, may_wait=True, happened_ms=9_500)
    writing.writer.send(499, may_drop=False)
    assert writing.delays_ms == [1_000]
    writing.writer.send(500, may_drop=False)
    assert writing.delays_ms == [1_000, 500]


@pytest.mark.parametrize("writing", [100], indirect=True)
@pytest.mark.parametrize(("age_ms", "sent"), [(HURRY_MS, 1), (HURRY_MS + 1, 2)])
def test_what_waits_is_sent_where_it_delays_the_proof_that_the_log_is_complete(
    writing: Writing, age_ms: int, sent: int
) -> None:
    """When everything before the source's answer is read, and the last proof is of more than a second ago."""
    completeness, asked_ms = writing.writer.completeness, 5_000
    completeness.as_of_ms = asked_ms
    writing.add(1)
    writing.writer.send(asked_ms, may_drop=False)
    writing.writer.check(asked_ms)
    writing.add(1, may_wait=True)
    writing.beat(asked_ms + age_ms)  # no question has been answered since
    writing.writer.send(asked_ms + 1, may_drop=False)
    writing.writer.check(asked_ms)
    assert len(writing.kafka.log) == 1
    completeness.answered(asked_ms + age_ms, 0)
    writing.beat(asked_ms + age_ms)
    writing.writer.send(asked_ms + 1, may_drop=False)
    writing.writer.check(asked_ms)
    assert len(writing.kafka.log) == sent


def test_changes_that_kafka_refuses_end_the_term_and_are_counted(writing: Writing) -> None:
    """With those of the refused message, those that waited, and those dropped before."""
    writing.kafka.error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed")
    writing.recorder.dropped = 10
    writing.add(2)
    writing.writer.send(0, may_drop=True)
    writing.add(1)
    with pytest.raises(LogLostError, match="not allowed") as lost:
        writing.writer.check(0)
    assert lost.value.dropped == 13


def test_missing_topics_end_the_term_so_that_they_are_created_again(
    monkeypatch: pytest.MonkeyPatch, writing: Writing
) -> None:
    """At its start, and while it lasts. A denied read ends the watcher, with its own message."""
    monkeypatch.setattr(kafka_errors, "MISSING_S", 0.0)
    new = Writing(monkeypatch)
    for code, error in (
        (KafkaError.UNKNOWN_TOPIC_OR_PART, LogLostError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, TopicReadError),
    ):
        new.client.ends = [code]
        with pytest.raises(error):
            new.writer.begin(threading.Event(), new.items.append)
    new.client.ends = [KafkaError.UNKNOWN_TOPIC_OR_PART]
    writing.writer._readback._reader = new.writer._readback._reader
    with pytest.raises(LogLostError, match="there is no topic") as lost:
        writing.writer.check(0)
    assert lost.value.dropped == 0
    assert new.leads == []


def test_who_has_read_the_topics_reports_that_it_works(writing: Writing) -> None:
    """A Kafka that is slow or down may have delayed that for long, and a lease is kept only by who works."""
    assert (writing.lease.reports, writing.leads) == (1, [True])


def test_a_lease_that_is_lost_while_the_topics_are_read_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka may be down for long, and another watcher may be able to reach it. A stop comes first."""
    writing = Writing(monkeypatch)
    writing.lease.status = LeaseStatus.LOST
    stop = threading.Event()
    with pytest.raises(LeaseLostError):
        writing.writer.begin(stop, writing.items.append)
    stop.set()
    assert writing.writer.begin(stop, writing.items.append) is None
    assert writing.leads == []


@pytest.mark.parametrize("refused", [False, True])
def test_a_refusal_of_beats_is_logged_once(writing: Writing, *, refused: bool) -> None:
    """With Kafka's reason; the log continues."""
    writing.writer._beats._refusal = "not allowed" if refused else None
    with structlog.testing.capture_logs() as logged:
        for now_ms in (0, 1_000):
            writing.writer.check(now_ms)
            writing.beat(now_ms)
    assert [line["reason"] for line in logged] == ["not allowed"] * refused


def test_a_close_publishes_what_waits_only_with_a_valid_lease(writing: Writing) -> None:
    """What Kafka does not acknowledge in time is logged."""
    writing.add(1)
    writing.lease.status = LeaseStatus.UNPROVEN
    writing.writer.close()
    assert (writing.kafka.log, set(writing.kafka.flushes_s)) == ([], {0})
    assert writing.client.closed == 1, "nothing is read back any more"
    writing.lease.status = LeaseStatus.VALID
    writing.add(1)
    writing.kafka.flushes_s.clear()
    with structlog.testing.capture_logs() as logged:
        writing.writer.close()
        assert (len(writing.kafka.log), logged) == (1, [])
        writing.kafka.up = False
        writing.add(1)
        writing.writer.close()
    (line,) = logged
    assert "did not acknowledge the last changes in time" in line["event"]
    # Of the beats, of the log, of the purged messages.
    assert writing.kafka.flushes_s[:3] == [0, CLOSE_TIMEOUT_S, 0]


def test_what_the_source_decodes_with_is_what_its_log_is_read_with(
    monkeypatch: pytest.MonkeyPatch, writing: Writing
) -> None:
    """By the name under which the watcher writes."""
    opened = Mock()
    monkeypatch.setattr(log_writer, "Readback", opened)
    settings, decode = load(SourceSettings, cluster="prod"), Mock()
    LogWriter(
        settings,
        TOPICS,
        writing.lease,
        writing.recorder,
        on_lead=Mock(),
        on_sent=Mock(),
        decode=decode,
    )
    opened.assert_called_once_with(settings, TOPICS, "me", decode)
