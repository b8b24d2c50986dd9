"""Base and journal of a cluster's topics, written in any batches by any workers."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bench.map_state import TopicsInMemory
from controller_model.state.topic_state import PartitionRecord, TopicState
from streaming.topic_journal import JournalLimits

LIMITS = st.builds(
    JournalLimits,
    chunk_bytes=st.integers(1, 200),
    base_share=st.integers(1, 8),
    least_bytes=st.integers(0, 200),
    most_bytes=st.integers(0, 400),
    overdue=st.integers(1, 3),
    quiet_topics=st.integers(0, 5),
    chunks_at_once=st.integers(1, 5),
    overdue_batches=st.integers(1, 8),
    piece_partitions=st.integers(1, 4),
)

BATCHES = st.lists(
    st.dictionaries(
        st.integers(0, 40).map("topic-{}".format),
        st.one_of(st.none(), st.binary(max_size=30)),
        max_size=12,
    ),
    max_size=30,
)


def held(topics: TopicsInMemory) -> dict[str, bytes | None]:
    """Return all topics."""
    return {name: topics.packed.get(name) for name in topics.packed.names()}


def stored(topics: TopicsInMemory) -> Any:
    """Return all that the state holds."""
    return topics.state.rows, topics.packed.place


@given(LIMITS, BATCHES, st.data())
def test_every_worker_finds_all_written_topics(
    limits: JournalLimits, batches: list[dict[str, bytes | None]], data: st.DataObject
) -> None:
    """A worker that ran all batches, a new one after any batch, and one that reads all topics."""
    topics = TopicsInMemory(limits)
    written: dict[str, bytes] = {}
    for batch in batches:
        topics.packed.write(batch)
        for name, packed in batch.items():
            written.pop(name, None)
            if packed is not None:
                written[name] = packed
        if data.draw(st.booleans()):
            topics.new_worker()
        if data.draw(st.booleans()):
            assert held(topics) == written
        name = f"topic-{data.draw(st.integers(0, 40))}"
        assert topics.packed.get(name) == written.get(name)
    assert held(topics) == written
    topics.new_worker()
    assert held(topics) == written


@given(LIMITS, BATCHES)
def test_a_batch_writes_the_same_on_every_worker(
    limits: JournalLimits, batches: list[dict[str, bytes | None]]
) -> None:
    """Whether it knows the state from the batches before, or reads it: so a batch may run twice."""
    topics = TopicsInMemory(limits)
    for batch in batches:
        other = copy.deepcopy(topics)
        other.new_worker()
        other.packed.write(batch)
        topics.packed.write(batch)
        assert stored(topics) == stored(other)


@given(LIMITS, BATCHES)
def test_a_topic_is_in_one_chunk_and_base_bytes_is_the_size_of_all(
    limits: JournalLimits, batches: list[dict[str, bytes | None]]
) -> None:
    """After any growth and shrinking of the base."""
    topics = TopicsInMemory(limits)
    for batch in batches:
        topics.packed.write(batch)
        topics.packed.names()
        names = [name for index in topics.base for name in topics.packed._read_chunk(index)]
        assert len(names) == len(set(names))
        assert topics.packed.place.base_bytes == sum(map(len, topics.base.values()))


TOPICS = st.lists(
    st.tuples(
        st.sampled_from(("a", "b")),
        st.one_of(st.none(), st.dictionaries(st.integers(0, 9), st.integers(1, 3))),
    ),
    max_size=4,
)
"""What a batch does to topics: the leaders of their partitions; None: the topic is gone."""


@given(LIMITS, st.lists(TOPICS, max_size=12), st.data())
def test_topics_in_pieces_are_found_as_they_were_put(
    limits: JournalLimits,
    batches: list[list[tuple[str, dict[int, int] | None]]],
    data: st.DataObject,
) -> None:
    """For topics of any width; a batch that runs on a new worker writes the same."""
    store = TopicsInMemory(limits)
    expected: dict[str, TopicState] = {}
    for batch in batches:
        other = copy.deepcopy(store)
        other.new_worker()
        for each in (store, other):
            topics = each.batch()
            for name, leaders in batch:
                if leaders is None:
                    topics.remove(name)
                else:
                    topics.put(topic_of(name, leaders))
            topics.flush()
        assert stored(store) == stored(other)
        for name, leaders in batch:
            expected.pop(name, None)
            if leaders is not None:
                expected[name] = topic_of(name, leaders)
        if data.draw(st.booleans()):
            store.new_worker()
        topics = store.batch()
        assert {name: topics.peek(name) for name in topics.names()} == expected
        keys = store.packed.names()
        assert {key.partition("/")[0] for key in keys} == expected.keys()


def topic_of(name: str, leaders: dict[int, int]) -> TopicState:
    """Return a topic with these leaders."""
    return TopicState(
        name, {p: PartitionRecord((1, 2, 3), leader) for p, leader in leaders.items()}
    )
