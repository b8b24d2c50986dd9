"""Partitions in one rack are counted again or incrementally, with the same result."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller_model.records.views import BrokerView, TopicView
from exporter.core.records import ClusterSnapshot, TopicEntry
from exporter.partitions.worst_topics import OneRackCount
from tests.support.samples import broker_view, cluster_view, topic_entry, topic_view

BROKERS = st.integers(0, 3)
REPLICAS = st.lists(BROKERS, min_size=1, max_size=3, unique=True).map(tuple)

TOPICS = st.builds(
    lambda name, replicas, deleting: topic_view(
        name,
        partitions=tuple(range(len(replicas))),
        replicas=tuple(replicas),
        leader=(0,) * len(replicas),
        isr=((0,),) * len(replicas),
        deleting=deleting,
    ),
    st.sampled_from("abc"),
    st.lists(REPLICAS, max_size=4),
    st.booleans(),
)
REGISTRATIONS = st.builds(
    lambda id_, rack, live: broker_view(id_, rack=rack, live=live),
    BROKERS,
    st.sampled_from([None, "r1", "r2"]),
    st.booleans(),
)


def _snapshot(brokers: dict[int, BrokerView], entries: dict[str, TopicEntry]) -> ClusterSnapshot:
    live = tuple(id_ for id_, broker in brokers.items() if broker.record.live)
    view = cluster_view(brokers_live=live)
    return ClusterSnapshot(name="prod", partition=0, view=view, brokers=brokers, topics=entries)


def _one_by_one(brokers: dict[int, BrokerView], topics: dict[str, TopicView]) -> int:
    if len({broker.record.rack for broker in brokers.values() if broker.record.live} - {None}) < 2:
        return 0
    racks = {id_: broker.record.rack for id_, broker in brokers.items()}
    return sum(
        len(replicas) > 1 and {racks.get(each) for each in replicas} in ({"r1"}, {"r2"})
        for topic in topics.values()
        if not topic.deleting
        for replicas in topic.replicas
    )


@given(st.lists(TOPICS | REGISTRATIONS | st.sampled_from("abc"), max_size=12))
def test_the_incremental_one_rack_count_equals_a_count_from_scratch(
    changes: list[TopicView | BrokerView | str],
) -> None:
    """After any change of topics and brokers the count equals a count from scratch."""
    count = OneRackCount()
    brokers: dict[int, BrokerView] = {}
    topics: dict[str, TopicView] = {}
    entries: dict[str, TopicEntry] = {}
    for change in changes:
        if isinstance(change, BrokerView):
            brokers[change.id] = change
        elif isinstance(change, TopicView):
            topics[change.name] = change
            entries[change.name] = topic_entry(change)
        else:
            topics.pop(change, None)
            entries.pop(change, None)
        reported = count.of(_snapshot(dict(brokers), dict(entries)))
        assert reported == _one_by_one(brokers, topics)
