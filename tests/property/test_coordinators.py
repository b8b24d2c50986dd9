"""Coordinators are counted incrementally; a count from scratch gives the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller_model.kafka.coordinators import COORDINATOR_OF, coordinated_by
from controller_model.records.events import CoordinatorsMoved
from tests.support.histories import Fold, History, small_cluster

TOPICS = [*COORDINATOR_OF, "t"]
PARTITIONS = 3
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["state", "topic", "gone", "deleting", "resync", "batch", "restart"]),
        st.sampled_from(TOPICS),
        st.integers(0, PARTITIONS - 1),
        st.integers(-2, 2),
        st.booleans(),
    ),
    max_size=25,
)


def apply_step(history: History, fold: Fold, step: tuple[str, str, int, int, bool]) -> None:
    """Apply one step to the cluster or to the fold."""
    way, topic, partition, leader, seen = step
    match way:
        case "state":
            history.state(topic, partition, leader=leader, isr=[max(leader, 0)], seen=seen)
        case "topic":
            history.topic(topic, dict.fromkeys(range(partition + 1), (0, 1, 2)), seen=seen)
        case "gone" if f"/brokers/topics/{topic}" in history.znodes:
            history.topic_gone(topic, seen=seen)
        case "deleting":
            history.set(f"/admin/delete_topics/{topic}", b"", seen=seen)
        case "resync":
            history.resync()
        case "batch":
            fold.follow(history)
        case "restart":
            fold.restart()


@given(STEPS)
def test_coordinators_are_the_held_leaders_of_internal_topics(
    steps: list[tuple[str, str, int, int, bool]],
) -> None:
    """After any reported, missed, deleted or packed states the counts equal those of the held states."""
    history, fold = small_cluster(), Fold(packed=True)
    fold.follow(history)
    for step in steps:
        apply_step(history, fold, step)
    history.resync()
    fold.follow(history)
    for topic, kind in COORDINATOR_OF.items():
        held = fold.state.topics.get(topic)
        leaders = [] if held is None else [r.leader for r in held.partitions.values()]
        counts = coordinated_by(leaders)
        for broker in sorted(fold.state.control.brokers):
            reported = fold.broker_view(broker).coordinated.get(kind.value, 0)
            assert reported == counts.get(broker, 0)
    moved = [event for event in fold.events if isinstance(event, CoordinatorsMoved)]
    assert all(event.from_broker != event.to_broker for event in moved)
    assert all(tp.topic in COORDINATOR_OF for event in moved for tp in event.partitions)
