"""Which views a batch sends, in which order, and what it takes back."""

from __future__ import annotations

from controller_model.fold.projection import FORGET_AFTER_MS
from controller_model.records.views import Deleted, TopicView
from tests.support.histories import begun


def test_all_brokers_are_reported_again_after_each_proof() -> None:
    """A reader may hold newer views of a fold that then went on from an older checkpoint."""
    history, fold = begun()
    fold.views()
    history.heartbeat()
    fold.follow(history)
    assert list(fold.views()) == ["prod/cluster"]
    history.reconciled()
    fold.follow(history)
    brokers = ["prod/broker/0", "prod/broker/1", "prod/broker/2"]
    assert [key for key in fold.views() if "/broker/" in key] == brokers


def test_the_view_tells_where_the_last_whole_resync_began() -> None:
    """Views of topics from before it are of what is no more."""
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


def test_the_cluster_view_comes_last_and_unchanged_brokers_do_not_come() -> None:
    """It is the commit mark; a view that says nothing new is not sent again."""
    history, fold = begun()
    first = list(fold.views())
    assert first[-1] == "prod/cluster"
    assert len(first) == 7
    history.heartbeat()
    fold.follow(history)
    assert list(fold.views()) == ["prod/cluster"]


def test_large_topics_come_in_chunks_and_shrunk_ones_take_views_back() -> None:
    """1,000 partitions a view; what is no more is reported as deleted."""
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


def test_a_broker_that_was_only_assigned_is_forgotten_with_its_assignment() -> None:
    """Its view is taken back; a broker that ever registered stays known."""
    history, fold = begun()
    history.topic("x", {0: [9]})
    fold.follow(history)
    assert "prod/broker/9" in fold.views()
    history.topic("x", {0: [1]})
    fold.follow(history)
    assert isinstance(fold.views()["prod/broker/9"], Deleted)


def test_compaction_may_forget_what_was_reported_as_deleted_an_hour_ago() -> None:
    """One tombstone, after the readers had their hour, and none for a name that came back."""
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
