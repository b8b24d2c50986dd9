"""Publishes changes to the log: batched, in order, each once, within a bound.

The rule: the log has the order of the calls of `add`. A source gives each record as bytes with its
position; nothing here reads the bytes. An idempotent producer keeps that order over retries. Only when Kafka reports the topic as missing for a moment (`MissingTopic`) does another one
send again, in order, what was not acknowledged. Some of it may then be in the log twice, which
readers notice by its position. The producer is given few messages at a time and the rest waits
here, so that everything that waits can be dropped and counted at once while the pipeline's Kafka is
away. The seqs show such a hole, and a resync repairs it. While a message is in flight, the next one
is filled: in a storm a few messages carry many changes. Bounds: the settings' bytes and changes
here, and `MAX_BYTES_IN_FLIGHT` in the producer. What is in the producer is never dropped: it is
sent when Kafka is back, before anything newer.

Pace: each message makes the fold run a batch, which costs about as much for one change as for a hundred. So a
message that holds only changes that may wait follows the message before it no sooner than `linger_ms`, unless it
is full. After as long without a message, such a change is sent at once. One that may not wait goes at once, and
takes with it everything that waits.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from controller_model.kafka.ids import NOWHERE, Position, partition_of
from controller_model.records.changes import (
    MAX_CHANGES_PER_MESSAGE,
    MAX_MESSAGE_BYTES,
    join_changes,
)
from pipeline.kafka_errors import MISSING_S, ReadTrouble, trouble_of
from pipeline.topics import MAX_MESSAGE_BYTES as LARGEST_MESSAGE_BYTES
from pipeline.topics import EnsuredTopics, client_properties
from source_log.config import SourceSettings

MAX_MESSAGES_IN_FLIGHT = 32
"""Messages in the producer at a time: Kafka acknowledges one in about 2 ms."""

MAX_BYTES_IN_FLIGHT = 4 * 1024 * 1024
"""Bytes in the producer at a time, except that one larger message may be there alone."""

_FRAMING_BYTES = 1
"""One comma or bracket for each change."""

DELIVERY_WAIT_MS = 5
"""How long the source's main loop may do nothing else while Kafka is to acknowledge a message, or to be given one."""


class _Waiting(NamedTuple):
    """A change as it is published."""

    data: bytes
    position: Position
    happened_ms: int | None
    """When it happened, in ms since 1970 by its source's clock; None: it is no news."""


class _Message(NamedTuple):
    """A message in the producer."""

    last: Position
    """The position of its newest change."""
    changes: int
    data: bytes


class Failure(NamedTuple):
    """How many changes Kafka did not accept, and why. After a failure the producer cannot be used."""

    changes: int
    reason: str


