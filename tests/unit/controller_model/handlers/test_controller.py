"""The counts of controller elections, vacancies and failover work, in written-out histories."""

from __future__ import annotations

import pytest

from controller_model.records.changes import SessionState
from controller_model.records.events import (
    ControllerElected,
    ControllerVacated,
    ElectionCause,
    FailoverWork,
)
from controller_model.records.views import Failover
from tests.support.histories import (
    Fold,
    History,
    controller_payload,
    kinds,
    only,
    replaced,
    small_cluster,
)


def test_an_election_is_reported_with_epoch_vacancy_and_cause() -> None:
    """A controller whose session ends: vacated, elected with the next epoch, cause known."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    history.broker_gone(0)
    history.elect(1)
    reported = only(fold.follow(history), ControllerElected)
    assert (reported.from_broker, reported.to_broker, reported.epoch) == (0, 1, 2)
    assert (reported.vacancy_ms, reported.missed_elections) == (10, 0)
    assert (reported.vacancy_min_ms, reported.vacancy_max_ms) == (10, 10)
    assert reported.cause is ElectionCause.SESSION_LOST


def test_a_deleted_controller_is_reported_from_a_lost_one() -> None:
    """/controller deleted while its broker stays registered: the cause is the deletion."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    history.delete("/controller")
    history.elect(0)
    assert only(fold.follow(history), ControllerElected).cause is ElectionCause.DELETED
    assert fold.state.control.controller.view.id_changes == 0


def test_consecutive_elections_seen_in_one_read_are_missed_elections() -> None:
    """Three elections merged into one read count as three, two of them missed."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    for broker in (1, 2):
        history.delete("/controller", seen=False)
        history.elect(broker, seen=False)
    history.delete("/controller", seen=False)
    history.elect(0)
    reported = only(fold.follow(history), ControllerElected)
    controller = fold.state.control.controller
    assert (
        controller.view.elections,
        controller.view.missed_elections,
        reported.missed_elections,
        reported.epoch,
    ) == (
        4,
        2,
        2,
        4,
    )
    assert (controller.view.vacancy_last_min_ms, controller.view.vacancy_last_max_ms) != (None, 0)
    assert controller.view.vacancy_last_min_ms == 0


def test_elections_are_kept_with_their_own_times() -> None:
    """Each election seen counts at its ctime; missed ones count at the last known time before."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    began = fold.state.control.controller.view.elected_at
    assert began is not None
    assert fold.cluster_view().controller.recent_elections == ((began, 1),)
    beat = history.heartbeat()
    history.delete("/controller", seen=False)
    history.elect(1, seen=False)
    history.delete("/controller", seen=False)
    history.now += 60_000
    history.elect(2)
    fold.follow(history)
    last = fold.state.control.controller.view.elected_at
    assert last is not None
    assert fold.cluster_view().controller.recent_elections == (
        (began, 1),
        (beat.observed_at, 1),
        (last, 1),
    )


def test_the_first_epoch_of_a_rebuilt_cluster_is_not_an_election() -> None:
    """After another history's epoch, far above, there is one recent election: that of the current controller."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    history.epoch = 900
    history.delete("/controller", seen=False)
    history.elect(2, seen=False)
    history.resync(rebase=True)
    fold.follow(history)
    recent = fold.cluster_view().controller.recent_elections
    assert recent is not None
    assert sum(count for _, count in recent) == 2


def test_an_election_is_not_reported_with_a_later_ones_epoch() -> None:
    """/controller read at one election and the epoch at the third: the first is reported without an epoch."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    history.delete("/controller", seen=False)
    history.elect(1, epoch_seen=False)
    for broker in (2, 0):
        history.delete("/controller", seen=False)
        history.elect(broker, seen=False)
    history.report("/controller_epoch")
    assert only(fold.follow(history), ControllerElected).epoch is None
    history.report("/controller")
    last = only(fold.follow(history), ControllerElected)
    assert (last.epoch, last.missed_elections) == (4, 1)


