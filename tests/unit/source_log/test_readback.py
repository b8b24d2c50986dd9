"""What the watcher reads back about its cluster, and what it does when that fails."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Sequence
from types import SimpleNamespace

import msgspec
import pytest
import structlog
from confluent_kafka import KafkaError

from controller_model.kafka.ids import AsOf
from controller_model.records.views import ClusterView, WatcherBeat, encode_view
from pipeline.kafka_errors import MISSING_S, ReadTrouble, TopicReadError
from pipeline.runtime import Backoff
from pipeline.settings import load
from pipeline.topic_records import Place, ReadBatch
from pipeline.topics import EnsuredTopics, topic_names
from source_log import readback as readback_module
from source_log.config import SourceSettings
from source_log.generation_fencing import OtherWatcher
from source_log.readback import (
    FIRST_TAIL,
    MAX_TAIL,
    DecodeRecords,
    History,
    ReadBack,
    Readback,
    ViewsCut,
)
from tests.support.hostile import WIDE, with_a_number
from tests.support.kafka_client import AWAY_CODE, CUT_CODE, EOF_CODE, Client, Message, use_client
from tests.support.samples import beat, cluster_view
from tests.support.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
VIEWS: Place = (NAMES.views, 0)
LOG: Place = (NAMES.changes, 0)
MISSING = KafkaError.UNKNOWN_TOPIC_OR_PART


def readback(
    monkeypatch: pytest.MonkeyPatch, client: Client, decode: DecodeRecords | None = None
) -> Readback:
    """Return the readback of watcher `me` of cluster `prod`."""
    use_client(monkeypatch, client)
    topics = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))
    return Readback(load(SourceSettings, cluster="prod"), topics, "me", decode)


def history_of(reading: Readback) -> History:
    """Return what was written before the start."""
    history = reading.history(threading.Event(), while_=lambda: True)
    assert history is not None
    return history


def begun(monkeypatch: pytest.MonkeyPatch, client: Client) -> Readback:
    """Return a readback that has read the history."""
    reading = readback(monkeypatch, client)
    history_of(reading)
    return reading


def view(offset: int, generation: int) -> Message:
    """Return the fold's view of the cluster."""
    value = encode_view(cluster_view("prod", AsOf("l", generation, 4)))
    return Message(VIEWS, offset, key=b"prod/cluster", value=value)


def change(offset: int, generation: int, watcher: str, cluster: str = "prod") -> Message:
    """Return a change of the log, with only the fields that are read back."""
    value = (
        f'[{{"cluster":"{cluster}","generation":{generation},'
        f'"watcher":"{watcher}","observed_at":7}}]'
    )
    return Message(LOG, offset, key=b"prod", value=value.encode())


Items = queue.SimpleQueue[ReadBack]


def next_item(items: Items) -> ReadBack:
    """Return the next item."""
    return items.get(timeout=DEADLINE_S)


@pytest.mark.parametrize(("in_log", "highest"), [(6, 6), (4, 5)])
def test_the_history_is_the_last_view_and_the_highest_generation(
    monkeypatch: pytest.MonkeyPatch, in_log: int, highest: int
) -> None:
    """Wherever that generation is: the end of the log may not be folded yet, or may be lost."""
    client = Client(
        [view(0, 3), view(1, 5), Message(VIEWS, 2, key=b"prod/cluster", value=b"garbage")],
        [change(0, in_log, "she"), change(1, 9, "he", "other")],
        ends=((0, 3), (0, 2)),
    )
    history = history_of(readback(monkeypatch, client))
    assert history.view is not None
    assert history.generation == highest
    assert (history.view.as_of.generation, history.view.as_of.seq) == (5, 4)


