"""A beat is sent when it is due and the one before it is over, and carries what is known then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from controller_model.kafka.ids import Position
from controller_model.records.changes import SessionState
from controller_model.records.views import WatcherBeat, decode_view
from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from source_log import beats
from source_log.beats import DENIED_PAUSE_MS, TIMEOUT_MS, Beats
from source_log.config import SourceSettings

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))
DENIED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed")
TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT, "timed out")
NOBODY: Callable[[KafkaError | None, None], None] = lambda _error, _message: None  # noqa: E731


class Kafka:
    """A fake of confluent-kafka's Producer: keeps messages in flight until the test answers them."""

    def __init__(self) -> None:
        self.properties: dict[str, Any] = {}
        self.taken: list[tuple[str, bytes, bytes]] = []
        self.report = NOBODY
        self.full = False
        self.purged = False

    def produce(
        self, topic: str, *, value: bytes, key: bytes, partition: int, on_delivery: Any
    ) -> None:
        """Accept a beat."""
        assert partition == 0
        if self.full:
            raise BufferError
        self.taken.append((topic, key, value))
        self.report = on_delivery

    def poll(self, timeout_s: float) -> None:
        """Serve no callback: a test does. The main loop must not wait here."""
        assert timeout_s == 0

    def purge(self) -> None:
        """Forget what is in flight."""
        self.purged = True

    def flush(self, timeout_s: float) -> None:
        """Send nothing more; after a purge there is nothing to wait for."""
        assert (self.purged, timeout_s) == (True, 0)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    """The producer that beats are sent with."""
    broker = Kafka()

    def make(properties: dict[str, Any]) -> Kafka:
        broker.properties = properties
        return broker

    monkeypatch.setattr(beats, "Producer", make)
    return broker


def send(of: Beats, now_ms: int, *, generation: int = 2) -> None:
    """Offer a beat."""
    of.beat(
        now_ms,
        generation=generation,
        acknowledged=Position(2, 7),
        log_complete_ms=40,
        complete=lambda header: WatcherBeat(**header, session=SessionState.CONNECTED),
    )


def made() -> Beats:
    """Return the beats of cluster `prod`."""
    return Beats(load(SourceSettings, cluster="prod"), TOPICS, "me")


def read(kafka: Kafka) -> list[WatcherBeat]:
    """Read the beats that Kafka received."""
    views = [decode_view(value) for _topic, _key, value in kafka.taken]
    return [view for view in views if isinstance(view, WatcherBeat)]


def test_a_beat_carries_the_watcher_its_session_and_the_log_position(kafka: Kafka) -> None:
    """It has the cluster's key in the views. It claims nothing about the log of another generation."""
    beating = made()
    send(beating, 0)
    ((topic, key, _value),) = kafka.taken
    assert (topic, key) == ("kcm.views", b"prod/watcher")
    kafka.report(None, None)
    send(beating, 1_000, generation=3)
    first, second = read(kafka)
    assert (first.cluster, first.watcher, first.position, first.number) == (
        *("prod", "me", Position(2, 7), 1),
    )
    assert first.session is SessionState.CONNECTED
    assert first.log_complete_ms == 40
    assert (first.sent_steady, second.sent_steady) == (0, 1_000)
    assert (second.position, second.number) == (Position(3, 0), 1)


def test_a_beat_is_sent_without_linger_and_has_a_short_delivery_timeout(kafka: Kafka) -> None:
    """A late beat would describe a moment that is over. The client knows each of these properties."""
    made()
    assert (
        kafka.properties.items()
        >= {
            "acks": 1,
            "linger.ms": 0,
            "message.timeout.ms": TIMEOUT_MS,
            "socket.nagle.disable": True,
        }.items()
    )
    assert kafka.properties["error_cb"](DENIED) is None
    Producer(kafka.properties)


def test_one_beat_a_second_is_sent_and_at_most_one_is_in_flight(kafka: Kafka) -> None:
    """No beat queues up behind one that Kafka has not acknowledged: it would arrive late."""
    beating = made()
    send(beating, 0, generation=0)  # nothing was published yet
    send(beating, 100)
    send(beating, 5_000)
    assert len(kafka.taken) == 1  # it is in flight
    kafka.report(None, None)
    send(beating, 5_000)
    kafka.report(TIMED_OUT, None)
    send(beating, 5_999)
    send(beating, 6_000)
    assert [beat.number for beat in read(kafka)] == [1, 2, 3]
    assert beating.pop_refusal() is None
    kafka.report(None, None)
    kafka.full = True
    send(beating, 7_000)
    kafka.full = False
    send(beating, 8_000)
    assert [beat.number for beat in read(kafka)] == [1, 2, 3, 5]
    beating.close()
    assert kafka.purged


def test_a_refusal_is_reported_once_and_tried_again_later(kafka: Kafka) -> None:
    """The log continues without beats: rights that were granted before beats existed may not allow them."""
    beating = made()
    send(beating, 0)
    kafka.report(DENIED, None)
    assert (beating.pop_refusal(), beating.pop_refusal()) == ("not allowed", None)
    assert beating.refused
    send(beating, DENIED_PAUSE_MS)
    assert len(kafka.taken) == 1
    send(beating, 1_000 + DENIED_PAUSE_MS)
    kafka.report(DENIED, None)
    assert beating.pop_refusal() is None
    send(beating, 2_000 + 2 * DENIED_PAUSE_MS)
    kafka.report(None, None)
    assert not beating.refused
    send(beating, 3_000 + 2 * DENIED_PAUSE_MS)
    assert len(kafka.taken) == 4
