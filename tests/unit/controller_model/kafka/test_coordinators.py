"""Group and transaction coordinators: who is one, and of what."""

from __future__ import annotations

from controller_model.kafka.coordinators import COORDINATOR_OF, coordinated_by
from tests.support.histories import Fold, small_cluster


def test_leaders_of_internal_topics_coordinate() -> None:
    """Partitions without a leader have no coordinator; a topic that does not exist has no entry."""
    assert {topic: kind.value for topic, kind in COORDINATOR_OF.items()} == {
        "__consumer_offsets": "group",
        "__transaction_state": "transaction",
    }
    assert coordinated_by([0, None, -1, -2, 0, 3]) == {0: 2, 3: 1}
    offsets = {0: (0, 1), 1: (1, 0), 2: (0, 1)}
    history, fold = small_cluster(__consumer_offsets=offsets, t={0: (2,)}), Fold()
    fold.follow(history)
    assert fold.broker_view(0).coordinated == {"group": 2}
    assert fold.broker_view(1).coordinated == {"group": 1}
    assert fold.broker_view(2).coordinated == {"group": 0}
    history.state("__consumer_offsets", 1, leader=0, isr=[0], leader_epoch=1)
    fold.follow(history)
    assert fold.broker_view(0).coordinated == {"group": 3}
    history.topic_gone("__consumer_offsets")
    fold.follow(history)
    assert fold.broker_view(0).coordinated == {}


def test_both_coordinators_are_reported_in_one_order() -> None:
    """Groups before transactions, whichever topic was created first."""
    topics = {"__transaction_state": {0: (0,)}, "__consumer_offsets": {0: (1,)}}
    history, fold = small_cluster(**topics), Fold()
    fold.follow(history)
    assert list(fold.broker_view(0).coordinated.items()) == [("group", 0), ("transaction", 1)]
