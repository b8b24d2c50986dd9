"""The reading thread as a thread: how it begins, hangs and ends, on a simulated Kafka."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import pytest
import structlog
from confluent_kafka import OFFSET_BEGINNING, KafkaError

from exporter.core.status import ReadingStatus, reasons_not_ready
from exporter.scrape import reading_thread
from pipeline import topic_probe
from pipeline.kafka_errors import TopicReadError
from pipeline.runtime import UnreachableError
from pipeline.settings import PipelineSettings
from pipeline.supervised_thread import STANDSTILL_S
from pipeline.topic_records import Place
from pipeline.topics import EnsuredTopics, topic_names
from tests.support.kafka_client import EOF_CODE, Admin, Client, Message, use_client
from tests.support.reading import Reading
from tests.support.samples import EVENTS, T0, VIEWS, cluster_view, record
from tests.support.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 2, {name: f"{name}-1" for name in NAMES})
PLACES = [(VIEWS, 0), (VIEWS, 1), (EVENTS, 0), (EVENTS, 1)]
PROBE, READER = "topic-probe", "reader"


@pytest.fixture(autouse=True)
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    """Return the simulated brokers, which have the topics and answer at once."""
    made = Admin(TOPICS.ids)
    monkeypatch.setattr(topic_probe, "AdminClient", lambda _properties, logger: logger or made)
    monkeypatch.setattr(reading_thread, "ensure_topics", lambda _settings, stop: stop and TOPICS)
    monkeypatch.setattr(reading_thread, "_PROBE_INTERVAL_S", 0.001)
    return made


def started() -> Reading:
    """Return a reading whose thread runs."""
    reading = Reading()
    assert not reading.thread.alive
    reading.thread.start()
    return reading


def status_once(reading: Reading, holds: Callable[[ReadingStatus], bool]) -> ReadingStatus:
    """Wait until the status holds, and return it; fails at once when the thread has ended."""

    def look() -> ReadingStatus:
        assert reading.thread.alive, reading.thread.failure
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

    def turn(self) -> None:
        """Release the current poll, and wait until the next one hangs."""
        self.go_on.release()
        assert self.begun.acquire(timeout=DEADLINE_S)


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
    assert status.log_written_at == {0: 5, 1: 5}
    reading.thread.close()
    assert (reading.thread.failure, reading.thread.alive) == (None, False)
    await_threads()
    assert client.closed == 1


def test_a_start_reports_the_records_left_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is for both topics, by the ends that the brokers report."""
    use_client(monkeypatch, Client())
    reading = started()
    status = status_once(reading, lambda seen: bool(seen.records_left))
    assert (status.stage, status.records_left) == ("reading the topics to their ends", 42)
    assert not status.read_to_end_once
    reading.thread.close()
    await_threads()


def test_a_start_failure_is_kept_as_the_threads_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner gets the same exception object."""
    error = UnreachableError("no Kafka")

    def away(_settings: PipelineSettings, stop: threading.Event) -> EnsuredTopics:
        assert not stop.is_set()
        raise error

    monkeypatch.setattr(reading_thread, "ensure_topics", away)
    reading = started()
    await_threads()
    assert reading.thread.failure is error


def test_a_stop_while_kafka_is_waited_for_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends at once, and it is no standstill, however long it takes."""

    def away(settings: PipelineSettings, stop: threading.Event) -> EnsuredTopics:
        assert stop.wait(DEADLINE_S)
        raise UnreachableError(f"no Kafka at {settings.bootstrap_servers}")

    monkeypatch.setattr(reading_thread, "ensure_topics", away)
    reading = started()
    began_s = time.monotonic()
    for second in range(100):
        reading.thread.watch(began_s + second)
    assert reading.state.still_ms == 0
    reading.thread.close()
    assert (reading.thread.failure, reading.thread.alive) == (None, False)


def test_a_fatal_kafka_error_ends_the_thread_and_closes_its_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The owner gets an error that no retry can fix, and no thread or client is left behind."""
    fatal = Message((VIEWS, 0), 0, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    fatal._error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied", fatal=True)
    client = Client([fatal])
    use_client(monkeypatch, client)
    reading = started()
    await_threads()
    assert isinstance(reading.thread.failure, TopicReadError)
    assert client.closed == 1


def test_a_probe_that_hangs_does_not_block_close(
    monkeypatch: pytest.MonkeyPatch, admin: Admin
) -> None:
    """The reading thread waits for it for a limited time."""
    asked, go_on = threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> dict[str, object]:
        asked.set()
        go_on.wait(DEADLINE_S)
        return {}

    monkeypatch.setattr(admin, "describe_topics", hang)
    monkeypatch.setattr(reading_thread, "_CLOSE_TIMEOUT_S", 0.01)
    use_client(monkeypatch, Client())
    reading = started()
    assert asked.wait(DEADLINE_S)
    reading.thread.close()
    await_threads(PROBE)
    go_on.set()
    await_threads()


def test_a_reading_thread_that_hangs_is_reported_and_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a minute of checks it is logged once, with the place; what was read is still served."""
    client = Stuck()
    use_client(monkeypatch, client)
    reading = started()
    assert client.begun.acquire(timeout=DEADLINE_S)
    client.turn()
    began_s = math.ceil(time.monotonic())  # whole seconds: sums of fractions may exceed a minute
    with structlog.testing.capture_logs() as logged:
        for second in range(int(STANDSTILL_S) + 1):
            reading.thread.watch(began_s + second)
        assert logged == []
        for second in (61, 62):
            reading.thread.watch(began_s + second)
            assert reading.state.still_ms == second * 1_000
        (line,) = logged
        assert (line["log_level"], line["still_s"]) == ("error", 61)
        assert "hangs" in line["event"]
        assert ", poll (test_reading_thread_life.py:" in line["at"]
        state, now = reading.state, reading.now
        reasons = reasons_not_ready(
            state.status, now, kafka_gone_ms=15_000, still_ms=state.still_ms
        )
        assert any("has read nothing for 62 s" in reason for reason in reasons)
        assert (reading.thread.failure, reading.thread.alive) == (None, True)
        client.turn()
        reading.thread.watch(began_s + 63)
        reading.thread.watch(began_s + 64)
    assert reading.state.still_ms == 1_000
    assert [line["event"] for line in logged[1:]] == ["the reading thread reads again"]
    client.go_on.release(1_000)
    reading.thread.close()
    await_threads()


def test_a_reading_thread_that_hangs_does_not_block_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller of `close` continues after a while, and the process can end."""
    monkeypatch.setattr(reading_thread, "_CLOSE_TIMEOUT_S", 0.01)
    client = Stuck()
    use_client(monkeypatch, client)
    reading = started()
    assert client.begun.acquire(timeout=DEADLINE_S)
    reading.thread.close()
    assert reading.thread.alive
    assert all(each.daemon for each in threading.enumerate() if each.name == READER)
    client.go_on.release()
    await_threads()
