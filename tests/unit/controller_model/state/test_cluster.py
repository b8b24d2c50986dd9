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


def test_pending_moves_are_added_up_at_their_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of held moves is limited, and the figures are the same."""
    monkeypatch.setattr(cluster, "_MAX_MOVES", 2)
    state, topic = with_topic()
    steps = ((1, (0, 1)), (1, (1,)), (0, (0,)), (0, (0, 1)), (1, (1, 0)))
    for leader, isr in steps:
        moved = msgspec.structs.replace(LED, leader=leader, isr=isr)
        state.put_partition(state.topic("t"), 0, moved)
        assert len(state.control.moves) <= cluster._MAX_MOVES
    other = empty()
    other.put_topic(msgspec.structs.replace(topic, partitions={0: moved}))
    assert nonzero(state.control.totals.leaders) == {1: 1}
    assert nonzero(state.control.totals.shapes) == nonzero(other.control.totals.shapes)


def test_a_topic_without_znodes_is_removed() -> None:
    """The end of its last partition removes a topic that has no znode."""
    state = empty()
    state.put_partition(state.topic("t"), 0, PartitionRecord(origin=STAT))
    assert state.changed == {"t": None}
    state.put_partition(state.topic("t"), 0, None)
    assert list(state.topics.names()) == []


def test_a_reassignment_is_listed_while_it_is_under_way() -> None:
    """With the time since when it has been reassigned."""
    state, topic = with_topic(reassigning_since=7)
    assert state.control.reassigning == {"t": 7}
    state.put_topic(msgspec.structs.replace(topic, reassigning_since=None))
    assert state.control.reassigning == {}