def test_an_election_without_a_readable_epoch_is_reported_at_a_heartbeat() -> None:
    """An epoch that cannot be read delays the report by seconds, not forever."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    history.delete("/controller")
    history.set("/controller", controller_payload(2))
    history.set("/controller_epoch", "?")
    history.heartbeat()
    assert only(fold.follow(history), ControllerElected).epoch is None


def test_a_smaller_epoch_lets_no_counter_fall() -> None:
    """A rebuilt ensemble starts at epoch 1: the count so far is kept, and counting continues."""
    history = small_cluster()
    for broker in (1, 2):
        history.delete("/controller")
        history.elect(broker)
    fold = Fold()
    fold.follow(history)
    history.epoch = 0
    history.delete("/controller", seen=False)
    history.elect(1, seen=False)
    history.resync(rebase=True)
    fold.follow(history)
    assert fold.state.control.controller.view.elections == 4
    history.delete("/controller")
    history.elect(0)
    fold.follow(history)
    assert (
        fold.state.control.controller.view.elections,
        fold.state.control.controller.view.epoch,
    ) == (5, 2)


def test_kraft_skips_epochs_and_no_election_is_missed() -> None:
    """A migration to KRaft writes KRaft's own epoch: a jump that counts as one election."""
    for epoch_first in (True, False):
        history = small_cluster()
        fold = Fold()
        fold.follow(history)
        history.delete("/controller", seen=False)
        with history.transaction():
            history.set("/controller", controller_payload(3000, kraft_epoch=50), seen=False)
            history.set("/controller_epoch", "50", seen=False)
        order = ["/controller_epoch", "/controller"]
        for path in order if epoch_first else reversed(order):
            history.report(path)
        history.heartbeat()
        fold.follow(history)
        controller = fold.state.control.controller
        assert (
            controller.view.elections,
            controller.view.missed_elections,
            controller.view.migrating_to_kraft,
        ) == (2, 0, True)


def test_an_election_found_by_a_resync_has_no_certain_cause_or_vacancy() -> None:
    """The dead controller's broker is swept last: until then nothing shows why /controller ended."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    history.heartbeat()
    history.broker_gone(0, seen=False)
    history.elect(1, seen=False)
    history.resync()
    reported = only(fold.follow(history), ControllerElected)
    assert reported.cause is ElectionCause.UNKNOWN
    assert reported.vacancy_ms is None
    assert fold.state.control.controller.view.failover is Failover.UNDER_WAY


def test_an_unreadable_controller_keeps_the_last_holder() -> None:
    """A damaged /controller that is then deleted reports no second vacancy."""
    history = small_cluster()
    history.delete("/controller")
    history.set("/controller", "{")
    history.delete("/controller")
    fold = Fold()
    reported = fold.follow(history)
    assert kinds(reported).count("ControllerVacated") == 1
    assert fold.state.control.controller.last_id == 0


def test_failover_is_not_needed_when_no_leader_is_gone() -> None:
    """/controller deleted by hand: no leader write is due, and that is reported."""
    history = small_cluster()
    history.delete("/controller")
    history.elect(1)
    fold = Fold()
    fold.follow(history)
    assert fold.state.control.controller.view.failover is Failover.NOT_NEEDED


def test_failover_work_ends_at_the_write_that_was_last_due() -> None:
    """In one batch or in many: the same end, to the millisecond."""
    took = []
    for one_by_one in (True, False):
        history = small_cluster(t={0: (0, 1, 2), 1: (0, 2, 1)})
        history.broker_gone(0)
        history.elect(1)
        history.state("t", 0, leader=1, isr=[1, 2], leader_epoch=1)
        under_way = Fold()
        under_way.follow(history)
        assert under_way.state.control.controller.view.failover is Failover.UNDER_WAY
        history.state("t", 1, leader=2, isr=[2, 1], leader_epoch=1)
        history.broker_gone(2)
        fold = Fold()
        for change in history.changes if one_by_one else []:
            fold.feed([change])
        fold.feed([] if one_by_one else history.changes)
        work = only(fold.events, FailoverWork)
        assert (work.partitions, work.took_ms) == (2, 20)
        assert fold.cluster_view().controller.failover_last_ms == 20
        took.append(work)
    assert took[0] == took[1]


def test_a_merged_election_learns_its_cause_from_the_brokers_end() -> None:
    """/controller read only once it is held again, then the old holder's end: a lost session."""
    history = small_cluster()
    history.broker_gone(0, seen=False)
    history.elect(1, seen=False)
    for path in ("/controller", "/brokers/ids/0", "/controller_epoch"):
        history.report(path)
    fold = Fold()
    reported = only(fold.follow(history), ControllerElected)
    assert reported.cause is ElectionCause.SESSION_LOST
    assert fold.state.control.controller.view.failover is Failover.UNDER_WAY


def test_a_deleted_controller_before_the_baseline_is_not_a_counted_vacancy() -> None:
    """/controller ends during the first resync: vacancies are not counted yet."""
    history = small_cluster()
    history.changes.clear()
    history.seq = 0
    history.start_resync()
    for path in history.znodes:
        history.report(path)
    history.delete("/controller")
    history.finish_resync()
    fold = Fold()
    assert "ControllerVacated" not in kinds(fold.follow(history))
    controller = fold.state.control.controller
    assert (
        controller.view.id,
        controller.view.elections,
        controller.view.vacancy_total_max_ms,
    ) == (-1, 0, 0)
    assert controller.view.vacant_since == history.changes[-1].observed_at


