"""Changes are published in order, within bounds, and what Kafka does not accept is counted."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from controller_model.kafka.ids import NOWHERE, partition_of
from controller_model.records.changes import (
    MAX_CHANGE_BYTES,
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
from zk_source.config import WatchSettings
from zk_source.log import publisher
from zk_source.log.publisher import (
    MAX_BYTES_IN_FLIGHT,
    MAX_MESSAGES_IN_FLIGHT,
    Failure,
    Publisher,
)

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 50, dict.fromkeys(NAMES, "id"))


class Broker:
    """A fake of confluent-kafka's Producer: keeps messages until the test acknowledges them."""

    def __init__(self, properties: dict[str, Any]) -> None:
        self.properties = properties
        self.on_error = properties["error_cb"]
        self.taken: list[bytes] = []
        self.refuses: Exception | None = None
        self.open: list[Callable[[KafkaError | None, None], None]] = []
        self.purged = False
        self.flushed: list[float] = []

    def produce(
        self, topic: str, *, value: bytes, key: bytes, partition: int, on_delivery: Any
    ) -> None:
        """Accept a message."""
        assert (topic, key, partition) == ("kcm.changes", b"prod", partition_of("prod", 50))
        if self.refuses is not None:
            raise self.refuses
        self.taken.append(value)
        self.open.append(on_delivery)

    def answer(self, error: KafkaError | None = None) -> None:
        """Acknowledge all messages, or refuse them."""
        for on_delivery in self.open:
            on_delivery(error, None)
        self.open.clear()

    def poll(self, timeout_s: float) -> None:
        """Serve no callback: `answer` does. The main loop must not wait here."""
        assert timeout_s == 0

    def flush(self, timeout_s: float) -> None:
        """Send nothing more."""
        self.flushed.append(timeout_s)

    def purge(self) -> None:
        """Forget the accepted messages."""
        self.purged = True


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> list[Broker]:
    """The producers that were created."""
    made: list[Broker] = []

    def make(properties: dict[str, Any]) -> Broker:
        made.append(Broker(properties))
        return made[-1]

    monkeypatch.setattr(publisher, "Producer", make)
    return made


def publisher_of(**settings: Any) -> Publisher:
    """Return the publisher of cluster `prod`."""
    return Publisher(load(WatchSettings, cluster="prod", **settings), TOPICS)


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


def sent(broker: Broker) -> list[int]:
    """Return the seqs that the producer was given, in their order."""
    return [each.seq for message in broker.taken for each in decode_message(message).changes]


def test_changes_are_sent_in_order_with_few_messages_in_flight(brokers: list[Broker]) -> None:
    """What the producer may not have yet waits, and is sent when other messages are acknowledged."""
    publishing = publisher_of()
    (broker,) = brokers
    most = MAX_MESSAGES_IN_FLIGHT * MAX_CHANGES_PER_MESSAGE
    end = most + MAX_CHANGES_PER_MESSAGE
    for seq in range(end):
        publishing.add(change(seq))
    publishing.pump()
    assert sent(broker) == list(range(most)), "a full one more waits"
    assert (publishing.waiting, publishing.acknowledged) == (MAX_CHANGES_PER_MESSAGE, NOWHERE)
    broker.answer()
    assert publishing.acknowledged == (1, most - 1)
    publishing.pump()
    broker.answer()
    assert sent(broker) == list(range(end))
    assert publishing.idle
    assert publishing.acknowledged == (1, end - 1)
    assert publishing.bytes_held == 0
    assert publishing.bytes_published == sum(map(len, broker.taken))


def test_a_message_is_filled_while_another_is_in_flight(brokers: list[Broker]) -> None:
    """The first message is sent at once; what is added until it is acknowledged is sent together, in order."""
    publishing = publisher_of()
    (broker,) = brokers
    for seq in range(5):
        publishing.add(change(seq))
        publishing.pump()
    assert [len(decode_message(message).changes) for message in broker.taken] == [1]
    broker.answer()
    publishing.pump()
    assert [len(decode_message(message).changes) for message in broker.taken] == [1, 4]
    assert sent(broker) == list(range(5))


@pytest.mark.parametrize("data", ["{}", "x" * 2_000], ids=["changes", "bytes"])
def test_a_full_message_is_sent_without_waiting_for_an_acknowledgement(
    brokers: list[Broker], data: str
) -> None:
    """By the number of its changes, or by its bytes; the rest waits again."""
    publishing = publisher_of()
    (broker,) = brokers
    for seq in range(MAX_CHANGES_PER_MESSAGE + 2):
        publishing.add(change(seq, data))
        publishing.pump()
    first, *full = (decode_message(message).changes for message in broker.taken)
    assert len(first) == 1
    fits = MAX_MESSAGE_BYTES // (len(encode_change(change(100, data))) + 1)
    assert full
    assert all(len(changes) in {MAX_CHANGES_PER_MESSAGE, fits, fits + 1} for changes in full)
    assert 0 < publishing.waiting < min(MAX_CHANGES_PER_MESSAGE, fits)


