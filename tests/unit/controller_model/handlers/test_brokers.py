"""Brokers that register, end and come back, and their log directories."""

from __future__ import annotations

import pytest

from controller_model.handlers.brokers import TO_AND_FRO_MS
from controller_model.records.events import (
    Anomaly,
    AnyEvent,
    BrokerStarted,
    BrokerStopped,
    LeadersElected,
    LogDirFailed,
)
from tests.support.histories import (
    Fold,
    History,
    begun,
    kinds,
    only,
    small_cluster,
)
from tests.support.payloads import encode_broker, encode_log_dir_event


def end_of(events: list[AnyEvent]) -> str:
    """Return how the one broker that stopped ended."""
    return only(events, BrokerStopped).end.value


def elected(events: list[AnyEvent]) -> str:
    """Return the kind of the one leader election."""
    return only(events, LeadersElected).election.value


def came_back(broker: int, **topics: dict[int, tuple[int, ...]]) -> tuple[History, Fold]:
    """Return a cluster in which a broker has just lost its session and registered again."""
    history, fold = begun(**topics)
    history.broker_gone(broker)
    history.broker(broker)
    fold.follow(history)
    return history, fold


def test_a_broker_that_ends_as_a_member_of_isrs_crashed() -> None:
    """The controller did not empty it before: a crash. Broker 0 is a broker like all others."""
    history, fold = begun()
    history.broker_gone(0)
    assert end_of(fold.follow(history)) == "crashed"
    assert fold.cluster_view().brokers_live == (1, 2)


def test_a_broker_that_the_controller_emptied_shut_down() -> None:
    """Leaders moved and ISRs left while it was registered, then its end."""
    history, fold = begun()
    history.state("t", 0, leader=0, isr=[0, 2], leader_epoch=1)
    history.state("t", 1, leader=2, isr=[2, 0], leader_epoch=1)
    history.broker_gone(1)
    reported = fold.follow(history)
    assert elected(reported) == "controlled_shutdown"
    assert end_of(reported) == "controlled_shutdown"


def test_a_bounce_in_one_change_is_an_end_and_a_start() -> None:
    """The same id with a larger czxid: the end in between was not seen, but there was one."""
    history, fold = begun()
    history.broker_gone(2, seen=False)
    history.broker(2)
    reported = fold.follow(history)
    assert kinds(reported) == ["BrokerStopped", "BrokerStarted"]
    assert end_of(reported) == "bounced"
    assert fold.broker_view(2).record.registrations == 2


def test_an_end_found_by_a_resync_is_unknown() -> None:
    """What preceded the end was not seen, so nothing is inferred, whether read in the resync or swept."""
    history, fold = begun()
    history.broker_gone(2, seen=False)
    history.resync()
    assert end_of(fold.follow(history)) == "unknown"


def test_a_reassignment_is_not_a_shutdown() -> None:
    """A replica that a reassignment removes leaves the ISR; its broker was not emptied."""
    history, fold = begun(t={0: (0, 1, 2)})
    history.topic("t", {0: [0, 1, 2]}, removing={0: [2]})
    history.state("t", 0, leader=0, isr=[0, 1], leader_epoch=1)
    history.topic("t", {0: [0, 1]})
    history.broker_gone(2)
    reported = fold.follow(history)
    assert end_of(reported) == "unknown"
    assert {"ReassignmentStarted", "ReassignmentCompleted"} <= set(kinds(reported))
    assert fold.state.control.reassigning == {}


def test_a_broker_that_lost_its_session_for_a_moment_was_not_shut_down() -> None:
    """Its leaderships and ISR memberships ended with the former registration: a death, as for Kafka."""
    history, fold = came_back(1, t={0: (1, 2)}, u={0: (2, 1)})
    history.state("t", 0, leader=2, isr=[2], leader_epoch=1)
    history.state("u", 0, leader=2, isr=[2], leader_epoch=1)
    assert elected(fold.follow(history)) == "offline"
    assert fold.broker_view(1).inferred_state == "RunningAsBroker"
    history.broker_gone(1)
    assert end_of(fold.follow(history)) == "unknown"


def test_a_broker_that_rejoined_after_it_lost_its_session_is_shut_down_like_any() -> None:
    """States that were written after it registered belong to this registration."""
    history, fold = came_back(1, t={0: (1, 2)})
    history.state("t", 0, leader=2, isr=[2], leader_epoch=1)
    history.state("t", 0, leader=2, isr=[2, 1], leader_epoch=1)
    history.state("t", 0, leader=1, isr=[2, 1], leader_epoch=2)
    fold.follow(history)
    history.state("t", 0, leader=2, isr=[2], leader_epoch=3)
    assert elected(fold.follow(history)) == "controlled_shutdown"
    history.broker_gone(1)
    assert end_of(fold.follow(history)) == "controlled_shutdown"


LOG_DIR_EVENT = "/log_dir_event_notification/log_dir_event_0000000001"


def registered_at(history: History, broker: int, host: str | None, port: int = 9092) -> None:
    """Register a broker at an address, or at none."""
    ends = [] if host is None else [("PLAINTEXT", "PLAINTEXT", host, port)]
    history.set(f"/brokers/ids/{broker}", encode_broker(ends, timestamp=17), ephemeral_owner=1)


