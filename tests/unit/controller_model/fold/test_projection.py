"""Which views a batch sends, in which order, and which it deletes."""

from __future__ import annotations

from controller_model.fold.projection import FORGET_AFTER_MS
from controller_model.records.changes import MAX_MESSAGE_BYTES
from controller_model.records.events import Anomaly, Verified
from controller_model.records.views import (
    UNREADABLE_NAMED,
    ClusterView,
    Deleted,
    TopicView,
    encode_view,
)
from tests.support.histories import begun


def test_the_cluster_view_has_the_start_of_the_last_whole_resync() -> None:
    """Views of topics from before it are of topics that no longer exist."""
    history, fold = begun()
    first = fold.cluster_view().views_from
    assert first == (1, 1)
    history.start_resync()
    began = history.seq
    history.finish_resync(znodes=99)
    fold.follow(history)
    assert fold.cluster_view().views_from == first
    history.resync()
    fold.follow(history)
    assert fold.cluster_view().views_from == (1, began + 2)


def test_the_cluster_view_is_sent_last_and_unchanged_brokers_are_not_sent() -> None:
    """It is the commit marker; a view without changes is not sent again."""
    history, fold = begun()
    first = list(fold.views())
    assert first[-1] == "prod/cluster"
    assert len(first) == 7
    history.heartbeat()
    fold.follow(history)
    assert list(fold.views()) == ["prod/cluster"]


def test_large_topics_come_in_chunks_and_shrunk_ones_take_views_back() -> None:
    """1,000 partitions a view; a view that is no longer needed is reported as deleted, once."""
    history, fold = begun()
    history.topic("big", {p: [0] for p in range(2_001)})
    fold.follow(history)
    chunks = [v for v in fold.views().values() if isinstance(v, TopicView)]
    assert [len(view.partitions) for view in chunks if view.name == "big"] == [1_000, 1_000, 1]
    history.topic_gone("big")
    fold.follow(history)
    history.topic("big", {0: [0]})
    fold.follow(history)
    gone = [key for key, view in fold.views().items() if isinstance(view, Deleted)]
    assert gone == ["prod/topic/big/1", "prod/topic/big/2"]
    history.topic("big", {0: [0], 1: [0]})
    fold.follow(history)
    assert [key for key in fold.views() if "/topic/" in key] == ["prod/topic/big/0"]


def test_a_broker_that_was_only_assigned_is_forgotten_with_its_assignment() -> None:
    """Its view is deleted; a broker that ever registered stays known."""
    history, fold = begun()
    history.topic("x", {0: [9]})
    fold.follow(history)
    assert "prod/broker/9" in fold.views()
    history.topic("x", {0: [1]})
    fold.follow(history)
    assert isinstance(fold.views()["prod/broker/9"], Deleted)


def test_deleted_topic_views_get_a_tombstone_after_an_hour() -> None:
    """One tombstone, an hour after the report, and none for a name that was created again."""
    history, fold = begun()
    for topic in ("x", "y"):
        history.topic(topic, {0: [1]})
        fold.follow(history)
        fold.views()
        history.topic_gone(topic)
        fold.follow(history)
        assert isinstance(fold.views()[f"prod/topic/{topic}/0"], Deleted)
    history.topic("y", {0: [1]})
    fold.follow(history)
    fold.views()
    assert fold.forgotten == []
    history.heartbeat(after_ms=FORGET_AFTER_MS)
    fold.follow(history)
    assert "prod/topic/x/0" not in fold.views()
    assert fold.forgotten == ["prod/topic/x/0"]
    history.heartbeat(after_ms=FORGET_AFTER_MS)
    fold.follow(history)
    fold.views()
    assert fold.forgotten == []


def test_unreadable_parts_are_named_in_the_view_with_their_last_good_value() -> None:
    """A partition in its topic's view, a topic's own znodes there too, all others in the cluster's view."""
    history, fold = begun(t={0: (0, 1), 1: (1, 0)})
    assert fold.cluster_view().unreadable_count == 0
    paths = ("/brokers/ids/1", "/controller_epoch", "/controller")
    states = ("/brokers/topics/t/partitions/1/state", "/brokers/topics/t", "/config/topics/t")
    good = {path: history.znodes[path].data for path in (*paths, *states[:2])}
    for path in (*paths, *states):
        history.set(path, "damaged")
    fold.follow(history)
    views = fold.views()
    view, topic = views["prod/cluster"], views["prod/topic/t/0"]
    assert isinstance(view, ClusterView)
    assert isinstance(topic, TopicView)
    assert view.unreadable == ("/controller", "/controller_epoch", "/brokers/ids/1")
    assert (view.unreadable_count, view.unreadable_controller) == (3, True)
    assert topic.unreadable == (1,)
    assert topic.unreadable_parts == ("/brokers/topics/t", "/config/topics/t")
    assert topic.leader == (0, 1)
    for path, data in good.items():
        history.set(path, data)
    history.delete("/config/topics/t")
    fold.follow(history)
    views = fold.views()
    view, topic = views["prod/cluster"], views["prod/topic/t/0"]
    assert isinstance(view, ClusterView)
    assert isinstance(topic, TopicView)
    assert (topic.unreadable, topic.unreadable_parts) == ((), ())
    assert (view.unreadable, view.unreadable_controller) == ((), False)


def test_a_view_names_so_many_unreadable_parts_and_counts_all() -> None:
    """However many there are, the view fits into a record; those of the controller are the first."""
    history, fold = begun()
    for number in range(UNREADABLE_NAMED + 5):
        history.set(f"/brokers/ids/{number + 10}", "damaged")
    history.set("/controller", "damaged")
    fold.follow(history)
    view = fold.cluster_view()
    assert view.unreadable_count == UNREADABLE_NAMED + 6
    assert len(view.unreadable) == UNREADABLE_NAMED
    assert view.unreadable[0] == "/controller"


def test_a_view_fits_into_a_record_however_long_the_names_of_znodes_are() -> None:
    """Without the cluster's view no batch is complete; a name may be almost a megabyte long."""
    history, fold = begun()
    for letter in "abcdefghij":
        history.set(f"/isr_change_notification/isr_change_{letter * 900_000}", "damaged")
    fold.follow(history)
    view = fold.cluster_view()
    assert view.unreadable_count == len(view.unreadable) == 10
    assert {len(path) for path in view.unreadable} == {1_000}
    assert len(encode_view(view)) < MAX_MESSAGE_BYTES


def test_a_rebase_is_reported_after_all_that_differs() -> None:
    """Even after a hundred changed states it is still reported."""
    history, fold = begun(t=dict.fromkeys(range(150), (0, 1)))
    for number in range(150):
        history.state("t", number, leader=0, isr=(0,), leader_epoch=1, seen=False)
    history.resync(rebase=True)
    last = [event for event in fold.follow(history) if not isinstance(event, Verified)][-1]
    assert isinstance(last, Anomaly)
    assert last.reason.startswith("ZooKeeper's history was replaced: it was restored or rebuilt")