def test_a_later_registration_does_not_replace_the_elected_holders_epoch() -> None:
    """The holder bounced while /controller still exists: when it is deleted, a session was lost."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    elected_with = fold.state.control.source.controller.holder_epoch
    history.delete("/brokers/ids/0")
    history.broker(0)
    fold.follow(history)
    assert fold.state.control.source.controller.holder_epoch == elected_with
    history.delete("/controller")
    history.elect(1)
    assert only(fold.follow(history), ControllerElected).cause is ElectionCause.SESSION_LOST


def test_failover_work_under_way_does_not_restart() -> None:
    """A merged election while leader writes of another broker are due; then the old holder's end."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    history.broker_gone(1)
    history.broker_gone(0, seen=False)
    history.elect(2, seen=False)
    history.report("/controller")
    fold.follow(history)
    controller = fold.state.control.controller
    since, partitions = (
        controller.view.failover_since,
        fold.state.control.source.failover.partitions,
    )
    assert (controller.view.failover, partitions) == (Failover.UNDER_WAY, 1)
    history.report("/brokers/ids/0")
    fold.follow(history)
    assert (controller.view.failover_since, fold.state.control.source.failover.partitions) == (
        since,
        partitions,
    )


def test_a_write_that_makes_a_leader_pending_write_is_not_failover_work() -> None:
    """A state whose leader is gone, written during a failover, prolongs it."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    history.broker_gone(0)
    history.elect(1)
    history.state("t", 1, leader=0, isr=[0], leader_epoch=1)
    fold.follow(history)
    assert (
        fold.state.control.source.failover.pending,
        fold.state.control.source.failover.last_write_at,
    ) == (2, None)
    history.state("t", 0, leader=1, isr=[1], leader_epoch=1)
    history.state("t", 1, leader=1, isr=[1], leader_epoch=2)
    assert only(fold.follow(history), FailoverWork).partitions == 1
    assert fold.state.control.source.failover.last_write_at == history.now + 1


def test_kraft_takes_over_where_no_epoch_was_ever_read() -> None:
    """Without an epoch there is nothing to skip or to count by: the election seen counts."""
    history = small_cluster()
    history.set("/controller_epoch", "?", seen=False)
    history.changes.clear()
    history.seq = 0
    history.resync()
    fold = Fold()
    fold.follow(history)
    taken = history.set("/controller", controller_payload(3000, kraft_epoch=1))
    assert taken is not None
    fold.feed([replaced(taken, czxid=0)])
    controller = fold.state.control.controller
    assert (
        controller.view.epoch,
        controller.view.elections,
        controller.view.migrating_to_kraft,
    ) == (None, 2, True)


def vacant_from_the_start(*, epoch: str | None) -> tuple[History, Fold]:
    """Return a cluster without a controller when it is first read, and a fold that has read it."""
    history = small_cluster()
    history.delete("/controller", seen=False)
    if epoch is None:
        history.delete("/controller_epoch", seen=False)
    else:
        history.set("/controller_epoch", epoch, seen=False)
    history.changes.clear()
    history.seq = 0
    history.resync()
    fold = Fold()
    fold.follow(history)
    return history, fold


def test_a_vacancy_from_before_the_log_has_no_upper_bound() -> None:
    """The part that was seen is the minimum, and all that the sums count; the cause is unknown."""
    history, fold = vacant_from_the_start(epoch="3")
    history.epoch = 3
    history.now += 51_000 - 10
    history.elect(1)
    reported = only(fold.follow(history), ControllerElected)
    assert (reported.vacancy_ms, reported.vacancy_min_ms, reported.vacancy_max_ms) == (
        None,
        51_000,
        None,
    )
    assert (reported.from_broker, reported.cause) == (-1, ElectionCause.UNKNOWN)
    controller = fold.state.control.controller
    assert (controller.view.vacancy_last_min_ms, controller.view.vacancy_last_max_ms) == (
        51_000,
        None,
    )
    assert (controller.view.vacancy_total_min_ms, controller.view.vacancy_total_max_ms) == (
        51_000,
        51_000,
    )


def test_a_vacancy_from_before_the_log_ended_by_a_resync_is_at_least_zero() -> None:
    """The election is unseen: /controller may have been vacant during all of the watched time."""
    history, fold = vacant_from_the_start(epoch="3")
    history.epoch = 3
    history.elect(1, seen=False)
    history.now += 7_000
    history.resync()
    reported = only(fold.follow(history), ControllerElected)
    assert (reported.vacancy_ms, reported.vacancy_min_ms, reported.vacancy_max_ms) == (
        None,
        0,
        None,
    )
    controller = fold.state.control.controller
    assert (controller.view.vacancy_total_min_ms, controller.view.vacancy_total_max_ms) == (
        0,
        7_010,
    )


@pytest.mark.parametrize(
    ("epoch", "cause"),
    [
        (None, ElectionCause.FIRST),
        ("0", ElectionCause.FIRST),
        ("1", ElectionCause.UNKNOWN),
        ("?", ElectionCause.UNKNOWN),
    ],
)
@pytest.mark.parametrize("epoch_first", [False, True])
def test_only_an_election_under_the_first_epoch_is_the_first(
    epoch: str | None, cause: ElectionCause, epoch_first: bool
) -> None:
    """Kafka creates /controller_epoch with 0, or with its first election; either may be read first."""
    history, fold = vacant_from_the_start(epoch=epoch)
    history.epoch = int(epoch or 0) if epoch != "?" else 8
    history.elect(1, seen=False)
    for path in sorted(("/controller", "/controller_epoch"), reverse=epoch_first):
        history.report(path)
    assert only(fold.follow(history), ControllerElected).cause is cause


def test_a_log_that_begins_with_an_election_does_not_call_it_the_first() -> None:
    """Before a first resync has ended it is not known who was controller."""
    history, fold = History(), Fold()
    fold.state.control.log.baseline = True
    history.elect(1)
    assert only(fold.follow(history), ControllerElected).cause is ElectionCause.UNKNOWN


def test_an_election_found_late_is_reported_with_its_own_time() -> None:
    """`at` is when it was found; counts and drawings take the time that ZooKeeper gives it."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    held_at = history.heartbeat().observed_at
    history.delete("/controller", seen=False)
    history.elect(1, seen=False)
    elected_at = history.now
    history.now += 3_600_000
    history.resync()
    reported = only(fold.follow(history), ControllerElected)
    assert (reported.elected_at, reported.at) == (elected_at, elected_at + 3_600_001)
    assert reported.vacancy_max_ms == reported.at - held_at
    history.delete("/controller", seen=False)
    history.now += 60_000
    history.resync()
    vacated = only(fold.follow(history), ControllerVacated)
    assert (vacated.held_until, vacated.at) == (reported.at, reported.at + 60_010)


