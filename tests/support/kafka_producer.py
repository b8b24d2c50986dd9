"""A Kafka producer that takes or refuses records, for answers that no healthy broker ever gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from pipeline import topic_writer


class FakeProducer:
    """Replaces confluent-kafka's Producer; refuses the records of one topic."""

    def __init__(self, refused: str | None = None) -> None:
        self.refused = refused
        self.full = 1
        """How often its queue is full."""
        self.written: list[tuple[str, str, int]] = []
        self.values: list[bytes | None] = []

    def produce(
        self,
        topic: str,
        *,
        key: str,
        value: bytes | None,
        partition: int,
        on_delivery: Callable[[KafkaError | None, Any], None],
    ) -> None:
        """Take a record, or refuse it."""
        if self.full:
            self.full -= 1
            raise BufferError
        self.written.append((topic, key, partition))
        self.values.append(value)
        refused = topic == self.refused
        on_delivery(KafkaError(KafkaError.INVALID_RECORD) if refused else None, None)

    def poll(self, _timeout: float) -> None:
        """Make room."""

    def flush(self, _timeout: float) -> int:
        """Return that nothing is left."""
        return 0


def use_producer(monkeypatch: pytest.MonkeyPatch, producer: FakeProducer) -> None:
    """Make records go to this producer."""
    monkeypatch.setattr(topic_writer, "Producer", lambda _: producer)
