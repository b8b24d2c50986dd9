"""A topic of the pipeline from its earliest record to the end that it had at the start.

The rule: nothing is created or committed, and a topic that is not there is told, not made. A
cluster's records stand in one partition, so reading the partitions side by side keeps their order.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from controller_model.kafka.ids import partition_of
from pipeline.runtime import UnreachableError, UsageError
from pipeline.settings import PipelineSettings
from pipeline.topics import MAX_MESSAGE_BYTES, client_properties

_REQUEST_TIMEOUT_S = 10.0
_RETRY_S = 0.2
_POLL_S = 1.0
_SILENT_FOR_AT_MOST_S = 60.0
"""A broker that gives nothing for so long, while there is more, is as good as gone."""
_MESSAGES_AT_A_TIME = 500
_PREFETCH_KIB = 32 * 1024
"""Bound of what librdkafka holds ahead of us: four of the largest records."""
# confluent-kafka names its local error codes with an underscore.
_CONFIGURATION_CODES = {KafkaError._INVALID_ARG, KafkaError._AUTHENTICATION}  # noqa: SLF001  # see above
_LEADER_MOVES = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
"""Another broker leads than we were told, or nobody yet: over as soon as the metadata come again."""
_PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001  # see above


class TopicRecord(NamedTuple):
    """A message, and where it stands."""

    place: str
    key: bytes | None
    value: bytes
    timestamp: int
    """Milliseconds since 1970; 0 where there is none."""


class TopicExtent(NamedTuple):
    """What is there to be read of one partition: from `low` up to, not including, `high`."""

    partition: int
    low: int
    high: int


class TopicReading:
    """One reading of one topic; use it as a context."""

    def __init__(
        self, settings: PipelineSettings, topic: str, *, cluster: str | None = None
    ) -> None:
        self.topic = topic
        self._where = f"the pipeline's Kafka at {settings.bootstrap_servers}"
        self._heard: list[KafkaError] = []
        properties: dict[str, Any] = {
            **client_properties(settings),
            "group.id": f"{settings.topic_prefix}.replay-{uuid.uuid4().hex[:12]}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            # What retention takes away under us is skipped, as if the topic had begun later.
            "auto.offset.reset": "earliest",
            "max.partition.fetch.bytes": MAX_MESSAGE_BYTES,
            "queued.max.messages.kbytes": _PREFETCH_KIB,
            "error_cb": self._heard.append,
        }
        try:
            self._consumer = Consumer(properties)
        except KafkaException as error:
            raise UsageError(f"{self._where}: {_text(error)}; check kafka_properties") from None
        try:
            self.extents = self._extents(cluster)
        except BaseException:
            self._consumer.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def begins_late(self) -> bool:
        """Whether retention has taken records from the beginning of the topic."""
        return any(extent.low > 0 for extent in self.extents)

    def records(self) -> Iterator[TopicRecord]:
        """Yield the messages, up to the ends that the partitions had when this was made."""
        left = {
            extent.partition: extent.high for extent in self.extents if extent.high > extent.low
        }
        if not left:
            return
        self._consumer.assign(
            [TopicPartition(self.topic, partition, OFFSET_BEGINNING) for partition in left]
        )
        heard_at = time.monotonic()
        while left:
            messages = self._consumer.consume(_MESSAGES_AT_A_TIME, timeout=_POLL_S)
            if messages:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > _SILENT_FOR_AT_MOST_S:
                raise UnreachableError(
                    f"{self._where} gives nothing more of {self.topic}: {self._trouble()}"
                )
            for message in messages:
                yield from self._take(message, left)

    def _take(self, message: Message, left: dict[int, int]) -> Iterator[TopicRecord]:
        partition, offset = message.partition(), message.offset()
        error = message.error()
        if error is not None and error.code() != _PARTITION_EOF:
            if error.fatal():
                raise UnreachableError(f"{self._where}: {error.str()}")
            self._heard.append(error)
            return
        if partition not in left or offset is None:
            return
        if error is not None:  # the end, though its last offsets may hold no message
            left.pop(partition)
            return
        if offset + 1 >= left[partition]:
            left.pop(partition)
        kind, timestamp = message.timestamp()
        place = f"{self.topic}[{partition}]@{offset}"
        yield TopicRecord(place, message.key(), message.value() or b"", timestamp if kind else 0)

    def _extents(self, cluster: str | None) -> tuple[TopicExtent, ...]:
        try:
            metadata = self._consumer.list_topics(self.topic, timeout=_REQUEST_TIMEOUT_S)
            found = metadata.topics[self.topic]
            if found.error is not None or not found.partitions:
                raise UsageError(
                    f"there is no topic {self.topic} at {self._where}; "
                    "check bootstrap_servers and topic_prefix"
                )
            partitions = sorted(found.partitions)
            if cluster is not None:
                partitions = [partition_of(cluster, len(partitions))]
            return tuple(self._extent(partition) for partition in partitions)
        except KafkaException as error:
            codes = {each.code() for each in (error.args[0], *self._heard)}
            if not codes.isdisjoint(_CONFIGURATION_CODES):
                raise UsageError(
                    f"{self._where}: {self._trouble(error)}; check kafka_properties"
                ) from None
            raise UnreachableError(
                f"{self._where} does not answer: {self._trouble(error)}; "
                "start it or correct bootstrap_servers"
            ) from None

    def _extent(self, partition: int) -> TopicExtent:
        deadline = time.monotonic() + _REQUEST_TIMEOUT_S
        while True:
            try:
                offsets = self._consumer.get_watermark_offsets(
                    TopicPartition(self.topic, partition), timeout=_REQUEST_TIMEOUT_S
                )
            except KafkaException as error:
                if error.args[0].code() not in _LEADER_MOVES or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_S)
                continue
            if offsets is None:
                raise UnreachableError(f"{self._where} does not tell where {self.topic} ends")
            low, high = offsets
            return TopicExtent(partition, low, high)

    def _trouble(self, error: KafkaException | None = None) -> str:
        """Return what went wrong; what was heard of one server tells more than a time-out."""
        if self._heard:
            return self._heard[-1].str()
        return "no answer" if error is None else _text(error)


def _text(error: KafkaException) -> str:
    first = error.args[0]
    return str(first.str() if isinstance(first, KafkaError) else first)
