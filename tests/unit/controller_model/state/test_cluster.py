"""What a cluster holds, and the totals that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from controller_model.facts.origin import Origin
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state import cluster
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.topic_state import PartitionRecord, TopicState

STAT = Origin(1, 1, 0, 0)
LED = PartitionRecord(replicas=(0, 1), leader=0, isr=(0, 1), origin=STAT)


def empty() -> ClusterState:
    """Return a cluster of which nothing is held."""
    return ClusterState(
        ControlPlane("prod", assumed=Assumed(), counters_since=0), MemoryTopicStore(), ZOOKEEPER
    )


def nonzero(counts: Mapping[Any, int]) -> dict[Any, int]:
    """Return the counts that are not 0."""
    return {key: count for key, count in counts.items() if count}


def with_topic(**fields: object) -> tuple[ClusterState, TopicState]:
    """Return a cluster with one topic of one partition."""
    state = empty()
    topic = msgspec.structs.replace(TopicState("t", {0: LED}, exists=True, origin=STAT), **fields)
    state.put_topic(topic)
    return state, topic


def test_a_topic_moves_the_totals_with_it() -> None:
    """It is counted when it is put, and nothing of it is left when it is removed."""
    state, _ = with_topic()
    assert (state.control.topics, state.control.totals.partitions) == (1, 1)
    assert state.control.totals.leaders == {0: 1}
    state.put_topic(TopicState("t"))
    assert state.topics.get("t") is None
    assert state.topic("t") == TopicState("t")
    assert (state.control.topics, state.control.totals.partitions) == (0, 0)
    assert not any(state.control.totals.leaders.values())


def test_a_partition_moves_the_totals_as_its_topic_would() -> None:
    """Put one by one or all at once, the figures are the same."""
    state, topic = with_topic()
    moved = msgspec.structs.replace(LED, leader=1, isr=(1,))
    state.put_partition("t", 0, moved)
    other = empty()
    other.put_topic(msgspec.structs.replace(topic, partitions={0: moved}))
    assert nonzero(state.control.totals.leaders) == {1: 1}
    assert nonzero(state.control.totals.shapes) == nonzero(other.control.totals.shapes)


def test_pending_moves_are_added_up_at_their_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of held moves is limited, and the figures are the same."""
    monkeypatch.setattr(cluster, "_MAX_MOVES", 2)
    state, topic = with_topic()
    steps = ((1, (0, 1)), (1, (1,)), (0, (0,)), (0, (0, 1)), (1, (1, 0)))
    for leader, isr in steps:
        moved = msgspec.structs.replace(LED, leader=leader, isr=isr)
        state.put_partition("t", 0, moved)
        assert len(state.control.moves) <= cluster._MAX_MOVES
    other = empty()
    other.put_topic(msgspec.structs.replace(topic, partitions={0: moved}))
    assert nonzero(state.control.totals.leaders) == {1: 1}
    assert nonzero(state.control.totals.shapes) == nonzero(other.control.totals.shapes)


def test_a_topic_without_znodes_is_removed() -> None:
    """The end of its last partition removes a topic that has no znode."""
    state = empty()
    state.put_partition("t", 0, PartitionRecord(origin=STAT))
    assert state.changed == {"t": None}
    state.put_partition("t", 0, None)
    assert list(state.topics.names()) == []


@pytest.mark.parametrize("since", [5, 0])
def test_a_deletion_takes_a_topic_out_of_the_health_figures(since: int) -> None:
    """And the end of the deletion adds it again, however often it is read meanwhile."""
    state, _ = with_topic()
    before = nonzero(state.control.totals.preferred)
    state.set_deleting("t", since)
    assert state.control.deleting == {"t": since}
    assert not any(state.control.totals.preferred.values())
    state.set_deleting("t", None)
    assert state.control.deleting == {}
    assert nonzero(state.control.totals.preferred) == before == {0: 1}


def test_a_reassignment_is_listed_while_it_is_under_way() -> None:
    """With the time since when it has been reassigned."""
    state, topic = with_topic(reassigning_since=7)
    assert state.control.reassigning == {"t": 7}
    state.put_topic(msgspec.structs.replace(topic, reassigning_since=None))
    assert state.control.reassigning == {}
