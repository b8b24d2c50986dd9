"""The worst topics are found, their number is bounded, and they carry the time of the search."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from controller_model.metrics.metric import TopicTrouble, WorstTopics
from controller_model.records.views import Counts, TopicView
from exporter.core.records import ClusterSnapshot
from exporter.partitions.worst_topics import (
    MAX_TOPICS,
    WorstTopicsSearch,
    WorstTopicsStore,
    WorstTopicsThread,
)
from tests.support.samples import T0, broker_view, cluster_view, topic_entry, topic_view

SOME_OFFLINE = Counts(topics=4, partitions=8, offline=3, under_replicated=5, under_min_isr=2)


def _cluster(*topics: TopicView, counts: Counts = SOME_OFFLINE) -> ClusterSnapshot:
    return ClusterSnapshot(
        name="prod",
        partition=0,
        view=cluster_view(counts=counts, brokers_live=(0,), min_isr_assumed=1),
        brokers={0: broker_view(0), 1: broker_view(1, live=False)},
        topics={f"topic/{topic.name}/{topic.chunk}": topic_entry(topic) for topic in topics},
    )


LOST = topic_view("lost", leader=(1, -1), isr=((1,), (1,)))
BEHIND = topic_view("behind", leader=(0, 0), isr=((0,), (0,)), min_isr=2)
LATE = topic_view("late", leader=(0, 0), isr=((0,), (0, 1)))
WELL = topic_view("well", replicas=((0,), (0,)), leader=(0, 0), isr=((0,), (0,)))


def _topics(*topics: TopicView) -> tuple[TopicTrouble, ...]:
    return WorstTopicsSearch().of(_cluster(*topics), T0).topics


def test_under_replicated_partitions_count_for_their_leader() -> None:
    """An under-replicated partition counts for its leader; one without a leader counts for no broker."""
    assert WorstTopicsSearch().of(_cluster(BEHIND, LATE, LOST), T0).led_short == ((0, 3),)


def test_topics_are_listed_the_worst_first() -> None:
    """Offline outweighs under min ISR, which outweighs under-replicated; the healthy are left out."""
    assert _topics(LATE, WELL, BEHIND, LOST) == (
        TopicTrouble("lost", 2, 0, 2),
        TopicTrouble("behind", 0, 2, 2),
        TopicTrouble("late", 0, 0, 1),
    )


def test_chunks_of_a_topic_count_together() -> None:
    """A large topic has several views and is one topic."""
    more = msgspec.structs.replace(LOST, chunk=1, chunks=2, partitions=(1000, 1001))
    first = msgspec.structs.replace(LOST, chunks=2)
    assert _topics(first, more) == (TopicTrouble("lost", 4, 0, 4),)


def test_a_cluster_whose_counts_are_zero_is_not_searched() -> None:
    """Where the totals are zero, no topic is listed, and none is read."""
    assert (
        WorstTopicsSearch().of(_cluster(LOST, counts=Counts(topics=1, partitions=2)), T0).topics
        == ()
    )


def test_an_incremental_search_finds_the_same_as_a_first_search() -> None:
    """Whatever has changed (a topic, its chunks, the live brokers, the defaults), it finds what a first search finds."""
    first = _cluster(LOST, BEHIND, LATE, WELL)
    chunks = [msgspec.structs.replace(LOST, chunk=n, chunks=2) for n in range(2)]
    changed = _with_topics(first, msgspec.structs.replace(LATE, isr=((0,), (0,))))
    grown = _with_topics(changed, *chunks)
    well = msgspec.structs.replace(grown, view=cluster_view(counts=Counts(topics=4, partitions=8)))
    searches = (
        first,
        first,
        changed,
        grown,
        msgspec.structs.replace(grown, topics=changed.topics),
        msgspec.structs.replace(
            changed, view=cluster_view(counts=SOME_OFFLINE, brokers_live=(0, 1), min_isr_assumed=3)
        ),
        well,
        grown,
    )
    search = WorstTopicsSearch()
    for snapshot in searches:
        assert search.of(snapshot, T0) == WorstTopicsSearch().of(snapshot, T0)


def _with_topics(cluster: ClusterSnapshot, *topics: TopicView) -> ClusterSnapshot:
    changed = {f"topic/{topic.name}/{topic.chunk}": topic_entry(topic) for topic in topics}
    return msgspec.structs.replace(cluster, topics={**cluster.topics, **changed})


def test_the_number_of_worst_topics_is_bounded() -> None:
    """However many topics have problems, the series stay few."""
    many = [msgspec.structs.replace(LATE, name=f"late-{n:03}") for n in range(MAX_TOPICS + 5)]
    found = _topics(*many, LOST)
    assert len(found) == MAX_TOPICS
    assert [topic.topic for topic in found[:2]] == ["lost", "late-000"]


def test_a_topic_being_deleted_is_not_listed() -> None:
    """None of the cluster's figures counts it either."""
    assert _topics(msgspec.structs.replace(LOST, deleting=True)) == ()


def test_the_worst_topics_have_the_time_of_the_search() -> None:
    """A search renews the time, also where nothing changed; a cluster that is gone is forgotten."""
    store = WorstTopicsStore()
    assert store.of("prod") == WorstTopics()
    clusters: Mapping[str, ClusterSnapshot] = {"prod": _cluster(LOST)}
    store.update(clusters, T0)
    assert store.of("prod") == WorstTopics(T0, (TopicTrouble("lost", 2, 0, 2),), ((0, 0),), 0)
    store.update(clusters, T0 + 5)
    assert store.of("prod").at == T0 + 5
    store.update({"prod": _cluster(WELL, LATE)}, T0 + 10)
    assert store.of("prod").topics == (TopicTrouble("late", 0, 0, 1),)
    store.update({}, T0 + 15)
    assert store.of("prod") == WorstTopics()


def test_results_are_dropped_when_the_search_thread_ends() -> None:
    """Otherwise old results would look current."""
    store = WorstTopicsStore()
    store.update({"prod": _cluster(LOST)}, T0)
    with WorstTopicsThread(store, lambda: {"prod": _cluster(LOST)}, lambda: T0):
        pass
    assert store.of("prod") == WorstTopics()


@pytest.mark.parametrize("is_first", [False, True])
def test_an_exception_in_one_search_does_not_end_later_searches(
    capsys: pytest.CaptureFixture[str], *, is_first: bool
) -> None:
    """The exception is logged once; there are no results while it lasts, and all of them afterwards."""
    damaged = msgspec.structs.replace(topic_entry(LOST), value=b"garbage")
    clusters = {"prod": _cluster(LOST)}
    store = WorstTopicsStore()
    thread = WorstTopicsThread(store, lambda: clusters, lambda: T0)
    if not is_first:
        thread._search()
        assert store.of("prod").topics
    clusters["other"] = msgspec.structs.replace(
        _cluster(LOST), name="other", topics={"topic/lost/0": damaged}
    )
    for _ in range(2):
        thread._search()
        assert store.of("prod") == WorstTopics()
    del clusters["other"]
    thread._search()
    assert store.of("prod").topics
    assert capsys.readouterr().out.count("could not be searched for") == 1
