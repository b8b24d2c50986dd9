"""Replacements for confluent-kafka's clients, and for threads: the real publisher and readers use them.

The rule: they answer as a broker does (in order, late, not at all), and decide nothing. The clock
calls a turn in place of each thread of a part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from pipeline.topic_records import Place
from tests.support import kafka_client

if TYPE_CHECKING:
    from tests.simulation.edge import Edge
    from tests.simulation.topic import Stored
    from tests.simulation.world import World

OnDelivery = Callable[[KafkaError | None, Any], None]

_END = KafkaError._PARTITION_EOF
_CUT = KafkaError._AUTO_OFFSET_RESET
_LATE = KafkaError._MSG_TIMED_OUT
_AWAY = KafkaError._TRANSPORT
_MISSING = KafkaError.UNKNOWN_TOPIC_OR_PART
_NO_TOPIC = KafkaError._UNKNOWN_TOPIC
_NO_PARTITION = KafkaError._UNKNOWN_PARTITION


class _Given(NamedTuple):
    """A message that was passed to a producer."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    on_delivery: OnDelivery


class Producer:
    """Replaces the Producer of one watcher: it appends to the topics in order, each message with a delay."""

    def __init__(self, world: World, edge: Edge, properties: Mapping[str, Any]) -> None:
        self._world = world
        self._edge = edge
        self._gives_up_ms: int = properties["message.timeout.ms"]
        self._lost_topic = False
        self._given: deque[_Given] = deque()
        self._delivered: deque[tuple[OnDelivery, KafkaError | None]] = deque()
        self._next_at = 0

    def produce(
        self, topic: str, *, value: bytes, key: bytes, partition: int, on_delivery: OnDelivery
    ) -> None:
        """Take a message; not while Kafka says that the topic is missing, which it did not before."""
        world = self._world
        self._lost_topic = self._lost_topic and world.topics_unknown
        if self._lost_topic:
            raise KafkaException(KafkaError(_NO_TOPIC))
        given = _Given(topic, partition, key, value, on_delivery)
        self._given.append(given)
        self._next_at = max(self._next_at, world.clock.now + world.rng.choice((1, 2, 5, 40)))
        world.clock.at(self._next_at, self.send_next)
        if self._gives_up_ms:
            world.clock.after(self._gives_up_ms, lambda: self._give_up(given))

    def send_next(self) -> None:
        """Make Kafka accept the oldest message, unless it is down or the process is stopped."""
        world, edge = self._world, self._edge
        if not self._given or not edge.alive or edge.paused or world.topics_unknown:
            return
        back_at = self._back_at
        if back_at > world.clock.now:
            world.clock.at(back_at + 1, self.send_next)
            return
        self._append(self._given.popleft())
        if self._given:
            world.clock.after(1, self.send_next)
        edge.wake(0)

    @property
    def _back_at(self) -> int:
        """When Kafka accepts the oldest message again."""
        world = self._world
        of_log = bool(self._given) and self._given[0].topic == world.log.name
        return max(world.kafka_away_until, world.log_away_until if of_log else 0)

    def _append(self, given: _Given) -> None:
        world = self._world
        if given.topic == world.log.name:
            world.append_change(given.value or b"")
        else:
            world.at((given.topic, given.partition)).append(world.clock.now, given.key, given.value)
        self._delivered.append((given.on_delivery, None))

    def _give_up(self, given: _Given) -> None:
        if given in self._given:
            self._given.remove(given)
            self._delivered.append((given.on_delivery, KafkaError(_LATE)))
            self._edge.wake(0)

    def lose_topic(self) -> None:
        """Fail all messages: Kafka's metadata say that the topic is missing."""
        self._lost_topic = True
        while self._given:
            self._delivered.append((self._given.popleft().on_delivery, KafkaError(_NO_PARTITION)))
        self._edge.wake(0)

    def poll(self, _timeout_s: float) -> None:
        """Report deliveries."""
        while self._delivered:
            on_delivery, error = self._delivered.popleft()
            on_delivery(error, None)

    def flush(self, timeout_s: float) -> None:
        """Deliver the rest, if there is time and Kafka accepts it."""
        world = self._world
        is_reached = self._back_at <= world.clock.now and not world.topics_unknown
        while timeout_s and self._given and is_reached:
            self._append(self._given.popleft())
        self.poll(0)

    def purge(self) -> None:
        """Drop what was not sent."""
        self._given.clear()


class Message(kafka_client.Message):
    """A record, or an error of a partition, without an epoch: truncation is simulated by a notice (`_CUT`)."""

    def __init__(self, place: Place, stored: Stored | None, code: int | None = None) -> None:
        if stored is None:
            super().__init__(place, None, key=None, value=None, timestamp=0)
        else:
            key, value, at = stored.key, stored.value, stored.timestamp
            super().__init__(place, stored.offset, key=key, value=value, timestamp=at)
        self._error = None if code is None else KafkaError(code)


class End(Message):
    """The end of a partition, which has the offset of the next record."""

    def __init__(self, place: Place, offset: int) -> None:
        super().__init__(place, None, _END)
        self._offset = offset


