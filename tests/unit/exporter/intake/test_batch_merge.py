"""Batches merged into a snapshot: what is added, what is removed, and what stays the same object."""

from __future__ import annotations

from functools import reduce
from operator import xor

from controller_model.kafka.ids import Position
from controller_model.records.changes import digest_text
from controller_model.records.views import ClusterView
from exporter.core.records import ClusterSnapshot, Entry
from exporter.intake.batch_merge import next_snapshot
from exporter.intake.view_store import ViewStore
from tests.support.samples import (
    as_of,
    broker_view,
    cluster_view,
    incident,
    incidents_view,
    log_view,
    record,
    topic_entry,
    topic_view,
)


def held(store: ViewStore, name: str = "prod") -> ClusterSnapshot:
    """Return the snapshot of a cluster that must be there."""
    return store.clusters[name]


def topics(store: ViewStore) -> set[str]:
    """Return the names of the topics that are shown."""
    return {entry.name for entry in held(store).topics.values()}


def test_topics_version_changes_exactly_when_topics_change() -> None:
    """It changes exactly where topics are added, changed or removed, over all clusters."""
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


def merged(
    before: ClusterSnapshot | None, view: ClusterView, **entries: Entry | None
) -> ClusterSnapshot:
    """Return the snapshot after a batch; keys have "_" for "/" and no cluster name."""
    batch = {f"prod/{key.replace('_', '/')}": entry for key, entry in entries.items()}
    snapshot = next_snapshot(before, view, batch, digests={}, partition=3, version=9)
    assert snapshot.topics_digest == reduce(xor, (e.digest for e in snapshot.topics.values()), 0)
    return snapshot


def test_a_topic_of_fewer_chunks_loses_those_beyond_its_last() -> None:
    """Their deletes may never be written: the first chunk says how many there are."""
    chunks = {
        f"topic_t_{chunk}": topic_entry(topic_view("t", chunk=chunk, chunks=3))
        for chunk in range(3)
    }
    whole = merged(None, cluster_view(), **chunks)
    assert set(whole.topics) == {"prod/topic/t/0", "prod/topic/t/1", "prod/topic/t/2"}
    shorter = topic_entry(topic_view("t", as_of(2), chunks=1))
    after = merged(whole, cluster_view(at=as_of(2)), topic_t_0=shorter)
    assert set(after.topics) == {"prod/topic/t/0"}
    of_two = topic_entry(topic_view("t", as_of(2), chunks=2))
    after = merged(whole, cluster_view(at=as_of(2)), topic_t_0=of_two, topic_t_2=None)
    assert set(after.topics) == {"prod/topic/t/0", "prod/topic/t/1"}, "its delete was written"
    assert set(merged(whole, cluster_view(at=as_of(2)), topic_t_0=None).topics) == set()


def test_brokers_that_the_cluster_view_omits_are_dropped() -> None:
    """The delete of a broker may never be written; the others stay in order."""
    brokers = {"broker_2": broker_view(2), "broker_0": broker_view(0), "broker_1": broker_view(1)}
    before = merged(None, cluster_view(brokers_known=(0, 1, 2)), **brokers)
    assert list(before.brokers) == [0, 1, 2]
    assert list(merged(before, cluster_view(at=as_of(2), brokers_known=(0, 2))).brokers) == [0, 2]


def test_topics_missing_from_a_full_resync_are_dropped() -> None:
    """They are older than the place from which on the fold wrote all views again."""
    old, new = topic_entry(topic_view("old")), topic_entry(topic_view("new", as_of(7)))
    before = merged(None, cluster_view(), topic_old_0=old)
    resynced = cluster_view(at=as_of(7), views_from=Position(1, 5))
    assert set(merged(before, resynced, topic_new_0=new).topics) == {"prod/topic/new/0"}


def test_topics_that_a_full_resync_may_not_read_are_kept() -> None:
    """Whether they exist is not known, so lists, figures and recommendations keep them."""
    store = ViewStore()
    for name in ("denied", "gone"):
        store.apply(record(topic_view(name)))
    store.apply(record(cluster_view()))
    log = log_view(denied=("/brokers/topics/denied",))
    store.apply(record(cluster_view(at=as_of(7), views_from=Position(1, 5), log=log)))
    assert topics(store) == {"denied"}
    log = log_view(denied=("/brokers/topics",))
    store.apply(record(topic_view("other", as_of(8))))
    store.apply(record(cluster_view(at=as_of(9), views_from=Position(1, 9), log=log)))
    assert topics(store) == {"denied", "other"}


def test_a_topic_that_was_denied_and_has_ended_is_dropped_once_it_may_be_read() -> None:
    """Kafka had lost the record of its end; the digest shows that the fold does not hold it."""
    store = ViewStore()
    store.apply(record(topic_view("ended")))
    log = log_view(denied=("/brokers/topics",))
    first, digest = Position(1, 5), digest_text(0)
    denied = cluster_view(at=as_of(7), log=log, views_from=first, views_digest=digest)
    store.apply(record(denied))
    assert (topics(store), held(store).lacks_views) == ({"ended"}, True)
    store.apply(record(cluster_view(at=as_of(8), views_from=first, views_digest=digest)))
    assert (topics(store), held(store).lacks_views) == (set(), False)


def test_incidents_are_kept_until_a_newer_view_or_another_lineage() -> None:
    """A batch holds only what changed; another lineage starts from an empty snapshot."""
    of = incidents_view(incident(7))
    before = merged(None, cluster_view(), incidents=of)
    assert before.partition == 3
    assert merged(before, cluster_view(at=as_of(2))).incidents == of
    assert merged(before, cluster_view(at=as_of(2, lineage="L2"))).incidents is None
