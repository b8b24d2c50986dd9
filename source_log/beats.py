"""Sends the watcher's beats, its signs of life, directly to the exporters: not through log and fold.

The rule: a beat is sent only while the main loop works and the lease is valid. It says how far the
log is, so it need not wait for the log. At most one beat is in flight, and it is given up after
`TIMEOUT_MS`, so none arrives late. Beats have their own producer, so that Kafka's refusal of beats
does not disturb the order of the log. A source completes each beat with what it knows of its
cluster's connection.
"""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from controller_model.kafka.ids import Position, partition_of
from controller_model.records.views import VERSION, WatcherBeat, encode_view, view_key
from pipeline.clock import clock_ms
from pipeline.kafka_errors import ReadTrouble, trouble_of
from pipeline.topics import EnsuredTopics, client_properties
from source_log.config import SourceSettings

TIMEOUT_MS = 2_000
"""A beat that Kafka has not acknowledged after this time is given up."""

DENIED_PAUSE_MS = 10_000
"""Pause between two attempts while Kafka refuses beats: the right may be granted at any time."""

_NO_REFUSAL = {ReadTrouble.AWAY, ReadTrouble.MISSING}
"""A broker that has just started reports topics as missing; one that was deleted ends the watcher's term."""

_MS = 1000


CompleteBeat = Callable[[dict[str, Any]], WatcherBeat]
"""Makes a beat that is due, from the fields that every source's beats have and what the source knows."""


class Beats:
    """Writes the beats of one cluster's watcher."""

    def __init__(
        self,
        settings: SourceSettings,
        topics: EnsuredTopics,
        watcher: str,
        open_producer: Callable[[dict[str, Any]], Producer] | None = None,
    ) -> None:
        """Open the producer: see `Publisher`."""
        self._cluster = settings.cluster
        self._watcher = watcher
        self._topic = topics.names.views
        self._partition = partition_of(settings.cluster, topics.partitions)
        self._every_ms = int(settings.beat_s * _MS)
        self._next_ms = 0
        self._generation = 0
        self._number = 0
        self._in_flight = False
        self.refused = False
        """Kafka refuses beats, so no reader can expect them."""
        self._refusal: str | None = None
        properties: dict[str, Any] = {
            **client_properties(settings),
            "acks": 1,
            "linger.ms": 0,
            "message.timeout.ms": TIMEOUT_MS,
            "socket.nagle.disable": True,
            "error_cb": lambda _: None,  # the log's producer reports problems with Kafka
        }
        self._producer = (open_producer or Producer)(properties)

    def beat(
        self,
        now_ms: int,
        *,
        generation: int,
        acknowledged: Position,
        log_complete_ms: int | None,
        complete: CompleteBeat,
    ) -> None:
        """Send a beat if one is due. `now_ms` is of the steady clock, which nobody sets."""
        self._producer.poll(0)
        if now_ms < self._next_ms or self._in_flight or not generation:
            return
        if self.refused and now_ms < self._next_ms + DENIED_PAUSE_MS:
            return
        self._next_ms = now_ms + self._every_ms
        self._number = self._number + 1 if generation == self._generation else 1
        self._generation = generation
        beat = complete(
            {
                "v": VERSION,
                "cluster": self._cluster,
                "watcher": self._watcher,
                "generation": generation,
                "seq": acknowledged.seq if acknowledged.generation == generation else 0,
                "number": self._number,
                "log_complete_ms": log_complete_ms,
                "sent_at": clock_ms(),
                "sent_steady": now_ms,
            }
        )
        try:
            self._producer.produce(
                self._topic,
                value=encode_view(beat),
                key=view_key(beat).encode(),
                partition=self._partition,
                on_delivery=self._on_delivery,
            )
        except (BufferError, KafkaException):
            return  # the next beat may be accepted
        self._in_flight = True

    def continue_from(self, beat: WatcherBeat) -> None:
        """Go on behind the numbers of another watcher of the same generation: readers take only larger ones."""
        self._generation, self._number = max(
            (self._generation, self._number), (beat.generation, beat.number)
        )

    def pop_refusal(self) -> str | None:
        """Return why Kafka has begun to refuse beats, once for each time; None when it has not."""
        refusal, self._refusal = self._refusal, None
        return refusal

    def close(self) -> None:
        """Stop sending."""
        self._producer.purge()
        self._producer.flush(0)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        self._in_flight = False
        if error is None:
            self.refused = False
        elif trouble_of(error) not in _NO_REFUSAL and not self.refused:
            self.refused = True
            self._refusal = error.str()
