"""Changes are published in order, within bounds, and what Kafka does not accept is counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from controller_model.kafka.ids import Position, partition_of
from controller_model.records.changes import (
    MAX_CHANGES_PER_MESSAGE,
    MAX_MESSAGE_BYTES,
    VERSION,
    ChangeKind,
    ZnodeChange,
    decode_message,
    encode_change,
)
from pipeline.kafka_errors import MISSING_S
from pipeline.settings import load
from pipeline.topics import MAX_MESSAGE_BYTES as LARGEST_MESSAGE_BYTES
from pipeline.topics import EnsuredTopics, topic_names
from source_log import publisher
from source_log.config import SourceSettings
from source_log.publisher import MAX_BYTES_IN_FLIGHT, MAX_MESSAGES_IN_FLIGHT, Failure, Publisher
from tests.support.producer import AnsweredProducer

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 50, dict.fromkeys(NAMES, "id"))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> list[AnsweredProducer]:
    """The producers that were created."""
    made: list[AnsweredProducer] = []

    def make(properties: dict[str, Any]) -> AnsweredProducer:
        made.append(AnsweredProducer(properties))
        return made[-1]

    monkeypatch.setattr(publisher, "Producer", make)
    return made


def publisher_of(**settings: Any) -> Publisher:
    """Return the publisher of cluster `prod`."""
    return Publisher(load(SourceSettings, cluster="prod", **settings), TOPICS)


def change(seq: int, data: str = "{}") -> ZnodeChange:
    """Return a change of one znode."""
    return ZnodeChange(
        v=VERSION,
        cluster="prod",
        generation=1,
        watcher="a",
        seq=seq,
        kind=ChangeKind.SET,
        path="/controller",
        data=data,
        observed_at=1,
    )


def add(publishing: Publisher, change: ZnodeChange) -> None:
    """Append a change, as a source does."""
    publishing.add(encode_change(change), change.position)


def sent(broker: AnsweredProducer) -> list[int]:
    """Return the seqs that the producer was given, in their order."""
    return [each.seq for message in broker.taken for each in decode_message(message).changes]


@pytest.mark.parametrize(
    ("data", "each", "messages"),
    [
        ("{}", MAX_CHANGES_PER_MESSAGE, MAX_MESSAGES_IN_FLIGHT),
        ("x" * (MAX_BYTES_IN_FLIGHT // 4), 1, 4),
    ],
    ids=["messages", "bytes"],
)
def test_the_producer_has_a_bounded_number_of_changes(
    brokers: list[AnsweredProducer], data: str, each: int, messages: int
) -> None:
    """The rest waits here, where it can be dropped, and is sent in order."""
    publishing = publisher_of()
    end = each * (messages + 1)
    for seq in range(end):
        add(publishing, change(seq, data))
    publishing.pump(0)
    assert sent(brokers[0]) == list(range(each * messages))
    brokers[0].answer()
    publishing.pump(0, to_the_end=True)
    brokers[0].answer()
    assert sent(brokers[0]) == list(range(end))
    assert (publishing.idle, publishing.acknowledged) == (True, (1, end - 1))
    assert publishing.bytes_published == sum(map(len, brokers[0].taken))


@pytest.mark.parametrize("data", ["{}", "x" * 2_000], ids=["changes", "bytes"])
def test_a_full_message_is_sent_without_waiting_for_an_acknowledgement(
    brokers: list[AnsweredProducer], data: str
) -> None:
    """By the number of its changes, or by its bytes; the rest waits again."""
    publishing = publisher_of()
    (broker,) = brokers
    for seq in range(MAX_CHANGES_PER_MESSAGE + 2):
        add(publishing, change(seq, data))
        publishing.pump(0)
    first, *full = (decode_message(message).changes for message in broker.taken)
    assert len(first) == 1
    fits = MAX_MESSAGE_BYTES // (len(encode_change(change(100, data))) + 1)
    assert full
    assert all(len(changes) in {MAX_CHANGES_PER_MESSAGE, fits, fits + 1} for changes in full)
    assert 0 < publishing.waiting < min(MAX_CHANGES_PER_MESSAGE, fits)


def test_the_producer_is_idempotent_and_no_message_times_out(
    brokers: list[AnsweredProducer],
) -> None:
    """Only the watcher drops changes, and it counts them. The client knows each of these properties."""
    publishing = publisher_of()
    (broker,) = brokers
    wanted = {
        "enable.idempotence": True,
        "acks": "all",
        "message.timeout.ms": 0,
        "linger.ms": 0,
        "socket.nagle.disable": True,
        "message.max.bytes": LARGEST_MESSAGE_BYTES,
        "topic.metadata.propagation.max.ms": 10_000,
        "compression.type": "lz4",
    }
    assert broker.properties.items() >= wanted.items()
    Producer(broker.properties)
    add(publishing, change(1))
    publishing.pump(0)
    assert broker.places == [("kcm.changes", b"prod", partition_of("prod", 50))]


def test_a_full_buffer_has_no_room_and_can_be_dropped(brokers: list[AnsweredProducer]) -> None:
    """A walk stops at half of it. Beyond the bound, everything that waits is dropped and counted."""
    publishing = publisher_of(buffer_changes=4)
    assert brokers
    for seq in range(2):
        add(publishing, change(seq))
    assert not publishing.has_room
    for seq in range(3):
        assert not publishing.overflowing()
        add(publishing, change(seq))
    assert publishing.overflowing()
    assert publishing.drop_waiting() == 5
    assert (publishing.idle, publishing.bytes_held, publishing.has_room) == (True, 0, True)


@pytest.mark.usefixtures("brokers")
def test_the_bound_of_the_buffer_is_in_bytes_too() -> None:
    """In MiB, with a byte for each change, which separates it from the next one."""
    publishing = publisher_of(buffer_mib=1)
    publishing.add(bytes(1024 * 1024 - 1), Position(1, 1))
    assert not publishing.overflowing()
    publishing.add(b"", Position(1, 2))
    assert publishing.overflowing()


@pytest.mark.parametrize("more", [0, 1])
def test_a_message_is_full_at_its_number_of_bytes(
    brokers: list[AnsweredProducer], more: int
) -> None:
    """A change that still fits is in it; one that is a byte too long begins the next one."""
    publishing = publisher_of()
    for seq, size in enumerate((MAX_MESSAGE_BYTES // 2, MAX_MESSAGE_BYTES // 2 + more)):
        publishing.add(bytes(size - 1), Position(1, seq))
    publishing.pump(0, to_the_end=True)
    assert len(brokers[0].taken) == 1 + more


def test_changes_that_kafka_refuses_are_counted(brokers: list[AnsweredProducer]) -> None:
    """All changes of the refused messages count, with the newest reason; a fatal error counts as one."""
    publishing = publisher_of()
    for seq in range(3):
        add(publishing, change(seq))
    publishing.pump(0)
    assert publishing.poll() is None
    brokers[0].answer(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed"))
    assert publishing.poll() == Failure(3, "not allowed")
    passing = SimpleNamespace(fatal=lambda: False, str=lambda: "down")
    brokers[0].on_error(passing)
    fatal = SimpleNamespace(fatal=lambda: True, str=lambda: "fenced")
    brokers[0].on_error(fatal)
    assert publishing.poll() == Failure(4, "fenced")


@pytest.mark.parametrize(
    "refusal",
    [
        BufferError("the queue is full"),
        KafkaException(KafkaError(KafkaError._QUEUE_FULL, "the queue is full")),
    ],
)
def test_a_change_that_the_producer_does_not_take_is_a_failure(
    brokers: list[AnsweredProducer], refusal: Exception
) -> None:
    """It has left the queue, so it is counted, and nothing is handed over right after it."""
    publishing = publisher_of()
    brokers[0].refuses = refusal
    for seq in range(MAX_CHANGES_PER_MESSAGE + 1):
        add(publishing, change(seq))
    publishing.pump(0)
    assert publishing.poll() == Failure(MAX_CHANGES_PER_MESSAGE, "the queue is full")
    assert publishing.waiting == 1


@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION])
def test_a_topic_that_is_missing_for_a_moment_loses_nothing(
    brokers: list[AnsweredProducer], code: int
) -> None:
    """A broker that has just started does not know its topics: another producer sends the rest, in order."""
    publishing = publisher_of()
    for seq in range(3 * MAX_CHANGES_PER_MESSAGE):
        add(publishing, change(seq))
    publishing.pump(0)
    old = brokers[0]
    old.open.pop(0)(None, None)
    late, *refused = old.open
    refused[0](KafkaError(code), None)
    old.refuses = KafkaException(KafkaError(code))
    add(publishing, change(3 * MAX_CHANGES_PER_MESSAGE))
    publishing.pump(0, to_the_end=True)
    assert publishing.poll() is None
    assert (old.purged, len(old.taken), len(brokers)) == (True, 3, 2)
    for error in (KafkaError(KafkaError._PURGE_INFLIGHT), None):
        late(error, None)  # of the old producer: the new one has the message
    assert publishing.poll() is None
    assert publishing.acknowledged.seq == MAX_CHANGES_PER_MESSAGE - 1
    publishing.pump(0, to_the_end=True)
    assert sent(brokers[1]) == list(range(MAX_CHANGES_PER_MESSAGE, 3 * MAX_CHANGES_PER_MESSAGE + 1))
    brokers[1].answer()
    assert publishing.idle
    assert publishing.acknowledged.seq == 3 * MAX_CHANGES_PER_MESSAGE
    assert publishing.poll() is None


def test_a_topic_that_stays_missing_is_a_failure(brokers: list[AnsweredProducer]) -> None:
    """A new producer waits for it for `MISSING_S`; if that fails before anything is acknowledged, it was deleted."""
    publishing = publisher_of()
    missing = KafkaError(KafkaError._UNKNOWN_TOPIC, "unknown topic")
    for seq in range(2):
        add(publishing, change(seq))
        publishing.pump(0)
        brokers[-1].answer(missing)
        assert publishing.poll() is None
        assert brokers[-1].properties["topic.metadata.propagation.max.ms"] == MISSING_S * 1000
        if not seq:
            brokers[-1].answer()
    brokers[-1].answer(missing)
    assert publishing.poll() == Failure(1, "unknown topic")
    assert len(brokers) == 3


def test_what_is_abandoned_is_not_sent(brokers: list[AnsweredProducer]) -> None:
    """Neither what waits nor what the producer still holds: without a valid lease another watcher may write."""
    publishing = publisher_of()
    for seq in (1, 2):
        add(publishing, change(seq))
        publishing.pump(0)
    publishing.abandon()
    assert (sent(brokers[0]), publishing.waiting) == ([1], 0)
    assert (brokers[0].purged, brokers[0].flushed) == (True, [0]), "it does not wait for Kafka"


def test_a_close_is_clean_if_kafka_acknowledges_everything_in_time(
    brokers: list[AnsweredProducer],
) -> None:
    """If Kafka has not acknowledged everything by then, the end is not clean, and the rest is forgotten."""
    publishing = publisher_of()
    for seq in (1, 2):
        add(publishing, change(seq))
        publishing.pump(0)
    assert not publishing.close(1.5)
    assert (sent(brokers[0]), brokers[0].purged) == ([1, 2], True)
    assert brokers[0].flushed == [1.5, 0], "after the purge there is nothing to wait for"
    brokers[0].answer()
    assert publishing.close(1.5)