def test_a_generation_that_only_beats_contain_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log was created again before the fold had shown it. The beats of a lower generation would not count."""

    def beat_of(offset: int, generation: int, cluster: str = "prod") -> Message:
        value = encode_view(beat(1, generation=generation, cluster=cluster))
        return Message(VIEWS, offset, key=b"prod/watcher", value=value)

    client = Client(
        [
            beat_of(0, 6),
            view(1, 3),
            beat_of(2, 7),
            beat_of(3, 99, "other"),
            Message(VIEWS, 4, key=b"prod/watcher", value=b"garbage"),
            Message(VIEWS, 5, key=b"prod/watcher", value=None),
        ],
        ends=((0, 6), (0, 0)),
    )
    history = history_of(readback(monkeypatch, client))
    assert history.view is not None
    assert (history.generation, history.view.as_of.generation) == (7, 3)


@pytest.mark.parametrize("number", WIDE.values(), ids=WIDE)
def test_a_generation_that_no_record_can_hold_is_not_followed(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Neither in the log, nor in a view or a beat: the fold could not decode any generation above it."""
    value = encode_view(beat(1, generation=6))
    client = Client(
        [
            view(0, 5),
            *[
                Message(VIEWS, 1 + at, key=b"prod/watcher", value=harmful)
                for at, harmful in enumerate(with_a_number(value, number))
            ],
            view(9, number),
        ],
        [change(0, 4, "she"), change(1, number, "she")],
        ends=((0, 10), (0, 2)),
    )
    history = history_of(readback(monkeypatch, client))
    assert history.generation == 5


def test_the_readback_goes_back_in_growing_steps_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a cluster is not among the newest records of a long topic, its older records do not matter."""
    end = 10 * MAX_TAIL
    nothing = [Message(VIEWS, end, EOF_CODE)]
    client = Client(*([nothing] * 3), ends=((0, end), (0, 0)))
    history = history_of(readback(monkeypatch, client))
    assert history == History(0, None)
    back = [end - each[VIEWS] for each in client.assigned if each]
    assert back == [FIRST_TAIL, 10 * FIRST_TAIL, MAX_TAIL]


def test_the_readback_goes_further_back_until_it_finds_its_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other clusters of the partition may have written the last records."""
    end = 10 * FIRST_TAIL
    client = Client(
        [Message(VIEWS, end - 1, key=b"other/cluster")],
        [view(3, 5), Message(VIEWS, end, EOF_CODE)],
        ends=((0, end), (0, 0)),
    )
    history = history_of(readback(monkeypatch, client))
    assert history.generation == 5
    assert [each[VIEWS] for each in client.assigned if each] == [end - FIRST_TAIL, 0]


def test_a_history_that_cannot_be_read_is_logged_and_tried_until_the_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or until the lease is lost: a broker that is down may come back."""
    client = Client(ends=(AWAY_CODE,))
    waiting = readback(monkeypatch, client)
    stop = threading.Event()
    threading.Timer(1.0, stop.set).start()
    assert waiting.history(stop, while_=lambda: True) is None
    assert "cannot be read back" in capsys.readouterr().out
    leads = iter((True, False))
    assert waiting.history(threading.Event(), while_=lambda: next(leads)) is None


@pytest.fixture
def at_a_second_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the readback's clock go on by a second with each time that it is read."""
    seconds = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    monkeypatch.setattr(readback_module, "time", clock)


@pytest.mark.usefixtures("at_a_second_each")
def test_a_missing_topic_is_looked_up_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was created a moment ago, or a broker has just started: not every broker knows it at once."""
    monkeypatch.setattr(
        readback_module, "Backoff", lambda **_: Backoff(first_s=0.001, most_s=0.001)
    )
    there_soon = [MISSING] * int(MISSING_S)
    there = Client(ends=(*there_soon, (0, 0)))
    history = readback(monkeypatch, there).history(threading.Event(), while_=lambda: True)
    assert history == History(0, None)
    restarted = Client(ends=(*there_soon, AWAY_CODE, *there_soon, (0, 0)))
    history = readback(monkeypatch, restarted).history(threading.Event(), while_=lambda: True)
    assert history == History(0, None), "a broker that is away knows nothing of a topic"
    gone = Client(ends=(*[MISSING] * (int(MISSING_S) + 1), (0, 0)))
    with pytest.raises(TopicReadError, match="there is no topic"):
        readback(monkeypatch, gone).history(threading.Event(), while_=lambda: True)


@pytest.mark.usefixtures("at_a_second_each")
def test_a_topic_that_stays_missing_ends_the_following(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was deleted: a new term creates it, and fills it by a resync. Until then Kafka is asked often."""
    client = Client(ends=((0, 0), (0, 0), *[MISSING] * 5))
    following = begun(monkeypatch, client)
    client.polls += [[Message(LOG, 0, MISSING)]]
    following.follow(Items().put)
    line = wait_until(lambda: _line(following))
    assert line.startswith("there is no topic kcm.")
    assert client.ends == [MISSING]
    following.close()


