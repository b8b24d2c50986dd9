"""Follows a topic of a real Kafka from its beginning."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import Consumer, TopicPartition

from tests.support.waiting import DEADLINE_S


class FollowedTopic:
    """Partition 0 of a topic."""

    def __init__(self, bootstrap_servers: str, topic: str, *, silent_s: float) -> None:
        """Follow a topic, which need not be there yet; `silent_s`: without a message for so long, a poll ends."""
        self._topic = topic
        self._silent_s = silent_s
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )
        self._offset = 0
        self._is_assigned = False

    def poll(self) -> Iterator[bytes]:
        """Yield the values that have come since the last poll.

        An answer may take longer than one poll: only after an error, such as of a topic that is not there yet, is
        Kafka asked anew, which drops what is on its way.
        """
        if not self._is_assigned:
            self._consumer.assign([TopicPartition(self._topic, 0, self._offset)])
            self._is_assigned = True
        while (message := self._consumer.poll(self._silent_s)) is not None:
            if message.error() is not None:
                self._is_assigned = False
                break
            self._offset = (message.offset() or 0) + 1
            yield message.value() or b""

    def end(self) -> int:
        """Ask Kafka for the offset that follows the last message."""
        topic = TopicPartition(self._topic, 0)
        _low, end = self._consumer.get_watermark_offsets(topic, timeout=DEADLINE_S)
        return int(end)

    def has_read(self, end: int) -> bool:
        """Return whether all messages before this offset have been read."""
        return self._offset >= end

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()