class Consumer:
    """Replaces a Consumer that stops at an offset that is out of range, or whose records were truncated.

    It detects truncation by leader epochs (KIP-320), for records that this consumer has read.
    """

    def __init__(self, world: World, properties: Mapping[str, Any]) -> None:
        self._world = world
        self._is_exporter = properties["group.id"].endswith("exporter")
        self._next: dict[Place, int] = {}
        self._at_end: set[Place] = set()
        self._cut: set[Place] = set()
        self._missing: set[Place] = set()
        self._epochs: dict[Place, int] = {}
        self._ready: deque[Message] = deque()

    def assign(self, places: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no others."""
        self._ready.clear()
        self._at_end.clear()
        self._cut.clear()
        self._missing.clear()
        self._next = {
            (each.topic, each.partition): self._world.at((each.topic, each.partition)).low
            if each.offset == OFFSET_BEGINNING
            else each.offset
            for each in places
        }
        self._epochs = {place: len(self._world.at(place).cuts) for place in self._next}

    def poll(self, _timeout_s: float) -> Message | None:
        """Return the next message; None when there is none."""
        away = self._is_exporter and self._world.exporter.is_cut_off
        if not self._ready and not away:
            for place in self._next:
                self._fetch(place)
        return self._ready.popleft() if self._ready else None

    def consume(self, most: int, timeout: float) -> list[Message]:
        """Return what arrived with it."""
        assert timeout == 0
        return [self._ready.popleft() for _ in range(min(most, len(self._ready)))]

    def _fetch(self, place: Place) -> None:
        topic, offset = self._world.at(place), self._next[place]
        if place in self._cut:
            return
        if self._world.topics_unknown:
            if place not in self._missing:
                self._missing.add(place)
                self._ready.append(Message(place, None, _MISSING))
            return
        self._missing.discard(place)
        is_cut_off = any(end < offset for end in topic.cuts[self._epochs[place] :])
        self._epochs[place] = len(topic.cuts)
        if is_cut_off or not topic.low <= offset <= topic.end:
            self._cut.add(place)
            self._ready.append(Message(place, None, _CUT))
            return
        records = topic.read(offset, self._world.rng.choice((1, 5, 500)))
        self._ready.extend(Message(place, record) for record in records)
        if records:
            self._next[place] = records[-1].offset + 1
            self._at_end.discard(place)
        elif offset < topic.end or place not in self._at_end:
            self._next[place] = topic.end
            self._at_end.add(place)
            self._ready.append(End(place, topic.end))

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        """Return the first and the end offset of a partition."""
        assert timeout > 0
        if self._world.topics_unknown:
            raise KafkaException(KafkaError(_MISSING))
        if place.partition >= self._world.stage.topics.partitions:
            raise KafkaException(KafkaError(_NO_PARTITION))
        topic = self._world.at((place.topic, place.partition))
        return topic.low, topic.end

    def list_topics(self, topic: str, timeout: float) -> Any:
        """Return the partitions of a topic."""
        assert timeout > 0
        partitions = range(self._world.stage.topics.partitions)
        described = SimpleNamespace(error=None, partitions=dict.fromkeys(partitions))
        return SimpleNamespace(topics={topic: described})

    def close(self) -> None:
        """End the client."""


class Admin:
    """Replaces the exporter's AdminClient."""

    def __init__(self, world: World) -> None:
        self._world = world

    def describe_topics(
        self, topics: TopicCollection, request_timeout: float
    ) -> dict[str, Future[Any]]:
        """Answer with the id and the partitions of each topic."""
        assert request_timeout > 0
        partitions = [None] * self._world.stage.topics.partitions
        return {
            name: self._answer(
                SimpleNamespace(topic_id=self._world.topics[name].id, partitions=partitions)
            )
            for name in topics.topic_names
        }

    def list_offsets(
        self, wanted: Mapping[TopicPartition, OffsetSpec], request_timeout: float
    ) -> dict[TopicPartition, Future[Any]]:
        """Answer with the end of each partition."""
        assert request_timeout > 0
        found = {}
        for place in wanted:
            topic = self._world.at((place.topic, place.partition))
            found[place] = self._answer(SimpleNamespace(offset=topic.end))
        return found

    @property
    def _is_cut_off(self) -> bool:
        return self._world.exporter.is_cut_off

    def _answer(self, answer: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self._is_cut_off:
            future.set_exception(KafkaException(KafkaError(_AWAY)))
        elif self._world.topics_unknown:
            future.set_exception(KafkaException(KafkaError(_MISSING)))
        else:
            future.set_result(answer)
        return future


class Thread:
    """Replaces a SupervisedThread: the clock calls its turns."""

    def __init__(self, name: str, turn: Callable[[], None], *, every_s: float = 0.0) -> None:
        self.name = name
        self.every_s = every_s
        self.closed = False
        self.started = False
        self._turn = turn
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Allow turns."""
        self.started = True

    def poll(self) -> None:
        """Run one turn, if it has not ended."""
        if not self.started or self.closed or self._failure is not None:
            return
        try:
            self._turn()
        except BaseException as error:  # noqa: BLE001  # the owner raises it
            self._failure = error

    def check(self) -> None:
        """Raise the error that ended it."""
        if self._failure is not None:
            raise self._failure

    def close(self, _wait_s: float) -> None:
        """Allow no more turns."""
        self.closed = True