@pytest.mark.usefixtures("at_a_second_each")
def test_each_time_in_which_a_topic_is_missing_counts_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker may start often. An answer, at the start or later, ends what was counted before it."""
    monkeypatch.setattr(readback_module, "Backoff", lambda **_: Backoff(first_s=0.001))
    monkeypatch.setattr(readback_module, "_BEGINNING_INTERVAL_S", 0.0)
    monkeypatch.setattr(readback_module, "_MISSING_INTERVAL_S", 0.0)
    client = Client(ends=(*[MISSING] * (int(MISSING_S) - 1), (0, 0)))
    reading = begun(monkeypatch, client)
    for _ in range(3):
        client.ends = [MISSING] * (int(MISSING_S) // 2 - 1) + [(0, 0)]
        while len(client.ends) > 1:
            reading._check_beginning(Items().put)
        reading._check_beginning(Items().put)
    client.ends = [MISSING] * (int(MISSING_S) // 2 + 1)
    while len(client.ends) > 1:
        reading._check_beginning(Items().put)
    with pytest.raises(TopicReadError, match="there is no topic"):
        reading._check_beginning(Items().put)


def test_after_a_missing_topic_both_are_looked_up_until_kafka_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At once: the log alone may have been deleted. Otherwise the views suffice, and the problem is in the log."""
    client = Client(ends=((0, 0),))
    following = begun(monkeypatch, client)
    client.polls += [[], [Message(LOG, 0, MISSING)]]
    client.asked.clear()
    with structlog.testing.capture_logs() as logged:
        for now_s in (100.0, 101.0, 111.0):
            clock = SimpleNamespace(monotonic=lambda now_s=now_s: now_s)
            monkeypatch.setattr(readback_module, "time", clock)
            following._poll(Items().put)
    assert client.asked == [VIEWS, VIEWS, LOG, VIEWS]
    assert [line["trouble"] for line in logged] == ["MISSING"]


