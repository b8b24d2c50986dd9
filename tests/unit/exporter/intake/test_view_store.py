"""The view store: newest wins, batches swap at their mark, lineages replace, garbage is skipped."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from controller_model.records.views import ControllerView, encode_view
from exporter.core.records import ClusterSnapshot
from exporter.intake.view_store import ViewStore
from tests.support.samples import (
    as_of,
    broker_view,
    cluster_view,
    deleted,
    raw,
    record,
    topic_view,
)


def held(store: ViewStore, name: str = "prod") -> ClusterSnapshot:
    """Return the snapshot of a cluster that must be there."""
    return store.clusters[name]


def topics(store: ViewStore) -> set[str]:
    """Return the names of the topics that are shown."""
    return {entry.name for entry in held(store).topics.values()}


def test_views_wait_for_the_cluster_view_of_their_batch() -> None:
    """Nothing of a batch is shown before its commit mark, and everything at it."""
    store = ViewStore()
    assert store.apply(record(broker_view(0))) is None
    assert store.apply(record(topic_view("t"))) is None
    assert not store.clusters
    assert store.apply(record(cluster_view())) == "prod"
    assert list(held(store).brokers) == [0]
    assert topics(store) == {"t"}
    store.apply(record(broker_view(0, as_of(2), leaders=9)))
    assert held(store).brokers[0].leaders == 0
    store.apply(record(cluster_view(at=as_of(2))))
    assert held(store).brokers[0].leaders == 9


def test_a_snapshot_never_changes() -> None:
    """A later batch replaces the snapshot and leaves the one that a request holds as it was."""
    store = ViewStore()
    for view in (broker_view(0, leaders=1), topic_view("t"), cluster_view()):
        store.apply(record(view))
    before, clusters = held(store), store.clusters
    store.apply(record(broker_view(0, as_of(2), leaders=2)))
    store.apply(record(deleted(as_of(2)), "prod/topic/t/0"))
    store.apply(record(cluster_view(at=as_of(2))))
    assert before.brokers[0].leaders == 1
    assert len(before.topics) == 1
    assert clusters["prod"] is before
    assert held(store).topics == {}


@pytest.mark.parametrize("order", list(itertools.permutations([1, 2, 3])))
def test_the_newer_view_wins_in_any_order(order: tuple[int, ...]) -> None:
    """Whatever order batches come in, even twice, the newest one stands at the end."""
    store = ViewStore()
    for seq in (*order, *order):
        store.apply(record(broker_view(0, as_of(seq), leaders=seq)))
        store.apply(record(cluster_view(at=as_of(seq))))
    assert held(store).brokers[0].leaders == 3
    assert held(store).view.as_of == as_of(3)
    assert store.counts.not_newer > 0


def test_a_batch_written_twice_changes_nothing() -> None:
    """An at-least-once sink may repeat a batch: the same as_of is taken again without harm."""
    store = ViewStore()
    batch = [record(broker_view(0)), record(topic_view("t")), record(cluster_view())]
    for item in batch:
        store.apply(item)
    first = held(store)
    for item in batch:
        store.apply(item)
    again = held(store)
    assert msgspec.structs.replace(again, topics_version=first.topics_version) == first


def test_a_version_stands_for_the_very_same_topics() -> None:
    """It is another one exactly where topics came, changed or went, whichever cluster it was."""
    store = ViewStore()
    steps = (
        (topic_view("t"), cluster_view()),
        (cluster_view(at=as_of(2)),),
        (topic_view("t", as_of(3), leader=(1, 1)), cluster_view(at=as_of(3))),
        (broker_view(0, as_of(4)), cluster_view(at=as_of(4))),
        (topic_view("t", as_of(1, lineage="L2")), cluster_view(at=as_of(1, lineage="L2"))),
    )
    versions = []
    for step in steps:
        for view in step:
            store.apply(record(view))
        versions.append(held(store).topics_version)
    assert versions[0] == versions[1]
    assert versions[2] == versions[3]
    assert len({versions[0], versions[2], versions[4]}) == 3


def test_a_view_that_was_deleted_does_not_come_back() -> None:
    """A repeated older view of a deleted topic is not newer than the batch that deleted it."""
    store = ViewStore()
    old = record(topic_view("t"))
    store.apply(old)
    store.apply(record(cluster_view()))
    store.apply(record(deleted(as_of(2)), "prod/topic/t/0"))
    store.apply(record(cluster_view(at=as_of(2))))
    store.apply(old)
    store.apply(raw(b"prod/topic/t/0", None))
    store.apply(record(cluster_view(at=as_of(3))))
    assert topics(store) == set()


def test_a_topic_deleted_and_made_again_in_one_batch_is_there() -> None:
    """Of two records of a key in one batch the later one stands."""
    store = ViewStore()
    store.apply(record(deleted(as_of(2)), "prod/topic/t/0"))
    store.apply(record(topic_view("t", as_of(2))))
    store.apply(record(cluster_view(at=as_of(2))))
    assert topics(store) == {"t"}


def test_a_view_ahead_of_the_mark_waits_for_its_own() -> None:
    """A reading that begins between two batches does not show the later one's views early."""
    store = ViewStore()
    store.apply(record(broker_view(0, as_of(2), leaders=2)))
    store.apply(record(cluster_view(at=as_of(1))))
    assert held(store).brokers == {}
    store.apply(record(cluster_view(at=as_of(2))))
    assert held(store).brokers[0].leaders == 2


