"""How a reader handles answers of the client that a healthy broker never causes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError

from pipeline.kafka_errors import ReadTrouble, TopicReadError
from pipeline.settings import PipelineSettings, load
from pipeline.topic_reader import RecordReader
from pipeline.topic_records import Extent, Notice, Place
from pipeline.topics import MAX_MESSAGE_BYTES
from tests.support.kafka_client import AWAY_CODE, CUT_CODE, EOF_CODE, Client, Message, use_client

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

TOPIC = "kcm.changes"
PLACE: Place = (TOPIC, 0)
OTHER: Place = (TOPIC, 1)


@pytest.fixture
def open_reader(monkeypatch: pytest.MonkeyPatch) -> Callable[[Client], RecordReader]:
    """Return a function that creates a reader with a scripted client."""

    def made(client: Client) -> RecordReader:
        use_client(monkeypatch, client)
        return RecordReader(load(PipelineSettings, bootstrap_servers="kafka:9092"), "test")

    return made


Open = Callable[[Client], RecordReader]


def offsets(reader: RecordReader, *extents: Extent, silent_s: float = 0.05) -> list[int]:
    """Return the offsets that a bounded read yields."""
    return [record.offset for record in reader.read(extents, silent_s=silent_s)]


@pytest.mark.parametrize(
    "code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE]
)
def test_a_leader_that_moves_is_waited_for(open_reader: Open, code: int) -> None:
    """The partition exists: its ends are in the next answer."""
    reader = open_reader(Client(ends=(code, code, (3, 8))))
    assert reader.extents([PLACE]) == [Extent(PLACE, 3, 8)]


def test_a_partition_without_a_leader_is_an_error(open_reader: Open) -> None:
    """If no leader is found, Kafka counts as away, and the line has its servers."""
    reader = open_reader(Client(ends=(KafkaError.NOT_LEADER_FOR_PARTITION,)))
    with pytest.raises(TopicReadError, match="kafka:9092 does not answer") as caught:
        reader.extents([PLACE], timeout_s=0.02)
    assert (caught.value.trouble, caught.value.exit_code) == (ReadTrouble.AWAY, 3)


def test_an_end_offset_that_the_client_does_not_return_is_an_error(open_reader: Open) -> None:
    """The client may return nothing at its time-out."""
    with pytest.raises(TopicReadError) as caught:
        open_reader(Client(ends=(None,))).extents([PLACE])
    assert (caught.value.trouble, caught.value.reason) == (
        ReadTrouble.AWAY,
        "no end of the partition",
    )


def test_read_denied_is_an_error(open_reader: Open) -> None:
    """A retry would not change it: the line names the topic and what to allow."""
    reader = open_reader(Client(ends=(KafkaError.TOPIC_AUTHORIZATION_FAILED,)))
    with pytest.raises(
        TopicReadError, match=f"does not let the monitor read {TOPIC}: .*allow READ"
    ) as caught:
        reader.extents([PLACE])
    assert (caught.value.trouble, caught.value.exit_code) == (ReadTrouble.DENIED, 2)


@pytest.mark.parametrize(
    ("partitions", "error", "trouble"),
    [
        (0, None, ReadTrouble.MISSING),
        (0, KafkaError.UNKNOWN_TOPIC_OR_PART, ReadTrouble.MISSING),
        (0, KafkaError.TOPIC_AUTHORIZATION_FAILED, ReadTrouble.DENIED),
    ],
)
def test_a_topic_that_cannot_be_described_is_an_error(
    open_reader: Open, partitions: int, error: int | None, trouble: ReadTrouble
) -> None:
    """A missing topic and one that may not be described are different errors."""
    reader = open_reader(Client(partitions=partitions, metadata_error=error))
    with pytest.raises(TopicReadError) as caught:
        reader.partitions(TOPIC)
    assert caught.value.trouble is trouble


def test_a_reader_commits_no_offsets_and_fetches_without_delay(open_reader: Open) -> None:
    """It never jumps silently, and has room for the largest record; the client knows each property."""
    client = Client()
    open_reader(client)
    own = {
        "group.id": "test",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "fetch.min.bytes": 1,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 50,
        "max.partition.fetch.bytes": MAX_MESSAGE_BYTES,
        "queued.max.messages.kbytes": 4 * MAX_MESSAGE_BYTES // 1024,
    }
    assert client.properties.items() >= own.items()
    Consumer(client.properties).close()


def test_partitions_are_counted(open_reader: Open) -> None:
    """The topic exists."""
    assert open_reader(Client(partitions=50)).partitions(TOPIC) == 50


def test_a_topic_that_is_missing_is_named(open_reader: Open) -> None:
    """With the setting to check."""
    with pytest.raises(TopicReadError, match=f"there is no topic {TOPIC} at .*kafka:9092"):
        open_reader(Client(partitions=0)).partitions(TOPIC)


def test_an_error_reported_by_a_broker_takes_precedence_over_a_timeout(open_reader: Open) -> None:
    """A request itself only times out, but only the user can fix refused credentials."""
    client = Client(ends=(KafkaError._TIMED_OUT,))
    reader = open_reader(client)
    client.error_cb(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    with pytest.raises(TopicReadError, match="wrong password; check kafka_properties"):
        reader.extents([PLACE])


def test_a_reader_that_is_not_polled_keeps_only_the_newest_reports(open_reader: Open) -> None:
    """With a broker that reports something every second, memory does not grow."""
    client = Client()
    reader = open_reader(client)
    client.error_cb(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    for _ in range(10):
        client.error_cb(KafkaError(AWAY_CODE, "down"))
    assert [notice.trouble for notice in reader.poll(0).notices] == [ReadTrouble.AWAY]


def test_records_keep_a_read_alive_until_it_is_through(
    open_reader: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence counts from the last record or end."""
    now = [100.0]

    def passing() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr("pipeline.topic_reader.time.monotonic", passing)
    polls = [[Message(PLACE, 0)], [Message(PLACE, 1)], [Message(OTHER, 5, EOF_CODE)]]
    client = Client(*polls, *polls[:1])
    wanted = (Extent(PLACE, 0, 2), Extent(OTHER, 0, 5))
    read = open_reader(client).read(wanted, silent_s=1.0)
    assert [record.offset for record in read] == [0, 1]