def test_a_revoked_read_permission_ends_the_following(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watcher that cannot see other watchers must not continue; the message names the topic."""
    client = Client(ends=((0, 0),))
    following = begun(monkeypatch, client)
    client.polls += [[Message(LOG, 0, KafkaError.TOPIC_AUTHORIZATION_FAILED)]]
    following.follow(Items().put)
    line = wait_until(lambda: _line(following))
    assert line == (
        "the pipeline's Kafka at 127.0.0.1:9092 does not let the monitor read kcm.changes: "
        f"error {KafkaError.TOPIC_AUTHORIZATION_FAILED}; allow READ and DESCRIBE"
    )
    following.close()


def _line(following: Readback) -> str:
    try:
        following.check()
    except TopicReadError as error:
        return str(error)
    return ""


def test_records_that_arrive_later_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views and other watchers' records; our own changes add nothing. A topic that was cut is read again.

    It continues from the ends that the history had; a null payload carries nothing.
    """
    client = Client([view(3, 2)], [change(6, 1, "me")], ends=((3, 4), (6, 7)))
    following = begun(monkeypatch, client)
    client.polls += [
        [change(7, 1, "me"), change(8, 2, "she")],
        KafkaError(AWAY_CODE, "down"),
        [
            Message(LOG, 9, key=b"prod", value=None),
            Message(VIEWS, 4, key=b"prod/cluster", value=None),
            Message(VIEWS, 5, key=b"prod/broker/1", value=view(5, 9).value()),
            Message(VIEWS, 5, key=b"prod", value=change(5, 9, "she").value()),
            Message(LOG, 10, key=b"other", value=change(10, 9, "she").value()),
            Message(LOG, 11, AWAY_CODE),
            Message(VIEWS, 6, CUT_CODE),
        ],
        [view(0, 3), change(11, 4, "she")],
    ]
    items = Items()
    following.follow(items.put)
    assert next_item(items) == OtherWatcher("prod", "she", 2, 7)
    assert next_item(items) == ViewsCut()
    newest = next_item(items)
    assert isinstance(newest, ClusterView)
    assert newest.as_of.generation == 3
    assert next_item(items) == OtherWatcher("prod", "she", 4, 7), "what came with a view counts"
    following.check()
    following.close()
    assert client.assigned[-2:] == [{VIEWS: 4, LOG: 7}, {VIEWS: -2, LOG: 11}]


@pytest.mark.usefixtures("at_a_second_each")
def test_a_client_that_stays_without_kafka_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka counts as away until something arrives, from where the reading was; then the time begins anew."""
    following = readback(monkeypatch, Client())
    batches: list[ReadBatch] = []
    monkeypatch.setattr(following, "_check_beginning", lambda _put: None)
    monkeypatch.setattr(following._reader, "poll", lambda _s: batches.pop(0))
    reopened: list[int] = []

    def reopen(*, from_beginning: Sequence[Place]) -> None:
        assert not from_beginning
        reopened.append(turn)
        following._reader._troubles.clear()

    monkeypatch.setattr(following._reader, "reopen", reopen)
    assert not following.is_away
    following._reader._troubles[None] = ReadTrouble.AWAY
    for turn in range(70):
        if turn == 40:
            following._reader._troubles.clear()
        if turn == 50:
            following._reader._troubles[None] = ReadTrouble.AWAY
        batches.append(ReadBatch([], [LOG] if turn == 40 else [], []))
        following._poll(lambda _: None)
        assert following.is_away is not (40 <= turn < 50)
    assert reopened == [16, 32, 66]


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_topic_of_several_partitions_shows_that_the_fold_is_shared(partitions: int) -> None:
    """It is not made for one cluster."""
    topics = EnsuredTopics(NAMES, partitions, dict.fromkeys(NAMES, "id"))
    shared = Readback(load(SourceSettings, cluster="prod"), topics, "me").is_shared
    assert shared is (partitions > 1)


@pytest.mark.parametrize(
    ("key", "is_shared"),
    [
        (b"prod", False),
        (b"prod/broker/1", False),
        (None, False),
        (b"other", True),
        (b"production", True),
        (b"other/cluster", True),
    ],
)
def test_records_of_other_clusters_show_that_the_fold_is_shared(
    monkeypatch: pytest.MonkeyPatch, key: bytes | None, *, is_shared: bool
) -> None:
    """Whether they are there at the start, or arrive later."""
    message = Message(VIEWS, 3, key=key, value=b"")
    before = readback(monkeypatch, Client([message], [], ends=((3, 4), (0, 0))))
    before.history(threading.Event(), while_=lambda: True)
    assert before.is_shared is is_shared
    client = Client([], [], ends=((3, 3), (0, 0)))
    later = readback(monkeypatch, client)
    later.history(threading.Event(), while_=lambda: True)
    assert not later.is_shared
    client.polls += [[message], [view(4, 9)]]
    items = Items()
    later.follow(items.put)
    next_item(items)
    assert later.is_shared is is_shared
    later.close()


def test_a_new_start_offset_of_the_views_is_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consumer at the end does not see it. An outage or an empty topic is not a loss."""
    monkeypatch.setattr(readback_module, "_BEGINNING_INTERVAL_S", 0.0)
    begins = (7, 8, 8, 8, 0, AWAY_CODE, 3, 3)
    end = Message(VIEWS, 9, EOF_CODE)
    client = Client(
        [end], ends=((5, 9), (0, 0), *(b if b == AWAY_CODE else (b, 9) for b in begins))
    )
    following = begun(monkeypatch, client)
    items = Items()
    following.follow(items.put)
    wait_until(lambda: len(client.ends) == 1)
    client.polls += [[change(0, 1, "she")]]
    assert next_item(items) == ViewsCut()
    assert next_item(items) == ViewsCut()
    assert isinstance(next_item(items), OtherWatcher)
    following.check()
    following.close()


def test_the_start_offset_of_the_views_is_looked_up_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many times less often than the topics are polled."""
    end = Message(VIEWS, 9, EOF_CODE)
    client = Client([end], ends=((5, 9), (0, 0), (5, 9), (7, 9), (8, 9)))
    following = begun(monkeypatch, client)
    items = Items()
    following.follow(items.put)
    client.polls += [[change(offset, 1, "she")] for offset in range(100)]
    wait_until(lambda: client.polls, lambda left: not left)
    following.close()
    assert client.ends == [(7, 9), (8, 9)]


def test_a_close_ends_the_thread_and_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread first: it must not read with a client that is closed."""
    client = Client(ends=((0, 0),))
    following = begun(monkeypatch, client)
    following.follow(Items().put)
    thread = following._thread
    assert thread is not None
    runs: list[bool] = []
    monkeypatch.setattr(client, "close", lambda: runs.append(thread.alive))
    following.close()
    assert runs == [False]


def records_of(message: bytes) -> Sequence[OtherWatcher]:
    """Decode a message for a source, which cannot read what watcher `another` writes."""
    read = msgspec.json.decode(message, type=list[OtherWatcher])
    return [each for each in read if each.watcher != "another"]


def test_a_source_that_decodes_records_goes_back_to_one_that_it_can_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It continues from there; its next generation is larger than that of what it cannot read."""
    end = 10 * FIRST_TAIL
    client = Client(
        [change(end - 1, 7, "another")],
        [change(3, 5, "she"), change(end - 1, 7, "another")],
        ends=((0, 0), (0, end)),
    )
    history = history_of(readback(monkeypatch, client, records_of))
    assert [each.watcher for each in history.records] == ["she"]
    assert history.generation == 7


def beat_of(offset: int, watcher: str, cluster: str = "prod") -> Message:
    """Return a watcher's beat."""
    value = encode_view(beat(offset, watcher=watcher, cluster=cluster))
    return Message(VIEWS, offset, key=f"{cluster}/watcher".encode(), value=value)


def test_a_source_that_decodes_records_gets_all_of_them_and_other_watchers_beats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own as well, in their order: they show that what it wrote is there. Other clusters' are left out."""
    client = Client(
        [beat_of(3, "she"), beat_of(4, "he")],
        [
            change(6, 1, "me"),
            change(7, 2, "she", "other"),
            Message(LOG, 8, key=b"prod", value=None),
        ],
        ends=((3, 5), (6, 9)),
    )
    following = readback(monkeypatch, client, records_of)
    history = history_of(following)
    assert [each.watcher for each in history.records] == ["me"]
    assert history.beat is not None
    assert (history.generation, history.beat.watcher) == (1, "he")
    client.polls += [
        [
            beat_of(5, "me"),
            beat_of(6, "she", "other"),
            beat_of(7, "she"),
            Message(LOG, 9, key=b"other", value=change(9, 1, "he").value()),
            change(10, 1, "me"),
            change(11, 1, "she"),
        ]
    ]
    items = Items()
    following.follow(items.put)
    heard = next_item(items)
    assert isinstance(heard, WatcherBeat)
    assert (heard.watcher, heard.cluster) == ("she", "prod")
    assert [next_item(items) for _ in range(2)] == [
        OtherWatcher("prod", "me", 1, 7),
        OtherWatcher("prod", "she", 1, 7),
    ]
    following.check()
    following.close()


def test_a_source_that_decodes_no_records_hears_no_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """It follows the generations of others only."""
    client = Client(ends=((5, 5), (0, 0)))
    following = begun(monkeypatch, client)
    client.polls += [[beat_of(5, "she"), view(6, 3)]]
    items = Items()
    following.follow(items.put)
    assert isinstance(next_item(items), ClusterView)
    following.close()
