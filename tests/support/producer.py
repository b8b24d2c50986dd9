"""Producers in memory, one that a test answers and one that acknowledges at the next poll, and a thread without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from controller_model.records.changes import ZnodeChange, decode_message
from controller_model.records.views import WatcherBeat, decode_view
from pipeline.topics import TopicNames
from source_log import beats, publisher


class AnsweredProducer:
    """Keeps messages until the test acknowledges or refuses them."""

    def __init__(self, properties: dict[str, Any]) -> None:
        self.properties = properties
        self.on_error = properties["error_cb"]
        self.taken: list[bytes] = []
        self.places: list[tuple[str, bytes, int]] = []
        """Topic, key and partition of each message."""
        self.refuses: Exception | None = None
        self.open: list[Callable[[KafkaError | None, None], None]] = []
        self.purged = False
        self.flushed: list[float] = []

    def produce(
        self, topic: str, *, value: bytes, key: bytes, partition: int, on_delivery: Any
    ) -> None:
        """Accept a message."""
        if self.refuses is not None:
            raise self.refuses
        self.taken.append(value)
        self.places.append((topic, key, partition))
        self.open.append(on_delivery)

    def answer(self, error: KafkaError | None = None) -> None:
        """Acknowledge all messages, or refuse them."""
        for on_delivery in self.open:
            on_delivery(error, None)
        self.open.clear()

    def poll(self, timeout_s: float) -> None:
        """Serve no callback: `answer` does. The main loop must not wait here."""
        assert timeout_s == 0

    def flush(self, timeout_s: float) -> None:
        """Send nothing more."""
        self.flushed.append(timeout_s)

    def purge(self) -> None:
        """Forget the accepted messages."""
        self.purged = True


class Kafka:
    """The broker of the log's producer and of the beats' producer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: TopicNames) -> None:
        self.up = True
        self.accepts_changes = True
        self.error: KafkaError | None = None
        self.log: list[ZnodeChange] = []
        self.beats: list[WatcherBeat] = []
        self.flushes_s: list[float] = []
        self._names = names
        self._open: list[tuple[bytes, str, Callable[[KafkaError | None, None], None]]] = []
        monkeypatch.setattr(publisher, "Producer", lambda _properties: self)
        monkeypatch.setattr(beats, "Producer", lambda _properties: _Beats(self))

    def produce(self, topic: str, *, value: bytes, on_delivery: Any, **_: Any) -> None:
        """Accept a message."""
        self._open.append((value, topic, on_delivery))

    def poll(self, _timeout_s: float) -> None:
        """Answer what is in flight."""
        for message in list(self._open) if self.up else ():
            value, topic, on_delivery = message
            is_beat = topic == self._names.views
            if not is_beat and not self.accepts_changes:
                continue
            self._open.remove(message)
            if is_beat:
                beat = decode_view(value)
                assert isinstance(beat, WatcherBeat)
                self.beats.append(beat)
            elif self.error is None:
                self.log += decode_message(value).changes
            on_delivery(None if is_beat else self.error, None)

    def flush(self, timeout_s: float) -> None:
        """Answer what is in flight."""
        self.flushes_s.append(timeout_s)
        self.poll(timeout_s)

    def purge(self) -> None:
        """Forget what is in flight."""
        self._open.clear()


class _Beats:
    """The producer of the beats, whose end leaves the log's messages alone."""

    def __init__(self, kafka: Kafka) -> None:
        self.produce, self.poll, self.flush = kafka.produce, kafka.poll, kafka.flush

    def purge(self) -> None:
        """Do nothing: a beat in flight is sent."""


class Polled:
    """A thread that works when it is checked."""

    def __init__(self, _name: str, poll: Callable[[], None]) -> None:
        self.check = poll

    def start(self) -> None:
        """Wait for the first check."""

    def close(self, _timeout_s: float) -> None:
        """Do nothing more."""