def test_a_message_is_sent_with_the_change_that_fills_it(brokers: list[Broker]) -> None:
    """It does not wait for another change, which may never be made."""
    publishing = publisher_of()
    for seq in range(1 + MAX_CHANGES_PER_MESSAGE):
        publishing.add(change(seq))
        publishing.pump()
    assert (len(brokers[0].taken), publishing.waiting) == (2, 0)


def test_closing_the_publisher_sends_the_last_changes(brokers: list[Broker]) -> None:
    """No further change will fill their message."""
    publishing = publisher_of()
    for seq in range(3):
        publishing.add(change(seq))
        publishing.pump()
    publishing.close(1.5)
    assert sent(brokers[0]) == [0, 1, 2]


def test_the_producer_is_idempotent_and_no_message_times_out(
    brokers: list[Broker],
) -> None:
    """Only the watcher drops changes, and it counts them. The client knows each of these properties."""
    publisher_of()
    (broker,) = brokers
    assert (
        broker.properties.items()
        >= {
            "enable.idempotence": True,
            "acks": "all",
            "message.timeout.ms": 0,
            "linger.ms": 0,
            "socket.nagle.disable": True,
            "message.max.bytes": LARGEST_MESSAGE_BYTES,
            "topic.metadata.propagation.max.ms": 10_000,
            "compression.type": "lz4",
        }.items()
    )
    Producer(broker.properties)


def test_a_change_that_is_too_large_is_sent_without_its_data(brokers: list[Broker]) -> None:
    """It is counted, and the reader sees that data is missing. The largest change that fits keeps its data."""
    publishing = publisher_of()
    room = MAX_CHANGE_BYTES - len(encode_change(change(1, "")))
    binary = msgspec.structs.replace(change(3), data=None, data_base64="x" * MAX_CHANGE_BYTES)
    for each in (change(1, "x" * room), change(2, "x" * (room + 1)), binary):
        publishing.add(each)
    publishing.pump()
    brokers[0].answer()  # the large one is sent alone
    publishing.pump()
    fits, *omitted = [c for message in brokers[0].taken for c in decode_message(message).changes]
    assert (len(fits.data or ""), fits.data_omitted) == (room, False)
    assert [(c.data, c.data_base64, c.data_omitted) for c in omitted] == [(None, None, True)] * 2
    assert publishing.omitted == 2


def test_a_message_is_filled_to_its_bound(brokers: list[Broker]) -> None:
    """Two changes that fill it exactly are sent together; with one byte more they are sent separately."""
    size = MAX_MESSAGE_BYTES // 2 - 1  # each has one byte of framing
    room = size - len(encode_change(change(1, "")))
    for more, together in ((0, [1, 2]), (1, [1])):
        publishing = publisher_of()
        publishing.add(change(1, "x" * room))
        publishing.add(change(2, "x" * (room + more)))
        publishing.pump()
        assert sent(brokers[-1]) == together


def test_a_full_buffer_has_no_room_and_can_be_dropped(brokers: list[Broker]) -> None:
    """A walk stops at half of it. Beyond the bound, everything that waits is dropped and counted."""
    publishing = publisher_of(buffer_changes=4)
    assert brokers
    for seq in range(2):
        publishing.add(change(seq))
    assert not publishing.has_room
    for seq in range(3):
        assert not publishing.overflowing()
        publishing.add(change(seq))
    assert publishing.overflowing()
    assert publishing.drop_waiting() == 5
    assert (publishing.idle, publishing.bytes_held, publishing.has_room) == (True, 0, True)


