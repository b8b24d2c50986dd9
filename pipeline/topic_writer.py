"""Writes the command line's records to the pipeline's topics: a few, each acknowledged.

A record that Kafka has not acknowledged is an error, and the caller says what that means.
The watcher publishes its stream itself (`source_log`), and the fold does through Spark.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pipeline.kafka_errors import reason_of
from pipeline.runtime import UnreachableError
from pipeline.settings import PipelineSettings
from pipeline.topics import client_properties


class NewRecord(NamedTuple):
    """A key and its value; None: a null."""

    key: str
    value: bytes | None


class RecordWriter:
    """Writes records, and waits until Kafka has acknowledged them, at most for `within_s`."""

    def __init__(self, settings: PipelineSettings, *, within_s: float) -> None:
        self._where = f"the pipeline's Kafka at {settings.bootstrap_servers}"
        self._within_s = within_s
        self._errors: list[KafkaError] = []
        properties: dict[str, Any] = {
            **client_properties(settings),
            "acks": "all",
            "enable.idempotence": True,
            "message.timeout.ms": int(within_s * 1000),
            "error_cb": self._errors.append,
        }
        self._producer = Producer(properties)

    def write(self, topic: str, partition: int, records: Iterable[NewRecord]) -> None:
        """Write records in this order; raise UnreachableError if Kafka rejects one: the others may be written."""
        refused: list[KafkaError] = []

        def report(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                refused.append(error)

        for key, value in records:
            while True:
                try:
                    self._producer.produce(
                        topic, key=key, value=value, partition=partition, on_delivery=report
                    )
                    break
                except BufferError:  # librdkafka's queue is full: 100,000 records
                    self._producer.poll(1)
        left = self._producer.flush(self._within_s + 1)
        if refused or left:
            error = refused[0] if refused else KafkaError(KafkaError._MSG_TIMED_OUT)  # noqa: SLF001  # confluent-kafka names its local error codes with an underscore
            reason = reason_of(KafkaException(error), self._errors)
            raise UnreachableError(f"{self._where} did not take all records of {topic}: {reason}")