def is_reported(events: list[AnyEvent], *kinds_of: type[AnyEvent]) -> bool:
    """Return whether any event of these kinds was reported."""
    return any(isinstance(event, kinds_of) for event in events)


def test_a_failed_log_directory_is_reported_and_explains_why_a_broker_is_emptied() -> None:
    """The same writes as in a controlled shutdown, but the broker reported the reason: its end is unknown."""
    history, fold = begun()
    history.set(LOG_DIR_EVENT, encode_log_dir_event(1))
    history.state("t", 0, leader=0, isr=[0, 2], leader_epoch=1)
    history.state("t", 1, leader=2, isr=[2, 0], leader_epoch=1)
    reported = fold.follow(history)
    assert only(reported, LogDirFailed).broker == 1
    assert fold.broker_view(1).inferred_state == "RunningAsBroker"
    assert fold.broker_view(1).record.log_dir_failures == 1
    history.broker_gone(1)
    assert only(fold.follow(history), BrokerStopped).end == "unknown"
    history.broker(1)
    history.state("t", 0, leader=0, isr=[0, 2, 1], leader_epoch=1)
    history.state("t", 0, leader=0, isr=[0, 2], leader_epoch=2)
    history.broker_gone(1)
    assert only(fold.follow(history), BrokerStopped).end == "controlled_shutdown"
    assert fold.broker_view(1).record.log_dir_failures == 1


def test_a_failed_log_directory_of_a_dead_broker_is_not_reported() -> None:
    """A notification outlives its broker until a controller deletes it."""
    history, fold = begun()
    history.broker_gone(1)
    history.set(LOG_DIR_EVENT, encode_log_dir_event(1))
    history.set(LOG_DIR_EVENT.replace("1", "2"), encode_log_dir_event(77))
    assert not is_reported(fold.follow(history), LogDirFailed)
    assert not fold.state.control.brokers[1].log_dir_failed
    assert 77 not in fold.state.control.brokers


@pytest.mark.parametrize("at_first", [True, False])
def test_a_failed_log_directory_found_by_a_resync_is_held_and_not_reported(at_first: bool) -> None:
    """It failed at some time before; but it explains what follows."""
    history, fold = small_cluster(), Fold()
    if not at_first:
        fold.follow(history)
    history.set(LOG_DIR_EVENT, encode_log_dir_event(1), seen=False)
    history.resync()
    if at_first:
        history.changes = history.changes[-len(history.znodes) - 2 :]
    assert not is_reported(fold.follow(history), LogDirFailed)
    assert fold.state.control.brokers[1].log_dir_failed
    assert fold.broker_view(1).record.log_dir_failures == 0


def test_a_broker_started_at_another_address_is_reported_with_the_old_one() -> None:
    """New endpoints within one registration are not a move."""
    history, fold = begun()
    registered_at(history, 1, "moved", 1)
    assert kinds(fold.follow(history)) == []
    assert fold.broker_view(1).record.host == "moved"
    history.broker_gone(1)
    registered_at(history, 1, "moved", 1)
    assert only(fold.follow(history), BrokerStarted).moved_from is None
    history.broker_gone(1)
    registered_at(history, 1, "moved", 2)
    assert only(fold.follow(history), BrokerStarted).moved_from == "moved:1"
    history.broker_gone(1)
    registered_at(history, 1, None)
    assert only(fold.follow(history), BrokerStarted).moved_from == "moved:2"


def test_a_new_broker_has_no_former_address() -> None:
    """Its first registration is not a move; nor is one without an address."""
    history, fold = begun()
    registered_at(history, 7, None)
    assert only(fold.follow(history), BrokerStarted).moved_from is None
    history.broker_gone(7)
    registered_at(history, 7, "h")
    assert only(fold.follow(history), BrokerStarted).moved_from is None


@pytest.mark.parametrize("seen", [True, False])
def test_two_processes_with_one_broker_id_are_reported(seen: bool) -> None:
    """The registration alternates between two addresses, seen as ends or as bounces."""
    history, fold = begun()
    reported: list[list[Anomaly]] = []
    for host in ("other", "b1", "other"):
        history.broker_gone(1, seen=seen)
        registered_at(history, 1, host)
        reported.append([e for e in fold.follow(history) if isinstance(e, Anomaly)])
    assert reported[0] == []
    for anomalies, place in ((reported[1], "at other:9092 and at b1:9092"),
                           (reported[2], "at b1:9092 and at other:9092")):  # fmt: skip
        (anomaly,) = anomalies
        assert anomaly.path == "/brokers/ids/1"
        assert place in anomaly.reason
    assert fold.state.control.log.view.anomalies == 2


@pytest.mark.parametrize(("later_ms", "anomalies"), [(0, 1), (1, 0)])
def test_a_move_back_after_an_hour_is_a_move(later_ms: int, anomalies: int) -> None:
    """A machine may be moved back, too; two processes alternate faster."""
    history, fold = begun()
    history.broker_gone(1)
    registered_at(history, 1, "other")
    registered = history.znodes["/brokers/ids/1"].ctime
    history.broker_gone(1, seen=False)
    history.now = registered + TO_AND_FRO_MS - 1 + later_ms - 10  # a step takes 10 ms
    registered_at(history, 1, "b1")
    assert history.znodes["/brokers/ids/1"].ctime - registered == TO_AND_FRO_MS - 1 + later_ms
    fold.follow(history)
    assert fold.state.control.log.view.anomalies == anomalies
