"""What the watcher reads back of its cluster, and what it does where that fails."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError

from controller_model.kafka.ids import AsOf
from controller_model.records.views import encode_view
from pipeline.kafka_errors import TopicReadError
from pipeline.settings import PipelineSettings, load
from pipeline.topic_records import Place
from pipeline.topics import EnsuredTopics, topic_names
from tests.support.kafka_client import AWAY_CODE, CUT_CODE, EOF_CODE, Client, Message, use_client
from tests.support.samples import cluster_view
from tests.support.waiting import wait_until
from zk_source.log.readback import FIRST_LOOK_BACK, History, Readback
from zk_source.wire.inbox import FoldView, Inbox, Item, OtherWatcher

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
VIEWS: Place = (NAMES.views, 0)
LOG: Place = (NAMES.changes, 0)
DEADLINE_S = 20.0


def readback(monkeypatch: pytest.MonkeyPatch, client: Client) -> Readback:
    """Return the readback of watcher `me` of cluster `prod`."""
    use_client(monkeypatch, client)
    topics = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))
    return Readback(load(PipelineSettings), topics, "prod", "me")


def view(offset: int, generation: int) -> Message:
    """Return the fold's view of the cluster."""
    value = encode_view(cluster_view("prod", AsOf("l", generation, 4)))
    return Message(VIEWS, offset, key=b"prod/cluster", value=value)


def change(offset: int, generation: int, watcher: str, cluster: str = "prod") -> Message:
    """Return a change of the log, and of it no more than is read back."""
    value = (
        f'[{{"cluster":"{cluster}","generation":{generation},'
        f'"watcher":"{watcher}","observed_at":7}}]'
    )
    return Message(LOG, offset, key=b"prod", value=value.encode())


def take(inbox: Inbox) -> Item:
    """Return what comes next."""
    item = inbox.take(DEADLINE_S)
    assert item is not None
    return item


def test_the_history_is_the_last_view_and_the_highest_generation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wherever the highest generation stands: a watcher may have written what nobody folded yet."""
    client = Client(
        [view(0, 3), view(1, 5), Message(VIEWS, 2, key=b"prod/cluster", value=b"garbage")],
        [change(0, 6, "she"), change(1, 9, "he", "other")],
        ends=((0, 3), (0, 2)),
    )
    history = readback(monkeypatch, client).history(threading.Event())
    assert history.view is not None
    assert (history.generation, history.view.generation, history.view.seq) == (6, 5, 4)


def test_it_reads_further_back_until_it_meets_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other clusters of the partition may have written the last records."""
    end = 10 * FIRST_LOOK_BACK
    client = Client(
        [Message(VIEWS, end - 1, key=b"other/cluster")],
        [view(3, 5), Message(VIEWS, end, EOF_CODE)],
        ends=((0, end), (0, 0)),
    )
    history = readback(monkeypatch, client).history(threading.Event())
    assert history.generation == 5
    assert [each[VIEWS] for each in client.assigned if each] == [end - FIRST_LOOK_BACK, 0]


def test_a_history_that_cannot_be_read_is_logged_and_tried_until_the_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A right that is missing can be given while the watcher waits."""
    client = Client(ends=(KafkaError.TOPIC_AUTHORIZATION_FAILED,))
    waiting = readback(monkeypatch, client)
    stop = threading.Event()
    threading.Timer(1.0, stop.set).start()
    assert waiting.history(stop) == History(0, None)
    assert "cannot be read back" in capsys.readouterr().out


def test_what_comes_later_goes_into_the_inbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views and other watchers; our own changes say nothing new. A cut topic is read anew."""
    client = Client(ends=((0, 0),))
    following = readback(monkeypatch, client)
    following.history(threading.Event())
    client.polls += [
        [change(0, 1, "me"), change(1, 2, "she")],
        KafkaError(AWAY_CODE, "down"),
        [Message(VIEWS, 0, CUT_CODE)],
        [view(0, 3)],
    ]
    inbox = Inbox()
    following.follow(inbox)
    assert take(inbox) == OtherWatcher("she", 2, 7)
    assert isinstance(take(inbox), FoldView)
    following.check()
    following.close()
    assert client.assigned[-1] == {VIEWS: -2, LOG: 2}


def test_what_ends_the_following_is_raised_where_it_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A watcher that cannot see its rivals any more must not go on in silence."""
    client = Client(ends=((0, 0),))
    following = readback(monkeypatch, client)
    following.history(threading.Event())
    fatal = Message(VIEWS, 0, AWAY_CODE)
    monkeypatch.setattr(
        fatal, "_error", KafkaError(KafkaError._FATAL, "fenced", True)
    )  # the library's own order
    client.polls.append([fatal])
    following.follow(Inbox())
    wait_until(lambda: client.polls, lambda left: not left, deadline_s=DEADLINE_S)

    def checked() -> str:
        try:
            following.check()
        except TopicReadError as error:
            return str(error)
        return ""

    wait_until(checked, lambda line: "fenced" in line, deadline_s=DEADLINE_S)
    following.close()
