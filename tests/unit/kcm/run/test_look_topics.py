"""The topics of `kcm look`: what the watcher writes is folded as Spark's processor folds it, and comes back to the watcher."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from controller_model.kafka.ids import Position
from controller_model.records.changes import join_changes
from controller_model.records.event_records import as_of, decode_event
from controller_model.records.metadata_log import encode_metadata
from controller_model.records.views import ClusterView, decode_view
from controller_model.state.control_plane import Assumed
from kcm.run import look_topics
from kraft_source.service.published_log import PublishedRecord, decode_published
from pipeline.settings import load
from source_log.log_writer import LogClients
from source_log.readback import DecodeRecords, ReadBack
from tests.support.histories import encode_changes, small_cluster
from tests.support.kraft_cluster import KraftCluster, Watcher
from tests.support.looked import NotedTopics, processed
from zk_source.config import WatchSettings

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

ASSUMED = Assumed(min_insync_replicas=2)


def topics() -> NotedTopics:
    """Return the topics of the cluster prod."""
    return NotedTopics(load(WatchSettings, cluster="prod"), ASSUMED)


def clients(looked: NotedTopics, decode: DecodeRecords | None = None) -> LogClients:
    """Return a watcher's clients."""
    settings = load(WatchSettings, cluster="prod")
    return looked.open_clients(settings, looked.ensured, "look", decode)


def zookeeper_messages() -> list[bytes]:
    """Return the log of a cluster that fails over and loses a broker, a message for each change."""
    history = small_cluster(t={0: (1, 2), 1: (2, 1)}, u={0: (2, 1)})
    history.broker_gone(1)
    history.elect(2)
    history.state("t", 0, leader=2, isr=(2,))
    history.topic_gone("u")
    history.heartbeat()
    return [encode_changes([change]) for change in history.changes]


def kraft_messages() -> list[bytes]:
    """Return the log of a KRaft cluster that fences a broker and deletes a topic, a message for each slice."""
    cluster = KraftCluster()
    for broker in (1, 2):
        cluster.register(broker)
        cluster.unfence(broker)
    cluster.create("a", 2, 2)
    cluster.create("b", 1, 1)
    cluster.tick(600)
    cluster.fence(1)
    cluster.delete("b")
    slices = Watcher(cluster).slices(range(1, cluster.end))
    return [join_changes([encode_metadata(each)]) for each in slices]


LOGS = pytest.mark.parametrize(
    "messages", [zookeeper_messages(), kraft_messages()], ids=["zookeeper", "kraft"]
)


@LOGS
@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_the_views_are_those_of_the_processor(
    messages: Sequence[bytes], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many messages a batch has: each view is the same, but for where its batch ended."""
    monkeypatch.setattr(look_topics, "MAX_MESSAGES", at_once)
    looked = topics()
    for message in messages:
        looked.waiting.put((looked.ensured.names.changes, b"prod", message))
    for _ in messages:
        looked.feed()
    assert looked.views() == processed("prod", messages, ASSUMED)
    assert looked.waiting.empty()


def test_events_have_rising_numbers_and_the_views_reach_them() -> None:
    """An exporter shows an event only once it shows a view that is as far."""
    looked = topics()
    for message in zookeeper_messages():
        looked.waiting.put((looked.ensured.names.changes, b"prod", message))
        looked.feed()
    names = looked.ensured.names
    ids = [
        decode_event(each.value or b"").id for each in looked.records if each.topic == names.events
    ]
    assert len(ids) > 3
    assert ids == sorted(set(ids))
    view = decode_view(looked.records[-1].value or b"")
    assert isinstance(view, ClusterView)
    assert as_of(ids[-1]) <= view.as_of


def test_a_record_that_cannot_be_read_is_counted_and_shown() -> None:
    """The figures are then incomplete, and say so."""
    looked = topics()
    first, *_ = zookeeper_messages()
    looked.waiting.put((looked.ensured.names.changes, b"prod", first))
    looked.waiting.put((looked.ensured.names.changes, b"prod", b'[{"v": 1}]'))
    looked.feed()
    view = looked.views()["prod/cluster"]
    assert isinstance(view, ClusterView)
    assert view.log.unreadable == 1


def test_what_is_published_is_acknowledged_until_the_fold_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then the watcher keeps the rest, within the bounds of its buffer, until the fold has caught up."""
    monkeypatch.setattr(look_topics, "MAX_WAITING", 0)
    looked = topics()
    publisher = clients(looked).publisher
    changes = [message.strip(b"[]") for message in zookeeper_messages()]
    publisher.add(changes[0], Position(1, 1))
    publisher.pump(0)
    assert publisher.poll() is None
    assert not publisher.idle
    looked.feed()
    assert publisher.poll() is None
    assert publisher.idle
    assert publisher.acknowledged == Position(1, 1)


def test_the_end_of_the_watcher_writes_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits for nobody."""
    monkeypatch.setattr(look_topics, "MAX_WAITING", 0)
    looked = topics()
    publisher = clients(looked).publisher
    publisher.add(zookeeper_messages()[0].strip(b"[]"), Position(1, 1))
    assert publisher.close(0)
    publisher.abandon()
    assert len(looked.messages) == 1


@LOGS
def test_the_watcher_reads_back_what_was_folded(messages: Sequence[bytes]) -> None:
    """The fold's view, which may ask for a resync; and, where the source decodes them, the records before it."""
    is_kraft = messages[0] == kraft_messages()[0]
    looked = topics()
    readback = clients(looked, decode_published if is_kraft else None).readback
    history = readback.history(threading.Event(), while_=lambda: True)
    assert history is not None
    assert (history.generation, history.view) == (0, None)
    read: list[ReadBack] = []
    readback.follow(read.append)
    looked.waiting.put((looked.ensured.names.changes, b"prod", messages[0]))
    looked.feed()
    assert [type(each) for each in read] == [*([PublishedRecord] if is_kraft else []), ClusterView]
    readback.close()
    looked.waiting.put((looked.ensured.names.changes, b"prod", messages[1]))
    looked.feed()
    assert len(read) == 1 + is_kraft


def test_a_beat_goes_to_the_exporter_and_not_through_the_fold() -> None:
    """As in Kafka, where it is a record of the topic of views."""
    looked = topics()
    looked.waiting.put((looked.ensured.names.views, b"prod/watcher", b"{}"))
    (beat,) = looked.feed()
    assert (beat.topic, beat.key, beat.value) == ("kcm.views", b"prod/watcher", b"{}")
    assert looked.messages == []
