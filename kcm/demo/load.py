"""Load: a producer that writes to every partition all the time, whatever happens to the brokers.

A follower leaves the ISR only while there are records that it has not fetched, so the story needs
writes everywhere. Records for a dead broker are lost; nobody reads them.
"""

import threading

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kcm.servers.kafka import QUIET_LIBRDKAFKA

ROUND_S = 0.1  # each partition gets a record in each round: several within the allowed lag
VALUE = b"x" * 100
MESSAGE_TIMEOUT_MS = 2000  # records for dead brokers are given up, not kept
STOP_DEADLINE_S = 3.0


class Load:
    """A background producer; `delivered` and `failed` count its records."""

    def __init__(self, bootstrap_servers: str) -> None:
        """Configure the producer; the first `write_to` starts it."""
        self.delivered = 0
        self.failed = 0
        self._bootstrap_servers = bootstrap_servers
        self._topics: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def write_to(self, topic: str, partitions: int) -> None:
        """Write to this topic as well."""
        self._topics = {**self._topics, topic: partitions}
        if not self._thread.is_alive() and not self._stop.is_set():
            self._thread.start()

    def close(self) -> None:
        """Stop writing and drop what was not delivered."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(STOP_DEADLINE_S)

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "acks": 1,
                "linger.ms": 5,
                "message.timeout.ms": MESSAGE_TIMEOUT_MS,
                "socket.timeout.ms": MESSAGE_TIMEOUT_MS,
                "request.timeout.ms": MESSAGE_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 1000,
                **QUIET_LIBRDKAFKA,
            }
        )
        while not self._stop.wait(ROUND_S):
            for topic, partitions in self._topics.items():
                for partition in range(partitions):
                    self._write(producer, topic, partition)
            producer.poll(0)
        producer.purge()

    def _write(self, producer: Producer, topic: str, partition: int) -> None:
        try:
            producer.produce(topic, VALUE, partition=partition, on_delivery=self._on_delivery)
        except (BufferError, KafkaException):  # a full queue; a partition not yet known
            self.failed += 1

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1
