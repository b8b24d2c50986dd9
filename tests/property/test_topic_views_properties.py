"""Views of the topics that a batch changed equal views computed from scratch."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_model.fold import projection
from controller_model.fold.projection import SentViews, project
from controller_model.kafka.ids import AsOf
from controller_model.records.views import AnyView, Deleted, TopicView
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from tests.property.test_replay_properties import write_random_changes
from tests.support.histories import Fold, History, repacked, replaced, small_cluster

NOWHERE = AsOf("l", 0, 0)
SEEDS = st.integers(0, 2**32)
WIDE = dict.fromkeys(range(7), (0, 1, 2))


@pytest.fixture(autouse=True, scope="module")
def narrow_views() -> Iterator[None]:
    """Two partitions a view."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "PARTITIONS_PER_TOPIC_VIEW", 2)
        yield


def without_place(view: AnyView) -> AnyView:
    """Return a view without its position in the log."""
    return msgspec.structs.replace(view, as_of=NOWHERE)


def published(fold: Fold) -> dict[str, AnyView]:
    """Return the topic views that a fold publishes."""
    views = fold.views().items()
    return {key: v for key, v in views if isinstance(v, TopicView | Deleted)}


def all_views(fold: Fold) -> tuple[dict[str, AnyView], int]:
    """Return the views of all topics, computed from the state alone, and the digest over them."""
    control = repacked(fold.state.control)
    control.published.topics = 0
    new = ClusterState(control, MemoryTopicStore(), ZOOKEEPER)
    for name in fold.state.topics.names():
        topic = fold.state.topics.get(name)
        assert topic is not None
        new.topics.put(replaced(topic, view_digests=()))
        new.mark_changed(name)
    made = list(project(new, as_of=NOWHERE, folded_at=0, sent=SentViews()))
    topics: dict[str, AnyView] = {key: v for key, v, _ in made if isinstance(v, TopicView)}
    return topics, control.published.topics


def begun() -> tuple[History, Fold]:
    """Return a cluster with a wide topic, and its fold."""
    history = small_cluster(a=WIDE, b={0: (1, 2)})
    return history, Fold()


@given(SEEDS)
def test_published_topic_views_equal_views_computed_from_scratch(seed: int) -> None:
    """After batches with states, assignments, configurations, deletions, proofs and denials."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    history, fold = begun()
    held: dict[str, AnyView] = {}
    for _ in range(10):
        if draws.random() < 0.9:
            write_random_changes(history, draws, draws.choice((1, 1, 3)))
        else:
            history.resync()
        fold.follow(history)
        for key, view in published(fold).items():
            if isinstance(view, TopicView):
                held[key] = without_place(view)
            else:
                held.pop(key, None)
        expected, digest = all_views(fold)
        assert held == expected
        assert fold.state.control.published.topics == digest
        if draws.random() < 0.2:
            fold.restart()


@given(partition=st.integers(0, 6), leader=st.integers(0, 2))
def test_one_state_writes_the_view_of_its_partition_alone(partition: int, leader: int) -> None:
    """A topic of 10,000 partitions has ten views: nine do not change."""
    history, fold = begun()
    fold.follow(history)
    fold.views()
    history.state("a", partition, leader=leader, isr=(leader,))
    fold.follow(history)
    assert [key for key, v in published(fold).items() if isinstance(v, TopicView)] == [
        f"prod/topic/a/{partition // 2}"
    ]


def test_a_changed_number_of_chunks_writes_all_views_of_a_topic() -> None:
    """Each view holds the number of chunks."""
    history, fold = begun()
    fold.follow(history)
    fold.views()
    history.topic("a", WIDE | {7: (0, 1), 8: (0, 1)}, seen=True)
    fold.follow(history)
    views = [view for view in published(fold).values() if isinstance(view, TopicView)]
    assert [(view.chunk, view.chunks) for view in views] == [(chunk, 5) for chunk in range(5)]
