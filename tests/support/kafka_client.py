"""Kafka clients that answer by a script, for answers that no healthy broker ever gives.

The rule: they replace confluent-kafka's classes at the edge, so all of kcm's own code runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation

from pipeline import topic_reader
from pipeline.topic_records import Place

EOF_CODE = KafkaError._PARTITION_EOF
CUT_CODE = KafkaError._AUTO_OFFSET_RESET
AWAY_CODE = KafkaError._TRANSPORT


class Message:
    """A record, or an error of a partition, as the client returns it."""

    def __init__(
        self,
        place: Place,
        offset: int | None,
        code: int | None = None,
        *,
        key: bytes | None = b"k",
        value: bytes | None = b"v",
        leader_epoch: int | None = None,
        timestamp: int | None = None,
    ) -> None:
        self._place = place
        self._offset = offset
        self._key = key
        self._value = value
        self._leader_epoch = leader_epoch
        self._timestamp = (0, -1) if timestamp is None else (1, timestamp)
        self._error = None if code is None else KafkaError(code, f"error {code}")

    def topic(self) -> str:
        """Return the topic."""
        return self._place[0]

    def partition(self) -> int:
        """Return the partition."""
        return self._place[1]

    def offset(self) -> int | None:
        """Return the offset; None where it is an error of the whole partition."""
        return self._offset

    def key(self) -> bytes | None:
        """Return the key."""
        return self._key

    def value(self) -> bytes | None:
        """Return the value."""
        return self._value

    def leader_epoch(self) -> int | None:
        """Return the epoch of the leader that took the record."""
        return self._leader_epoch

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of the timestamp (1: the producer's, 0: there is none), and the timestamp."""
        return self._timestamp

    def error(self) -> KafkaError | None:
        """Return the error."""
        return self._error


class Client:
    """Replaces confluent-kafka's Consumer: answers in the order of a script.

    `polls` are messages that arrive together, or an error of a broker. `ends` are the answers about
    a partition's first and last offsets; a number is the code of an error.
    """

    def __init__(
        self,
        *polls: list[Message] | KafkaError,
        ends: tuple[int | tuple[int, int] | None, ...] = (),
        partitions: int = 1,
        metadata_error: int | None = None,
    ) -> None:
        self.polls = list(polls)
        self.ends = list(ends)
        self.partitions = partitions
        self.metadata_error = metadata_error
        self.assigned: list[dict[Place, int]] = []
        self.epochs: list[dict[Place, int]] = []
        self.closed = 0
        self.asked: list[Place] = []
        """The partitions whose first and last offsets were asked for."""
        self.error_cb: Callable[[KafkaError], None] = lambda _: None
        self.properties: dict[str, Any] = {}

    def assign(self, places: list[TopicPartition]) -> None:
        """Record the assignment."""
        self.assigned.append({(each.topic, each.partition): each.offset for each in places})
        known = [each for each in places if each.leader_epoch is not None]
        self.epochs.append({(each.topic, each.partition): each.leader_epoch for each in known})

    def poll(self, _timeout: float) -> Message | None:
        """Return the first message of the next answer; the rest can be consumed at once."""
        answer = self.polls.pop(0) if self.polls else []
        if isinstance(answer, KafkaError):
            self.error_cb(answer)
            return None
        self._rest = answer[1:]
        return answer[0] if answer else None

    def consume(self, _most: int, timeout: float) -> list[Message]:
        """Return the rest of the answer."""
        assert timeout == 0
        return self._rest

    def list_topics(self, topic: str, timeout: float) -> Any:
        """Return the metadata of one topic."""
        assert timeout > 0
        error = None if self.metadata_error is None else KafkaError(self.metadata_error)
        found = SimpleNamespace(error=error, partitions=dict.fromkeys(range(self.partitions)))
        return SimpleNamespace(topics={topic: found})

    def get_watermark_offsets(
        self, place: TopicPartition, timeout: float
    ) -> tuple[int, int] | None:
        """Return the next answer; the last one repeats."""
        assert timeout > 0
        self.asked.append((place.topic, place.partition))
        answer = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer

    def close(self) -> None:
        """Count the call."""
        self.closed += 1


class Admin:
    """Replaces confluent-kafka's AdminClient. Ends are 10 + partition."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        self.ids = dict(ids)
        self.down: KafkaError | None = None
        self.rights: list[AclOperation] = []
        """What the client may do with each topic; empty: the broker does not list it."""

    def describe_topics(
        self,
        topics: TopicCollection,
        request_timeout: float,
        *,
        include_authorized_operations: bool = False,  # noqa: ARG002  # as confluent-kafka names it
    ) -> dict[str, Future[Any]]:
        """Answer for each topic that is asked for; what the client may do is there in any case."""
        assert request_timeout > 0
        return {name: self._described(name) for name in topics.topic_names}

    def list_offsets(
        self, wanted: Mapping[TopicPartition, Any], request_timeout: float
    ) -> dict[TopicPartition, Future[Any]]:
        """Answer for each partition that is asked for."""
        assert request_timeout > 0
        return {place: self._offset(place.partition) for place in wanted}

    def poll(self, _timeout: float) -> None:
        """Report nothing."""

    def _described(self, name: str) -> Future[Any]:
        future: Future[Any] = Future()
        missing = None if name in self.ids else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        error = self.down or missing
        if error is not None:
            future.set_exception(KafkaException(error))
        else:
            future.set_result(
                SimpleNamespace(
                    topic_id=self.ids[name], partitions=[], authorized_operations=self.rights
                )
            )
        return future

    def _offset(self, partition: int) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(offset=10 + partition))
        return future


def use_client(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    """Make every reader of topics use this client, with short waits."""

    def consumer(properties: dict[str, Any]) -> Client:
        client.error_cb = properties["error_cb"]
        client.properties = properties
        return client

    monkeypatch.setattr(topic_reader, "Consumer", consumer)
    monkeypatch.setattr(topic_reader, "_RETRY_S", 0.001)
