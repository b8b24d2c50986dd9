"""The figures of brokers, computed from the totals."""

from __future__ import annotations

import pytest

from controller_model.state.control_plane import Assumed
from tests.support.histories import begun


def test_the_loss_of_a_broker_is_predicted() -> None:
    """Partitions with no other replica in the ISR, and those that would be under their min ISR."""
    history, fold = begun()
    history.state("t", 0, leader=0, isr=[0])
    history.state("t", 1, leader=1, isr=[1, 0])
    history.set("/config/topics/t", {"version": 1, "config": {"min.insync.replicas": "2"}})
    fold.follow(history)
    view = fold.broker_view(0)
    assert (view.in_isr, view.offline_if_lost, view.under_min_isr_if_lost) == (2, 1, 1)


def test_a_partition_at_min_isr_counts_as_a_loss_only_while_it_lacks_a_replica() -> None:
    """One whose min.insync.replicas equals its replicas is at it even if all is well."""
    history, fold = begun(t={0: (0, 1)}, s={0: (0,)})
    history.state("t", 0, leader=0, isr=[0, 1])
    history.state("s", 0, leader=0, isr=[0])
    fold.follow(history)
    counts = fold.counts()
    assert (counts.at_min_isr, counts.under_replicated_at_min_isr) == (1, 0)
    history.state("t", 0, leader=0, isr=[0])
    fold.follow(history)
    counts = fold.counts()
    assert (counts.at_min_isr, counts.under_replicated_at_min_isr) == (2, 1)
    assert (counts.under_replicated, counts.under_replicated_reassigning) == (1, 0)


def test_figures_without_a_known_min_insync_replicas_are_unknown() -> None:
    """min.insync.replicas in the brokers' own files: no figure is computed from an assumed value."""
    history, fold = begun(t={0: (0, 1)}, s={0: (0,)})
    fold.state.control.assumed = Assumed()
    history.state("t", 0, leader=0, isr=[0, 1])
    history.state("s", 0, leader=0, isr=[0])
    fold.follow(history)
    counts, view = fold.counts(), fold.broker_view(1)
    assert (counts.under_min_isr, counts.at_min_isr, counts.min_isr_blocks) == (None, None, None)
    assert (view.under_min_isr_if_lost, view.safe_to_stop) == (None, None)
    history.set("/config/topics/t", {"version": 1, "config": {"min.insync.replicas": "1"}})
    fold.follow(history)
    counts, view = fold.counts(), fold.broker_view(1)
    assert (counts.under_min_isr, counts.at_min_isr, counts.min_isr_blocks) == (0, 1, 0)
    assert (view.under_min_isr_if_lost, view.safe_to_stop) == (0, True)


def test_a_sure_loss_is_known_without_min_insync_replicas() -> None:
    """A broker that is the only ISR member of a partition is not safe to stop, even if more is not known."""
    history, fold = begun(t={0: (0, 1), 1: (0, 1)})
    fold.state.control.assumed = Assumed()
    history.state("t", 0, leader=0, isr=[0])
    history.state("t", 1, leader=0, isr=[0, 1])
    fold.follow(history)
    view = fold.broker_view(0)
    assert (view.offline_if_lost, view.under_min_isr_if_lost) == (1, None)
    assert view.safe_to_stop is False


def test_what_a_refused_controller_does_not_elect_counts_once() -> None:
    """What its broker leads is offline, whoever else is in sync, and nothing besides."""
    history, fold = begun(t={0: (0, 1), 1: (0, 1)})
    history.state("t", 0, leader=0, isr=[0])
    history.set("/config/topics/t", {"version": 1, "config": {"min.insync.replicas": "2"}})
    fold.follow(history)
    fold.state.control.controller.view.refused_below = 9
    view = fold.broker_view(0)
    assert (view.offline_if_lost, view.under_min_isr_if_lost) == (2, 0)


@pytest.mark.parametrize("refused_below", [2, 3])
def test_the_loss_of_a_refused_controller_may_let_unclean_leaders_be_elected(
    refused_below: int,
) -> None:
    """Where brokers obey the next one, as its epoch is not below theirs; sizes of ISRs do not tell how many."""
    history, fold = begun(t={0: (0, 1)})
    history.set(
        "/config/topics/t",
        {"version": 1, "config": {"unclean.leader.election.enable": "true"}},
    )
    history.state("t", 0, leader=-1, isr=[0])
    fold.follow(history)
    controller = fold.state.control.controller.view
    controller.refused_below = refused_below
    assert (controller.id, controller.epoch) == (0, 1)
    is_obeyed = refused_below == 2
    views = [fold.broker_view(0), fold.broker_view(1)]
    assert [view.unclean_if_lost for view in views] == [None if is_obeyed else 0, 0]
    assert [view.safe_to_stop for view in views] == [None if is_obeyed else True, True]


def test_a_broker_that_is_gone_is_not_removed_from_an_isr_above_the_controllers_epoch() -> None:
    """The controller aborts the election (ZooKeeper mode), so no write is pending for it."""
    history, fold = begun(t={0: (0, 1), 1: (0, 1)})
    history.state("t", 0, leader=0, isr=[0, 1], controller_epoch=7)
    history.broker_gone(1)
    fold.follow(history)
    assert fold.cluster_view().pending_writes.counts["isr_removal"] == 1


def test_members_that_are_gone_are_counted_exactly_where_the_totals_allow_it() -> None:
    """Of ISRs that still name what is gone the totals hold sizes: one broker is in all of them, the other in one."""
    history, fold = begun(t={0: (0, 1, 2), 1: (0, 1, 3), 2: (0, 1, 3), 3: (0, 1, 3)})
    history.broker(3)
    for partition, third in enumerate((2, 3, 3, 3)):
        history.state("t", partition, leader=0, isr=[0, 1, third])
    history.set("/config/topics/t", {"version": 1, "config": {"min.insync.replicas": "2"}})
    history.broker_gone(1)
    history.broker_gone(2)
    fold.follow(history)
    view = fold.broker_view(0)
    assert (view.offline_if_lost, view.under_min_isr_if_lost) == (1, 3)
