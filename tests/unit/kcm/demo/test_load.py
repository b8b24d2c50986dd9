"""The demo's load: every partition gets records, also while its brokers fail."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kcm.demo import load
from kcm.demo.load import Load
from tests.support.waiting import wait_until


class FakeProducer:
    """A producer whose records are delivered, or fail, at the next poll."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.written: Counter[tuple[str, int]] = Counter()
        self.refuses: dict[str, Exception] = {}
        """By topic, the error that a write to it raises."""
        self.errors: dict[str, KafkaError] = {}
        """By topic, the result of the delivery."""
        self.purged = 0
        self._waiting: list[tuple[Callable[..., None], KafkaError | None]] = []

    def produce(
        self, topic: str, value: bytes, *, partition: int, on_delivery: Callable[..., None]
    ) -> None:
        """Take a record."""
        assert value
        if topic in self.refuses:
            raise self.refuses[topic]
        self.written[topic, partition] += 1
        self._waiting.append((on_delivery, self.errors.get(topic)))

    def poll(self, timeout: float) -> None:
        """Report the deliveries."""
        assert timeout == 0
        waiting, self._waiting = self._waiting, []
        for on_delivery, error in waiting:
            on_delivery(error, None)

    def purge(self) -> None:
        """Drop what was not delivered."""
        self.purged += 1


class Bench:
    """A load, and the producer that it creates once it runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[FakeProducer] = []
        self.refuses: dict[str, Exception] = {}
        self.errors: dict[str, KafkaError] = {}

        def make(config: dict[str, Any]) -> FakeProducer:
            producer = FakeProducer(config)
            producer.refuses, producer.errors = self.refuses, self.errors
            self.made.append(producer)
            return producer

        monkeypatch.setattr(load, "Producer", make)
        monkeypatch.setattr(load, "ROUND_S", 0.002)
        self.load = Load("k1:9092,k2:9092")

    def wait_for(self, *partitions: tuple[str, int], more: int = 2) -> FakeProducer:
        """Wait until each partition has got this number of additional records."""
        wait_until(lambda: self.made)
        (producer,) = self.made
        before = Counter(producer.written)
        wait_until(
            lambda: min(producer.written[each] - before[each] for each in partitions),
            lambda least: least >= more,
        )
        return producer


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A load without a topic to write to."""
    made = Bench(monkeypatch)
    yield made
    made.load.close()


def test_every_partition_is_written_to_again_and_again(bench: Bench) -> None:
    """Each topic is written to once it is named; one producer serves all."""
    assert bench.made == []
    bench.load.write_to("a", 2)
    producer = bench.wait_for(("a", 0), ("a", 1))
    assert producer.config["bootstrap.servers"] == "k1:9092,k2:9092"
    assert producer.config["message.timeout.ms"] == load.MESSAGE_TIMEOUT_MS
    bench.load.write_to("b", 1)
    bench.wait_for(("a", 0), ("a", 1), ("b", 0))
    assert set(producer.written) == {("a", 0), ("a", 1), ("b", 0)}
    assert bench.load.failed == 0
    assert 0 < bench.load.delivered <= sum(producer.written.values())


@pytest.mark.parametrize(
    "error", [BufferError(), KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))]
)
def test_failed_writes_are_counted_and_other_partitions_are_written(
    error: Exception, bench: Bench
) -> None:
    """A full queue, or a partition that is not known yet, does not stop the load."""
    bench.refuses["a"] = error
    bench.load.write_to("a", 3)
    bench.load.write_to("b", 1)
    bench.wait_for(("b", 0))
    assert bench.load.failed >= 3
    del bench.refuses["a"]
    every = (("a", 0), ("a", 1), ("a", 2), ("b", 0))
    bench.wait_for(*every)
    failed = bench.load.failed
    bench.wait_for(*every)
    assert bench.load.failed == failed


def test_undelivered_records_count_as_failed(bench: Bench) -> None:
    """A dead broker takes nothing; what other brokers take counts as delivered."""
    bench.errors["a"] = KafkaError(KafkaError._MSG_TIMED_OUT)
    bench.load.write_to("a", 1)
    bench.wait_for(("a", 0))
    wait_until(lambda: bench.load.failed)
    assert bench.load.delivered == 0
    bench.load.write_to("b", 1)
    bench.wait_for(("b", 0))
    wait_until(lambda: bench.load.delivered)


def test_a_load_that_is_closed_writes_no_more(bench: Bench) -> None:
    """What was not delivered is dropped, and a topic that is named afterwards starts nothing."""
    bench.load.write_to("a", 1)
    producer = bench.wait_for(("a", 0))
    bench.load.close()
    assert producer.purged == 1
    written = sum(producer.written.values())
    bench.load.write_to("b", 1)
    assert sum(producer.written.values()) == written
    assert not [each for each in threading.enumerate() if each.name == "load"]


def test_a_load_that_never_ran_can_be_closed(bench: Bench) -> None:
    """Nothing starts it afterwards."""
    bench.load.close()
    bench.load.write_to("a", 1)
    assert bench.made == []