def test_a_record_has_the_time_that_kafka_gives_it(open_reader: Open) -> None:
    """Zero if the topic keeps none."""
    timed = Message(PLACE, 0)
    timed.timestamp = lambda: (1, 77)  # type: ignore[method-assign]  # a time of creation
    reader = open_reader(Client([timed, Message(PLACE, 1)]))
    assert [record.timestamp for record in reader.poll(0).records] == [77, 0]


def test_a_read_ends_at_the_ends_it_was_given(open_reader: Open) -> None:
    """What is written in the meantime is not read, and a place that is finished does not end the others."""
    client = Client(
        [Message(PLACE, 4), Message(PLACE, 5), Message(OTHER, 0)],
        [Message(PLACE, 6), Message(OTHER, 1)],
    )
    reader = open_reader(client)
    assert offsets(reader, Extent(PLACE, 4, 5), Extent(OTHER, 0, 2)) == [4, 0, 1]
    assert client.assigned == [{PLACE: 4, OTHER: 0}]
    beyond = Client([Message(PLACE, 3), Message(PLACE, 5)])  # the offset between holds no record
    assert offsets(open_reader(beyond), Extent(PLACE, 3, 5)) == [3]


def test_a_partition_may_end_with_offsets_that_have_no_record(open_reader: Open) -> None:
    """Compaction removes records before the end, so the notice of the end counts."""
    client = Client([Message(PLACE, 0)], [Message(PLACE, 9, EOF_CODE)])
    assert offsets(open_reader(client), Extent(PLACE, 0, 9)) == [0]


