"""The totals are the sum over the held partitions, after any puts in any order and any failure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from controller_model.facts.origin import Origin
from controller_model.fold import replay as replay_module
from controller_model.records.changes import ZnodeChange
from controller_model.sources.zookeeper import source as zookeeper_source
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state import cluster as cluster_module
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.topic_state import PartitionRecord, TopicState
from tests.support.histories import Fold, count_from_scratch, repacked, small_cluster

NAMES = st.sampled_from(("a", "b", "__consumer_offsets"))
PARTITIONS = st.integers(0, 3)
BROKERS = st.lists(st.integers(0, 3), unique=True, max_size=3).map(tuple)
STATS = st.none() | st.builds(
    Origin, order=st.integers(1, 9), created=st.just(1), version=st.just(0), reading=st.just(0)
)
RECORDS = st.builds(
    PartitionRecord,
    replicas=st.none() | BROKERS,
    leader=st.none() | st.integers(-2, 3),
    isr=BROKERS,
    controller_epoch=st.integers(0, 4),
    origin=STATS,
)
MOVING = st.dictionaries(PARTITIONS, BROKERS, max_size=2)
TOPICS = st.builds(
    TopicState,
    NAMES,
    partitions=st.dictionaries(PARTITIONS, RECORDS, max_size=3),
    adding=MOVING,
    removing=MOVING,
    min_isr=st.none() | st.integers(1, 3),
    unclean=st.none() | st.booleans(),
    reassigning_since=st.none() | st.integers(1, 9),
    exists=st.booleans(),
    origin=STATS,
    config_origin=STATS,
)
Put = Callable[[ClusterState], object]


def put_again(name: str, min_isr: int | None) -> Put:
    """Return a put of a value that shares all its partitions with the one that is held."""

    def put(state: ClusterState) -> None:
        held = state.topic(name)
        state.put_topic(msgspec.structs.replace(held, min_isr=min_isr))

    return put


PUTS = st.one_of(
    st.builds(lambda topic: lambda state: state.put_topic(topic), TOPICS),
    st.builds(
        lambda name, partition, record: (
            lambda state: state.put_partition(state.topic(name), partition, record)
        ),
        NAMES,
        PARTITIONS,
        st.none() | RECORDS,
    ),
    st.builds(
        lambda name, since: lambda state: state.set_deleting(name, since),
        NAMES,
        st.none() | st.integers(1, 9),
    ),
    st.builds(put_again, NAMES, st.none() | st.integers(1, 3)),
    st.builds(lambda epoch: lambda state: state.set_counted_epoch(epoch), st.integers(0, 4)),
)


@given(st.lists(PUTS, max_size=12), st.sets(st.integers(0, 11)), st.integers(0, 3), st.booleans())
def test_any_order_of_calls_keeps_the_totals(
    puts: list[Put], packed_after: set[int], most: int, looks: bool
) -> None:
    """After each call, read or not, packed or not, with any limit of pending moves."""
    state = ClusterState(
        ControlPlane("prod", assumed=Assumed(), counters_since=0), MemoryTopicStore(), ZOOKEEPER
    )
    bound, cluster_module._MAX_MOVES = cluster_module._MAX_MOVES, most
    try:
        for number, put in enumerate(puts):
            put(state)
            assert len(state.control.moves) <= most
            if number in packed_after:
                state.control = repacked(state.control)
                assert state.control.counted == count_from_scratch(state)
            if looks:
                check_totals(state)
    finally:
        cluster_module._MAX_MOVES = bound
    check_totals(state)


def check_totals(state: ClusterState) -> None:
    """The totals and the derived figures are those of the held topics."""
    control = state.control
    assert control.totals == count_from_scratch(state)
    topics = [state.topic(name) for name in state.topics.names()]
    assert control.topics == sum(topic.exists for topic in topics)
    moving = {t.name: t.reassigning_since for t in topics if t.reassigning_since is not None}
    assert control.reassigning == moving


@given(st.sampled_from(range(40)), st.integers(1, 4))
def test_a_change_that_fails_half_way_keeps_the_totals(failing: int, every: int) -> None:
    """If an exception stops a change at any place, the totals are those of the held partitions."""
    history = small_cluster(t={0: (0, 1), 1: (1, 2)})
    history.broker_gone(1)
    for partition in (0, 1):
        history.state("t", partition, leader=2 * partition, isr=[2 * partition], leader_epoch=1)
    history.set("/admin/delete_topics/t", b"")
    history.topic_gone("t")
    fold = Fold()
    kept = vars(zookeeper_source)["count_znode"]
    left = [failing]

    def keep(*args: object) -> None:
        left[0] -= 1
        if left[0] % every == 0:
            raise ZeroDivisionError
        kept(*args)

    def apply(change: ZnodeChange) -> None:
        with suppress(ZeroDivisionError):
            replay_module.replay(fold.state, change)

    zookeeper_source.__dict__["count_znode"] = keep
    try:
        for change in history.changes:
            apply(change)
            assert fold.state.control.totals == count_from_scratch(fold.state)
    finally:
        zookeeper_source.__dict__["count_znode"] = kept


def test_held_topics_and_partitions_are_immutable() -> None:
    """A topic and a partition are values: only a put moves them, and the totals with them."""
    fold = Fold()
    fold.follow(small_cluster())
    topic = fold.state.topic("t")
    for value, field in ((topic, "min_isr"), (topic.partitions[0], "leader")):
        with suppress(AttributeError):
            setattr(value, field, 7)
            raise AssertionError(field)