def test_the_producer_has_a_bounded_number_of_bytes_in_flight(brokers: list[Broker]) -> None:
    """Large changes wait here, where they can be dropped, until those before them are acknowledged."""
    publishing = publisher_of()
    fits = 4
    assert fits < MAX_MESSAGES_IN_FLIGHT
    for seq in range(fits + 3):
        publishing.add(change(seq, "x" * (MAX_BYTES_IN_FLIGHT // fits)))
    publishing.pump()
    assert sent(brokers[0]) == list(range(fits))
    brokers[0].open.pop(0)(None, None)
    publishing.pump()
    assert sent(brokers[0]) == list(range(fits + 1))


def test_bytes_in_flight_do_not_count_as_an_overflow(brokers: list[Broker]) -> None:
    """It cannot be dropped, so counting it in a smaller bound would drop nothing again and again."""
    publishing = publisher_of(buffer_mib=2)
    size = len(encode_change(change(1, ""))) + 1
    for seq in (1, 2):
        publishing.add(change(seq, "x" * (1024 * 1024 - size)))
    assert not publishing.overflowing(), "it is exactly full"
    publishing.add(change(3))
    assert publishing.overflowing()
    publishing.pump()
    assert not publishing.overflowing()
    assert (sent(brokers[0]), publishing.waiting) == ([1, 2], 1)


def test_changes_that_kafka_refuses_are_counted(brokers: list[Broker]) -> None:
    """All changes of the refused messages count, with the newest reason; a fatal error counts as one."""
    publishing = publisher_of()
    for seq in range(3):
        publishing.add(change(seq))
    publishing.pump()
    assert publishing.poll() is None
    brokers[0].answer(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed"))
    assert publishing.poll() == Failure(3, "not allowed")
    passing = SimpleNamespace(fatal=lambda: False, str=lambda: "down")
    brokers[0].on_error(passing)
    fatal = SimpleNamespace(fatal=lambda: True, str=lambda: "fenced")
    brokers[0].on_error(fatal)
    assert publishing.poll() == Failure(4, "fenced")


def test_a_change_that_the_producer_does_not_take_is_a_failure(brokers: list[Broker]) -> None:
    """It has left the queue, so it is counted, and nothing is handed over right after it."""
    publishing = publisher_of()
    brokers[0].refuses = BufferError("the queue is full")
    for seq in range(MAX_CHANGES_PER_MESSAGE + 1):
        publishing.add(change(seq))
    publishing.pump()
    assert publishing.poll() == Failure(MAX_CHANGES_PER_MESSAGE, "the queue is full")
    assert publishing.waiting == 1


@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION])
def test_a_topic_that_is_missing_for_a_moment_loses_nothing(
    brokers: list[Broker], code: int
) -> None:
    """A broker that has just started does not know its topics: another producer sends the rest, in order."""
    publishing = publisher_of()
    for seq in range(3 * MAX_CHANGES_PER_MESSAGE):
        publishing.add(change(seq))
    publishing.pump()
    old = brokers[0]
    old.open.pop(0)(None, None)
    late, *refused = old.open
    refused[0](KafkaError(code), None)
    old.refuses = KafkaException(KafkaError(code))
    publishing.add(change(3 * MAX_CHANGES_PER_MESSAGE))
    publishing.pump(to_the_end=True)
    assert publishing.poll() is None
    assert (old.purged, len(old.taken), len(brokers)) == (True, 3, 2)
    for error in (KafkaError(KafkaError._PURGE_INFLIGHT), None):
        late(error, None)  # of the old producer: the new one has the message
    assert publishing.poll() is None
    assert publishing.acknowledged.seq == MAX_CHANGES_PER_MESSAGE - 1
    publishing.pump(to_the_end=True)
    assert sent(brokers[1]) == list(range(MAX_CHANGES_PER_MESSAGE, 3 * MAX_CHANGES_PER_MESSAGE + 1))
    brokers[1].answer()
    assert publishing.idle
    assert publishing.acknowledged.seq == 3 * MAX_CHANGES_PER_MESSAGE
    assert publishing.poll() is None


def test_a_producer_that_reports_the_topic_as_missing_is_replaced(brokers: list[Broker]) -> None:
    """Also when it says so before it takes a message, which the next one then takes."""
    publishing = publisher_of()
    brokers[0].refuses = KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC))
    publishing.add(change(1))
    publishing.pump()
    assert publishing.poll() is None
    assert sent(brokers[1]) == [1]


def test_a_topic_that_stays_missing_is_a_failure(brokers: list[Broker]) -> None:
    """A new producer waits for it for `MISSING_S`; if that fails before anything is acknowledged, it was deleted."""
    publishing = publisher_of()
    missing = KafkaError(KafkaError._UNKNOWN_TOPIC, "unknown topic")
    for seq in range(2):
        publishing.add(change(seq))
        publishing.pump()
        brokers[-1].answer(missing)
        assert publishing.poll() is None
        assert brokers[-1].properties["topic.metadata.propagation.max.ms"] == MISSING_S * 1000
        if not seq:
            brokers[-1].answer()
    brokers[-1].answer(missing)
    assert publishing.poll() == Failure(1, "unknown topic")
    assert len(brokers) == 3


def test_a_close_is_clean_if_kafka_acknowledges_everything_in_time(brokers: list[Broker]) -> None:
    """If Kafka has not acknowledged everything by then, the end is not clean, and the rest is forgotten."""
    publishing = publisher_of()
    publishing.add(change(1))
    assert not publishing.close(1.5)
    assert (sent(brokers[0]), brokers[0].purged) == ([1], True)
    assert brokers[0].flushed == [1.5, 0], "after the purge there is nothing to wait for"
    brokers[0].answer()
    assert publishing.close(1.5)


def test_a_watcher_without_a_lease_sends_nothing_more(brokers: list[Broker]) -> None:
    """What waits is dropped, not handed over."""
    publishing = publisher_of()
    publishing.add(change(1))
    publishing.abandon()
    assert (brokers[0].taken, brokers[0].purged, publishing.waiting) == ([], True, 0)
    assert brokers[0].flushed == [0]
