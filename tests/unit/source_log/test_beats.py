"""A beat is sent when it is due and the one before it is over, and carries what is known then."""

from __future__ import annotations

from typing import Any

import msgspec
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
from tests.support.producer import AnsweredProducer
from tests.support.samples import beat

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))
DENIED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed")
TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT, "timed out")


class Sending:
    """The beats of cluster `prod`, and their producer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kafka: AnsweredProducer
        monkeypatch.setattr(beats, "Producer", self._make)
        self.beats = Beats(load(SourceSettings, cluster="prod"), TOPICS, "me")

    def _make(self, properties: dict[str, Any]) -> AnsweredProducer:
        self.kafka = AnsweredProducer(properties)
        return self.kafka

    def send(self, now_ms: int, *, generation: int = 2) -> None:
        """Offer a beat."""
        self.beats.beat(
            now_ms,
            generation=generation,
            acknowledged=Position(2, 7),
            log_complete_ms=40,
            complete=lambda header: WatcherBeat(**header, session=SessionState.CONNECTED),
        )

    @property
    def sent(self) -> list[WatcherBeat]:
        """The beats that Kafka received."""
        views = map(decode_view, self.kafka.taken)
        return [view for view in views if isinstance(view, WatcherBeat)]


@pytest.fixture
def sending(monkeypatch: pytest.MonkeyPatch) -> Sending:
    """The beats of a watcher."""
    return Sending(monkeypatch)


def test_a_beat_carries_the_watcher_its_session_and_the_log_position(sending: Sending) -> None:
    """It has the cluster's key in the views. It claims nothing about the log of another generation."""
    sending.send(0)
    sending.kafka.answer()
    sending.send(1_000, generation=3)
    assert sending.kafka.places == [("kcm.views", b"prod/watcher", 0)] * 2
    first, second = sending.sent
    assert (first.cluster, first.watcher, first.position) == ("prod", "me", Position(2, 7))
    assert (first.session, first.log_complete_ms) == (SessionState.CONNECTED, 40)
    assert (first.sent_steady, second.sent_steady) == (0, 1_000)
    assert (first.number, second.number, second.position) == (1, 1, Position(3, 0))


def test_a_beat_is_sent_without_linger_and_has_a_short_delivery_timeout(sending: Sending) -> None:
    """A late beat would describe a moment that is over. The client knows each of these properties."""
    properties = sending.kafka.properties
    wanted = {"acks": 1, "linger.ms": 0, "message.timeout.ms": TIMEOUT_MS}
    assert properties.items() >= {**wanted, "socket.nagle.disable": True}.items()
    assert properties["error_cb"](DENIED) is None
    Producer(properties)


def test_one_beat_a_second_is_sent_and_at_most_one_is_in_flight(sending: Sending) -> None:
    """No beat queues up behind one that Kafka has not acknowledged: it would arrive late."""
    sending.send(0, generation=0)  # nothing was published yet
    sending.send(100)
    sending.send(5_000)
    assert len(sending.sent) == 1  # it is in flight
    sending.kafka.answer()
    sending.send(5_000)
    sending.kafka.answer(TIMED_OUT)
    sending.send(5_999)
    sending.send(6_000)
    assert [beat.number for beat in sending.sent] == [1, 2, 3]
    assert sending.beats.pop_refusal() is None
    sending.kafka.answer()
    sending.kafka.refuses = BufferError()
    sending.send(7_000)
    sending.kafka.refuses = None
    sending.send(8_000)
    assert [beat.number for beat in sending.sent] == [1, 2, 3, 5]
    sending.beats.close()
    assert (sending.kafka.purged, sending.kafka.flushed) == (True, [0])


def test_a_refusal_is_reported_once_and_tried_again_later(sending: Sending) -> None:
    """The log continues without beats: their right may be granted at any time."""
    sending.send(0)
    sending.kafka.answer(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    assert (sending.beats.refused, sending.beats.pop_refusal()) == (False, None), "a new broker"
    sending.send(1_000)
    sending.kafka.answer(DENIED)
    assert (sending.beats.pop_refusal(), sending.beats.pop_refusal()) == ("not allowed", None)
    assert sending.beats.refused
    sending.send(1_000 + DENIED_PAUSE_MS)
    assert len(sending.sent) == 2
    sending.send(2_000 + DENIED_PAUSE_MS)
    sending.kafka.answer(DENIED)
    assert sending.beats.pop_refusal() is None
    sending.send(3_000 + 2 * DENIED_PAUSE_MS)
    sending.kafka.answer()
    assert not sending.beats.refused
    sending.send(4_000 + 2 * DENIED_PAUSE_MS)
    assert len(sending.sent) == 5


def test_beats_go_on_behind_those_of_another_watcher_of_the_generation(sending: Sending) -> None:
    """Readers take only larger numbers; those of an earlier generation do not count."""
    other = beat(1, generation=2)
    sending.beats.continue_from(msgspec.structs.replace(other, generation=1, number=900))
    sending.beats.continue_from(msgspec.structs.replace(other, number=40))
    sending.beats.continue_from(msgspec.structs.replace(other, number=30))
    sending.send(0)
    sending.kafka.answer()
    sending.send(1_000, generation=3)
    assert [(each.generation, each.number) for each in sending.sent] == [(2, 41), (3, 1)]