def test_the_end_of_a_partition_already_read_is_ignored(open_reader: Open) -> None:
    """It arrives after the last record, while other partitions are still being read."""
    client = Client([Message(PLACE, 0)], [Message(PLACE, 1, EOF_CODE)], [Message(OTHER, 0)])
    assert offsets(open_reader(client), Extent(PLACE, 0, 1), Extent(OTHER, 0, 1)) == [0, 0]


def test_an_empty_extent_is_not_read(open_reader: Open) -> None:
    """Kafka is not asked where there is nothing to read."""
    client = Client([Message(PLACE, 7)])
    assert offsets(open_reader(client), Extent(PLACE, 7, 7)) == []
    assert client.polls


def test_a_partition_that_the_client_does_not_know_is_missing_only_if_a_broker_says_so(
    open_reader: Open,
) -> None:
    """The client says the same while no broker answers, and right after one has started."""
    unknown = KafkaError._UNKNOWN_PARTITION
    there = open_reader(Client(ends=(unknown, unknown, (3, 4))))
    assert there.extents([PLACE]) == [Extent(PLACE, 3, 4)]
    for client, trouble in (
        (Client(ends=(unknown,), metadata_error=KafkaError.UNKNOWN_TOPIC_OR_PART), "MISSING"),
        (Client(ends=(unknown,), partitions=0), "MISSING"),
        (Client(ends=(unknown,), metadata_error=AWAY_CODE), "AWAY"),
        (Client(ends=(unknown,)), "AWAY"),
    ):
        reader = open_reader(client)
        client.error_cb(KafkaError(AWAY_CODE, "Connection refused"))
        with pytest.raises(TopicReadError) as caught:
            reader.extents([PLACE], timeout_s=0.01)
        assert (caught.value.trouble.name, caught.value.reason) == (trouble, "Connection refused")
    with pytest.raises(TopicReadError, match="there is no topic"):
        open_reader(Client(ends=(unknown,))).extents([OTHER])


def test_a_silent_broker_is_an_error_with_the_clients_reason(open_reader: Open) -> None:
    """A broker that returns nothing counts as unreachable; the reason is the client's own error."""
    client = Client([Message(PLACE, 0)], KafkaError(AWAY_CODE, "Connection refused"))
    with pytest.raises(TopicReadError, match=r"does not answer: .*Connection refused") as caught:
        offsets(open_reader(client), Extent(PLACE, 0, 2))
    assert caught.value.trouble is ReadTrouble.AWAY


def test_a_read_without_any_answer_is_an_error(open_reader: Open) -> None:
    """Also when the client itself gives no reason."""
    records = open_reader(Client()).read([Extent(PLACE, 0, 9)], silent_s=0)
    with pytest.raises(TopicReadError) as caught:
        list(records)
    assert (caught.value.trouble, caught.value.reason) == (ReadTrouble.AWAY, "no answer")


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ReadTrouble.DENIED),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, ReadTrouble.MISSING),
        (KafkaError._AUTHENTICATION, ReadTrouble.SETTINGS),
    ],
)
def test_errors_that_a_retry_does_not_solve_end_a_read_at_once(
    open_reader: Open, code: int, trouble: ReadTrouble
) -> None:
    """Rights that are revoked, a topic that is deleted, credentials that are refused."""
    with pytest.raises(TopicReadError) as caught:
        offsets(open_reader(Client([Message(PLACE, 0, code)])), Extent(PLACE, 0, 2), silent_s=60)
    assert caught.value.trouble is trouble


def test_records_deleted_during_a_read_are_reported(open_reader: Open) -> None:
    """The read continues from what the partition still holds, and reports that it lost records."""
    client = Client([Message(PLACE, 0)], [Message(PLACE, 1, CUT_CODE)], [Message(PLACE, 7)])
    reader = open_reader(client)
    assert offsets(reader, Extent(PLACE, 0, 8)) == [0, 7]
    assert reader.cut == {PLACE}
    assert (client.closed, client.assigned[-1]) == (1, {PLACE: -2})