def test_a_new_lineage_replaces_all_of_the_older() -> None:
    """Brokers and topics of an older lineage are gone, even those that the new one never names."""
    store = ViewStore()
    for view in (broker_view(0), broker_view(1), topic_view("old"), cluster_view(at=as_of(900))):
        store.apply(record(view))
    store.apply(record(broker_view(1, as_of(1, lineage="L2"))))
    store.apply(record(cluster_view(at=as_of(1, lineage="L2"))))
    assert list(held(store).brokers) == [1]
    assert topics(store) == set()
    store.apply(record(cluster_view(at=as_of(901))))
    assert held(store).view.as_of.lineage == "L2"


def test_views_of_an_older_lineage_that_still_wait_are_dropped() -> None:
    """Leftovers of a lineage in a compacted topic never enter a newer one's snapshot."""
    store = ViewStore()
    store.apply(record(broker_view(7, as_of(5))))
    store.apply(record(cluster_view(at=as_of(1, lineage="L2"))))
    assert held(store).brokers == {}


def test_clusters_are_apart_and_can_go() -> None:
    """A delete or a null under a cluster's key drops that cluster alone."""
    store = ViewStore()
    for name in ("a", "b", "c"):
        store.apply(record(cluster_view(name)))
    assert store.apply(record(deleted(as_of(2), "a"), "a/cluster")) == "a"
    assert store.apply(raw(b"b/cluster", None)) == "b"
    assert set(store.clusters) == {"c"}
    assert store.apply(raw(b"nobody/cluster", None)) is None


def test_an_older_delete_of_a_cluster_is_ignored() -> None:
    """A delete that is older than what is held does not drop it."""
    store = ViewStore()
    store.apply(record(cluster_view(at=as_of(5))))
    assert store.apply(record(deleted(as_of(4)), "prod/cluster")) is None
    assert "prod" in store.clusters


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"prod/cluster", b""),
        (b"prod/cluster", b"not JSON"),
        (b"prod/cluster", b"\xff\xfe"),
        (b"\xff", encode_view(cluster_view())),
        (b"prod", encode_view(cluster_view())),
        (b"prod/unknown/1", encode_view(cluster_view())),
        (b"other/cluster", encode_view(cluster_view())),
        (b"prod/broker/1", encode_view(broker_view(0))),
        (b"prod/cluster", encode_view(cluster_view(v=2))),
        (b"other/topic/t/0", encode_view(deleted(as_of(1)))),
        (b"", None),
    ],
)
def test_garbage_is_counted_and_changes_nothing(key: bytes | None, value: bytes | None) -> None:
    """A record that is damaged, of another version or under a wrong key is skipped."""
    store = ViewStore()
    assert store.apply(raw(key, value)) is None
    assert store.counts.unreadable == 1
    assert not store.clusters


def test_clusters_missing_from_a_topic_made_anew_are_forgotten_when_told() -> None:
    """After a reread only clusters that were seen again stay; until then all are served."""
    store = ViewStore()
    store.apply(record(cluster_view("stays")))
    store.apply(record(cluster_view("goes")))
    store.begin_reread()
    store.apply(record(cluster_view("stays", as_of(1, lineage="L2"))))
    assert set(store.clusters) == {"stays", "goes"}
    assert store.forget_unconfirmed() == ["goes"]
    assert set(store.clusters) == {"stays"}
    assert store.forget_unconfirmed() == []


def test_an_entry_decodes_to_the_view_that_came_in() -> None:
    """A topic is kept as bytes and comes out as it went in."""
    store = ViewStore()
    view = topic_view("t", isr=((0,), None), adding={1: (2,)})
    store.apply(record(view))
    store.apply(record(cluster_view(controller=ControllerView(id=1))))
    (entry,) = held(store).topics.values()
    assert entry.decode() == view