class Publisher:
    """Appends to the log of one cluster."""

    def __init__(
        self,
        settings: SourceSettings,
        topics: EnsuredTopics,
        open_producer: Callable[[dict[str, Any]], Producer] | None = None,
    ) -> None:
        """Open the producer: a client of Kafka, or what `open_producer` returns for the properties of one."""
        self._open = open_producer or Producer
        self._properties: dict[str, Any] = {
            **client_properties(settings),
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
            # 0 means for ever: the publisher decides what to drop, and counts it.
            "message.timeout.ms": 0,
            "message.max.bytes": LARGEST_MESSAGE_BYTES,
            # How long a new producer waits for a topic that Kafka reports as missing.
            "topic.metadata.propagation.max.ms": int(MISSING_S * 1000),
            "compression.type": "lz4",
            "socket.nagle.disable": True,
            "error_cb": self._on_error,
        }
        self._topic = topics.names.changes
        self._partition = partition_of(settings.cluster, topics.partitions)
        self._key = settings.cluster.encode()
        self._most_bytes = int(settings.buffer_mib * 1024 * 1024)
        self._most_changes = settings.buffer_changes
        self._linger_ms = settings.linger_ms
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._urgent = 0
        """How many changes wait up to the last one that may not wait."""
        self._sent_ms: int | None = None
        """When the producer was given the newest message, in ms of the steady clock."""
        self._in_flight: deque[_Message] = deque()
        """The messages in the current producer."""
        self._failure: Failure | None = None
        self._is_missing = False
        """Kafka has reported the topic as missing: nothing more is given to this producer."""
        self._was_replaced = False
        """The producer replaces another one, and Kafka has acknowledged nothing since."""
        self._producer = self._open(self._properties)
        self.acknowledged = NOWHERE
        """The position of the newest change that Kafka has acknowledged."""
        self.bytes_published = 0

    @property
    def waiting(self) -> int:
        """Changes that are not in the producer yet."""
        return len(self._waiting)

    @property
    def bytes_held(self) -> int:
        """Bytes of changes that Kafka has not acknowledged."""
        return self._waiting_bytes + self._bytes_in_flight

    @property
    def _bytes_in_flight(self) -> int:
        return sum(len(message.data) for message in self._in_flight)

    @property
    def has_room(self) -> bool:
        """Whether a walk of the tree may continue: it may fill half of the bound, the rest is for live changes."""
        return (
            self._waiting_bytes < self._most_bytes // 2
            and len(self._waiting) < self._most_changes // 2
        )

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is in flight."""
        return not self._waiting and not self._in_flight

    def add(
        self,
        data: bytes,
        position: Position,
        *,
        may_wait: bool = False,
        happened_ms: int | None = None,
    ) -> None:
        """Append an encoded change of at most `MAX_CHANGE_BYTES`; `pump` sends it.

        `may_wait`: readers need not have it at once. `happened_ms`: see `pump`.
        """
        self._waiting.append(_Waiting(data, position, happened_ms))
        self._waiting_bytes += len(data) + _FRAMING_BYTES
        if not may_wait:
            self.hurry()

    def hurry(self) -> None:
        """Let nothing of what waits now wait any longer."""
        self._urgent = len(self._waiting)

    def wait_ms(self, now_ms: int, most_ms: int) -> int:
        """Return for how many ms nothing needs doing here: at most `most_ms`, which it is while nothing waits."""
        if self.idle:
            return most_ms
        is_lingering = not self._in_flight and not self._urgent
        lingers_ms = self._lingers_ms(now_ms) if is_lingering else 0
        return min(most_ms, max(DELIVERY_WAIT_MS, lingers_ms))

    def pump(self, now_ms: int, *, to_the_end: bool = False) -> list[int]:
        """Give waiting changes to the producer while it has few: full messages, or one at a time.

        Return when those of them happened that are news (`add`). `now_ms` is of the steady clock. `to_the_end`:
        nothing more will be added that could fill the last message.
        """
        news: list[int] = []
        while self._waiting and self._may_send(now_ms, to_the_end=to_the_end):
            changes: list[bytes] = []
            size = 0
            while self._waiting and len(changes) < MAX_CHANGES_PER_MESSAGE:
                length = len(self._waiting[0].data) + _FRAMING_BYTES
                if changes and size + length > MAX_MESSAGE_BYTES:
                    break
                data, last, happened_ms = self._waiting.popleft()
                changes.append(data)
                size += length
                if happened_ms is not None:
                    news.append(happened_ms)
            self._waiting_bytes -= size
            self._urgent = max(0, self._urgent - len(changes))
            self._sent_ms = now_ms
            message = _Message(last, len(changes), join_changes(changes))
            self._in_flight.append(message)
            self._produce(message)
        return news

    def overflowing(self) -> bool:
        """Return whether more waits than the settings allow."""
        return self._waiting_bytes > self._most_bytes or len(self._waiting) > self._most_changes

    def drop_waiting(self) -> int:
        """Drop what waits; return the number of dropped changes."""
        dropped = len(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = self._urgent = 0
        return dropped

    def poll(self) -> Failure | None:
        """Serve the producer's callbacks; return the failure, None if there is none."""
        self._producer.poll(0)
        if self._is_missing and self._failure is None:
            self._replace_producer()
        return self._failure

    def abandon(self) -> None:
        """Drop all that waits; what the producer has sent may still reach the log."""
        self.drop_waiting()
        self._producer.purge()
        self._producer.flush(0)

    def close(self, timeout_s: float) -> bool:
        """Send all that waits; return whether Kafka acknowledged everything in time."""
        self.pump(0, to_the_end=True)
        self._producer.flush(timeout_s)
        clean = self.idle
        self._producer.purge()
        self._producer.flush(0)
        return clean

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fail(1, error.str())

    def _lingers_ms(self, now_ms: int) -> int:
        """Return how long what may wait has yet to wait for company."""
        if self._sent_ms is None:
            return 0
        return max(0, self._sent_ms + self._linger_ms - now_ms)

    def _may_send(self, now_ms: int, *, to_the_end: bool) -> bool:
        is_due = (
            to_the_end
            or (not self._in_flight and (self._urgent > 0 or not self._lingers_ms(now_ms)))
            or len(self._waiting) >= MAX_CHANGES_PER_MESSAGE
            or self._waiting_bytes >= MAX_MESSAGE_BYTES
            or not self.has_room
        )
        return (
            is_due
            and not self._is_missing
            and self._failure is None
            and len(self._in_flight) < MAX_MESSAGES_IN_FLIGHT
            and self._bytes_in_flight < MAX_BYTES_IN_FLIGHT
        )

    def _produce(self, message: _Message) -> None:
        try:
            self._producer.produce(
                self._topic,
                value=message.data,
                key=self._key,
                partition=self._partition,
                on_delivery=partial(self._on_delivery, self._in_flight, message),
            )
        except BufferError as error:
            self._fail(message.changes, str(error))
        except KafkaException as error:
            self._on_refusal(message, error.args[0])

    def _on_delivery(
        self, in_flight: deque[_Message], message: _Message, error: KafkaError | None, _: Message
    ) -> None:
        if in_flight is not self._in_flight:
            return  # another producer sends the message again
        if error is not None:
            self._on_refusal(message, error)
            return
        self._in_flight.remove(message)
        self._was_replaced = False
        self.bytes_published += len(message.data)
        self.acknowledged = max(self.acknowledged, message.last)

    def _on_refusal(self, message: _Message, error: KafkaError) -> None:
        if trouble_of(error) is ReadTrouble.MISSING and not self._was_replaced:
            self._is_missing = True
        else:
            self._fail(message.changes, error.str())

    def _replace_producer(self) -> None:
        """Give all that is not acknowledged to a new producer, in order."""
        self._producer.purge()
        self._producer = self._open(self._properties)
        self._in_flight = self._in_flight.copy()
        self._is_missing, self._was_replaced = False, True
        for message in self._in_flight:
            if self._failure is None:
                self._produce(message)

    def _fail(self, changes: int, reason: str) -> None:
        before = self._failure.changes if self._failure else 0
        self._failure = Failure(before + changes, reason)
