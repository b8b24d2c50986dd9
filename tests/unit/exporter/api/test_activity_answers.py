"""The API's answers about flapping and pending writes, from kept events and partitions."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.event_records import EventId, EventRecord
from controller_model.records.events import IsrShrunk
from controller_model.records.pending_writes import ControllerHealth, PendingWrites
from controller_model.records.views import ControllerView
from exporter.api import worker
from tests.support.api_server import Served
from tests.support.samples import (
    T0,
    as_of,
    broker_view,
    cluster_view,
    elected,
    log_view,
    topic_view,
)

PROD = "/api/v1/clusters/prod"
FLAPPING = f"{PROD}/flapping"
PENDING_WRITES = f"{PROD}/pending-writes"


def shrunk(seq: int, *partitions: int, who: int = 1, at: int | None = None) -> EventRecord:
    """Return the event that replica `who` left the ISR of partitions of topic t, which broker 0 leads."""
    fact = IsrShrunk(
        at=T0 + seq if at is None else at,
        position=Position(1, seq),
        who=(who,),
        leader=0,
        by_controller=False,
        partitions=tuple(TopicPartition("t", partition) for partition in partitions),
    )
    return EventRecord(v=1, cluster="prod", id=EventId("L1", 1, seq, 0), event=fact)


def flapped() -> Served:
    """Return a cluster in which broker 1 left the ISR of two partitions, one of them thrice."""
    served = Served()
    served.write(broker_view(0), broker_view(1), topic_view("t"), cluster_view(at=as_of(10)))
    served.publish(shrunk(1, 0, 1), shrunk(2, 0), shrunk(3, 0), elected(4))
    served.now = T0 + 1000
    return served


def test_a_flapping_isr_is_listed_with_the_broker_to_blame() -> None:
    """A partition whose ISR shrank once is not listed; the window ends now."""
    answer = flapped().json(FLAPPING)
    blame = {"broker": 1, "as_replica": 3, "as_leader": 0}
    assert answer["partitions"] == [
        {"topic": "t", "partition": 0, "shrinks": 3, "blames": [blame], "unexplained": 0}
    ]
    assert (answer["partition_count"], answer["times"]) == (1, 3)
    assert answer["blames"] == [blame | {"partition_count": 1}]
    assert (answer["unexplained"], answer["unexplained_partition_count"]) == (0, 0)
    assert (answer["since"], answer["until"]) == (T0 + 1000 - 3_600_000, T0 + 1000)
    assert answer["completeness"]["status"] == "live"


def test_only_events_within_the_window_count_as_flapping() -> None:
    """Earlier events do not count, and the answer says from when on events are kept."""
    served = flapped()
    served.now = T0 + 60_002
    answer = served.json(FLAPPING, window_s=60)
    assert (answer["partitions"], answer["blames"]) == ([], [])
    assert answer["held_from"] == T0 + 1
    assert served.get(FLAPPING, {"window_s": 59}).status_code == 400
    assert served.get(FLAPPING, {"window_s": 7 * 24 * 3600 + 1}).status_code == 400


def test_without_events_the_flapping_answer_has_no_held_from() -> None:
    """An exporter that keeps no event does not claim that nothing flapped since some time."""
    served = Served()
    served.write(cluster_view())
    answer = served.json(FLAPPING)
    assert (answer["held_from"], answer["partitions"]) == (None, [])


def test_elections_count_as_the_metric_counts_them() -> None:
    """By the view, not by the events that are kept; those of an older lineage are not among the changes."""
    served = Served()
    controller = ControllerView(id=1, recent_elections=((T0 - 3_000_000, 1), (T0 + 4, 2)))
    served.write(cluster_view(at=as_of(10), controller=controller, counters_since=T0 + 3))
    served.publish(elected(2), elected(4))
    served.now = T0 + 1000
    for window_s, elections in ((600, 2), (3600, 3)):
        answer = served.json(FLAPPING, window_s=window_s)
        assert (answer["controller_elections"], answer["controller_changes"]) == (elections, 1)
        assert answer["controller_flaps"] is (elections >= 3)


def test_elections_are_not_known_where_the_controller_may_not_be_read() -> None:
    """No figure is shown in place of one that is not known."""
    served = Served()
    served.write(cluster_view(log=log_view(denied=("/controller",))))
    answer = served.json(FLAPPING)
    assert answer["controller_elections"] is None
    assert (answer["controller_flaps"], answer["controller_changes"]) == (None, None)


def test_flapping_leaves_out_events_that_are_ahead_of_the_views(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer is as of a position in the log, and no event after it counts."""
    monkeypatch.setattr(worker, "REST", 0)
    served = Served()
    served.write(topic_view("t"), cluster_view(at=as_of(2)))
    served.publish(shrunk(1, 0), shrunk(2, 0), shrunk(3, 0))
    served.now = T0 + 10
    assert served.json(FLAPPING)["partition_count"] == 0
    served.write(topic_view("t", as_of(3), isr=((0,), (1, 0))), cluster_view(at=as_of(3)))
    assert served.json(FLAPPING)["partition_count"] == 1


