"""A Kafka consumer that reads all of two topics from the beginning, for one reader alone.

The rule: no group and no commits, since every exporter reads everything; positions are ours. When
records that we stood at are gone (a topic made anew, or cut), that is an event of its own and not
a silent jump: the reader must say so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from exporter.core.records import Record
from exporter.intake.probe import Place
from pipeline.settings import PipelineSettings
from pipeline.topics import MAX_MESSAGE_BYTES, client_properties

_MOST_PER_READING = 500
"""Records taken in before figures are rendered: a backlog is shown in steps, not record by record."""

_PREFETCH_KIB = 32 * 1024
"""Bound of what librdkafka holds ahead of us; four of the largest records."""


class Notice(enum.Enum):
    """What a reading can tell of a partition besides records."""

    AT_END = "at end"
    CUT = "cut"
    """The record that we stood at is not there: read the partition from its beginning."""
    TROUBLE = "trouble"


class Reading(NamedTuple):
    """What one call brought."""

    records: list[Record]
    notices: list[tuple[Notice, Place, str]]


class ViewConsumer:
    """Positions and one librdkafka consumer, which `reopen` replaces."""

    def __init__(self, settings: PipelineSettings, places: Iterable[Place]) -> None:
        self.next_offset: dict[Place, int] = {}
        self._settings = settings
        self._places = tuple(places)
        self._consumer = self._open()

    def _open(self) -> Consumer:
        consumer = Consumer(
            {
                **client_properties(self._settings),
                "group.id": f"{self._settings.topic_prefix}.exporter",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                # Not a silent jump: see Notice.CUT.
                "auto.offset.reset": "error",
                # A record is handed over when it is there; the wait only paces empty answers.
                "fetch.min.bytes": 1,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 50,
                "max.partition.fetch.bytes": MAX_MESSAGE_BYTES,
                "queued.max.messages.kbytes": _PREFETCH_KIB,
            }
        )
        consumer.assign(
            [
                TopicPartition(
                    topic, partition, self.next_offset.get((topic, partition), OFFSET_BEGINNING)
                )
                for topic, partition in self._places
            ]
        )
        return consumer

    def reopen(self, *, from_beginning: Iterable[Place]) -> None:
        """Go on with a new client: these partitions from their beginning, the rest where we were.

        A client that has known a topic under another id is not trusted with the new one.
        """
        self._consumer.close()
        for place in from_beginning:
            self.next_offset.pop(place, None)
        self._consumer = self._open()

    def read(self, timeout_s: float) -> Reading:
        """Return what is there, waiting for a first message for at most this long."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return Reading([], [])
        # With a timeout this call would wait until it is full; without, it takes what is there.
        messages = [first, *self._consumer.consume(_MOST_PER_READING - 1, timeout=0)]
        reading = Reading([], [])
        for message in messages:
            self._sort(message, reading)
        return reading

    def _sort(self, message: Message, reading: Reading) -> None:
        place = (message.topic() or "", _known(message.partition()))
        error = message.error()
        if error is None:
            offset = _known(message.offset())
            self.next_offset[place] = offset + 1
            kind, timestamp = message.timestamp()
            reading.records.append(
                Record(*place, offset, message.key(), message.value(), timestamp if kind else 0)
            )
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # confluent-kafka names its local error codes with an underscore
            self.next_offset[place] = _known(message.offset())
            reading.notices.append((Notice.AT_END, place, ""))
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001  # the same
            reading.notices.append((Notice.CUT, place, error.str()))
        elif error.fatal():
            raise KafkaException(error)
        else:
            reading.notices.append((Notice.TROUBLE, place, error.str()))

    def close(self) -> None:
        """End the client."""
        self._consumer.close()


def _known(number: int | None) -> int:
    """Return a number that librdkafka gives with each message; -1 if it did not."""
    return -1 if number is None else number