def test_a_vacancy_in_which_an_election_was_missed_is_known_since_then() -> None:
    """Somebody was the controller while nobody watched: nobody is known to be it only since that was found."""
    history, fold = vacant_from_the_start(epoch="3")
    began = fold.state.control.controller.view.vacant_since
    history.epoch = 3
    history.elect(1, seen=False)
    history.delete("/controller", seen=False)
    history.now += 3_600_000
    history.resync()
    found = history.heartbeat().observed_at
    fold.follow(history)
    view = fold.state.control.controller.view
    assert began is not None
    assert (view.missed_elections, view.vacant_since) == (1, found)
    history.now += 5_000 - 10
    history.elect(2)
    reported = only(fold.follow(history), ControllerElected)
    assert (reported.vacancy_min_ms, reported.vacancy_max_ms) == (5_000, None)


def test_a_vacancy_that_is_seen_to_begin_needs_no_other_time() -> None:
    """The controller was held until the moment of the event."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    history.delete("/controller")
    assert only(fold.follow(history), ControllerVacated).held_until is None


@pytest.mark.parametrize("is_swept", [True, False])
def test_the_upper_bound_of_a_vacancy_includes_a_resync(is_swept: bool) -> None:
    """Whether the resync sweeps /controller or its end is read inside: the vacancy may reach back to the last time held."""
    history = small_cluster()
    history.heartbeat(session=SessionState.CONNECTED)
    held_at = history.now
    history.now += 7_000
    history.start_resync()
    if is_swept:
        history.delete("/controller", seen=False)
        for path in history.znodes:
            history.report(path)
    else:
        for path in history.znodes:
            history.report(path)
        history.delete("/controller")
    history.now += 3_000
    history.finish_resync()
    found_at = history.now if is_swept else history.now - 3_000
    history.now += 2_000
    history.elect(1)
    fold = Fold()
    fold.follow(history)
    controller = fold.state.control.controller
    assert controller.view.vacancy_last_min_ms == history.now - found_at
    assert controller.view.vacancy_last_max_ms == history.now - held_at > history.now - found_at
    assert only(fold.events, ControllerElected).vacancy_ms is None