def test_the_limit_bounds_the_list_of_flapping_partitions() -> None:
    """The answer has the number of all of them, and blames brokers for all of them."""
    served = Served()
    served.write(topic_view("t"), cluster_view(at=as_of(10)))
    served.publish(*(shrunk(seq, 0, 1) for seq in (1, 2, 3)), shrunk(4, 1))
    served.now = T0 + 10
    answer = served.json(FLAPPING, limit=1)
    assert [each["partition"] for each in answer["partitions"]] == [1], "the one with most shrinks"
    assert answer["partition_count"] == 2
    blame = {"broker": 1, "as_replica": 7, "as_leader": 0, "partition_count": 2}
    assert answer["blames"] == [blame]


def test_flapping_requests_within_ten_seconds_share_one_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many clients ask: the window's end moves in steps."""
    served = flapped()
    served.now = (T0 // 10_000 + 1) * 10_000
    first = served.json(FLAPPING)
    served.now += 8_000
    assert served.json(FLAPPING)["until"] == first["until"]
    monkeypatch.setattr(worker, "REST", 0)
    served.now += 2_000
    assert served.json(FLAPPING)["until"] == served.now


def with_pending_writes() -> Served:
    """Return a cluster of brokers 0 and 1 with partitions that are led by broker 2, which is gone."""
    served = Served()
    due = PendingWrites(
        counts={"new_leader": 2, "notifications": 1},
        pending_since=T0 - 500,
        health=ControllerHealth.WORKING,
    )
    served.write(
        broker_view(0),
        broker_view(1),
        broker_view(2, live=False, since=T0 - 700),
        topic_view("t", replicas=((2, 0), (2, 1)), isr=((2, 0), (2, 1)), leader=(2, 2)),
        topic_view("well"),
        cluster_view(brokers_live=(0, 1), brokers_known=(0, 1, 2), pending_writes=due),
    )
    return served


def test_pending_writes_are_listed_with_the_expected_leader_and_isr() -> None:
    """Each has the expected leader and ISR, and since when it is due; healthy partitions are not listed."""
    answer = with_pending_writes().json(PENDING_WRITES)
    assert answer["health"] == "working"
    assert answer["pending_since"] == T0 - 500
    assert answer["counts"] == {"new_leader": 2, "notifications": 1}
    assert answer["partition_count"] == 2
    assert answer["writes"][0] == {
        "kind": "new_leader",
        "topic": "t",
        "partition": 0,
        "since": T0 - 700,
        "leader": 0,
        "isr": [0],
        "sure": True,
    }
    assert [each["leader"] for each in answer["writes"]] == [0, 1]


def test_the_limit_bounds_the_list_of_pending_writes() -> None:
    """The answer has the number of all of them."""
    answer = with_pending_writes().json(PENDING_WRITES, limit=1)
    assert (len(answer["writes"]), answer["partition_count"]) == (1, 2)


def test_the_controllers_health_is_unknown_unless_figures_are_live() -> None:
    """With stale figures no controller is reported as slow."""
    served = with_pending_writes()
    served.now += 3_600_000
    answer = served.json(PENDING_WRITES)
    assert answer["completeness"]["status"] != "live"
    assert answer["health"] == "unknown"


def test_a_cluster_without_pending_writes_has_an_empty_list() -> None:
    """The counts and the list are empty."""
    served = Served()
    served.write(broker_view(0), broker_view(1), topic_view("t"))
    served.write(cluster_view(pending_writes=PendingWrites(health=ControllerHealth.NOT_NEEDED)))
    answer = served.json(PENDING_WRITES)
    assert (answer["counts"], answer["writes"], answer["partition_count"]) == ({}, [], 0)
    assert answer["health"] == "not_needed"