def test_one_poll_returns_records_ends_and_errors(open_reader: Open) -> None:
    """Records, ends, problems of a partition and of a broker are in one value."""
    client = Client(
        [Message(PLACE, 3), Message(OTHER, 8, EOF_CODE), Message(PLACE, 4, CUT_CODE)],
        KafkaError(AWAY_CODE, "down"),
    )
    reader = open_reader(client)
    reader.follow([PLACE, OTHER], {PLACE: 3})
    assert client.assigned == [{PLACE: 3, OTHER: -2}]
    batch = reader.poll(0)
    assert [record.offset for record in batch.records] == [3]
    assert batch.at_end == [OTHER]
    assert batch.notices == [Notice(ReadTrouble.CUT, PLACE, f"error {CUT_CODE}")]
    assert reader.next_offset == {PLACE: 4, OTHER: 8}
    assert reader.poll(0).notices == [Notice(ReadTrouble.AWAY, None, "down")]
    reader.reopen(from_beginning=[PLACE])
    assert client.assigned[-1] == {PLACE: -2, OTHER: 8}


def test_a_new_client_knows_the_epoch_of_the_record_before_each_position(open_reader: Open) -> None:
    """With it the client detects the truncation of read records. An unread position has none."""
    client = Client(
        [Message(PLACE, 3, leader_epoch=5), Message(OTHER, 7, leader_epoch=6), Message(PLACE, 4)],
        [Message(PLACE, 4, leader_epoch=0), Message(OTHER, 9, EOF_CODE)],
    )
    reader = open_reader(client)
    reader.follow([PLACE, OTHER], {PLACE: 3})
    assert client.epochs[-1] == {}
    reader.poll(0)
    reader.reopen(from_beginning=[])
    assert client.assigned[-1] == {PLACE: 5, OTHER: 8}
    assert client.epochs[-1] == {OTHER: 6}, "Kafka did not say it of the newest record"
    reader.poll(0)
    reader.reopen(from_beginning=[])
    assert client.epochs[-1] == {PLACE: 0}, "what was compacted away may have newer epochs"
    reader.reopen(from_beginning=[PLACE])
    assert client.epochs[-1] == {}
    reader.follow([PLACE], {PLACE: 5})
    assert client.epochs[-1] == {PLACE: 0}


def test_a_lasting_error_is_reported_once(open_reader: Open) -> None:
    """It is reported again after the place has returned something, and each kind of it is."""
    denied = Message(PLACE, 0, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    missing = Message(PLACE, 0, KafkaError.UNKNOWN_TOPIC_OR_PART)
    away = KafkaError(AWAY_CODE, "down")
    client = Client(
        *([denied], [denied], [missing], away, away, [Message(OTHER, 0)], away),
        *([missing], [Message(PLACE, 0)], [missing]),
    )
    reader = open_reader(client)
    reader.follow([PLACE, OTHER])
    noticed = [[notice.trouble for notice in reader.poll(0).notices] for _ in range(10)]
    gone, down = [ReadTrouble.MISSING], [ReadTrouble.AWAY]
    assert noticed == [[ReadTrouble.DENIED], [], gone, down, [], [], down, [], [], gone]


def test_an_error_that_the_client_cannot_recover_from_is_raised(
    open_reader: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower must not wait for a client that is of no use any more."""
    message = Message(PLACE, 0, AWAY_CODE)
    fatal = KafkaError(KafkaError._FATAL, "fenced", True)  # the library's own order
    monkeypatch.setattr(message, "_error", fatal)
    with pytest.raises(TopicReadError, match="fenced"):
        open_reader(Client([message])).poll(0)


def test_a_property_that_the_client_does_not_know_is_a_usage_error() -> None:
    """The line names the property and the setting to correct."""
    settings = load(PipelineSettings, kafka_properties={"no.such.property": "1"})
    with pytest.raises(
        TopicReadError, match=r"no\.such\.property.*check kafka_properties"
    ) as caught:
        RecordReader(settings, "test")
    assert caught.value.exit_code == 2
