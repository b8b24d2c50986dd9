"""What the fold infers about brokers."""

from __future__ import annotations

import pytest

from controller_model.records.views import BrokerRecord
from controller_model.sources.zookeeper.brokers import (
    BrokerState,
)
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.held_broker import HeldBroker
from tests.support.histories import Fold, small_cluster

S = BrokerState


def test_generated_ids_are_counted_from_the_znodes_version() -> None:
    """None without the znode; each set of it adds one; without a version in the log none is known."""
    history, fold = small_cluster(), Fold()
    fold.follow(history)
    assert fold.cluster_view().config.generated_broker_ids == 0
    history.set("/brokers/seqid", b"")
    fold.follow(history)
    assert fold.cluster_view().config.generated_broker_ids == 0
    history.set("/brokers/seqid", b"")
    history.set("/brokers/seqid", b"")
    fold.follow(history)
    assert fold.cluster_view().config.generated_broker_ids == 2


@pytest.mark.parametrize(
    ("live", "drained", "state"),
    [
        (True, 0, S.RUNNING_AS_BROKER),
        (True, 1, S.PENDING_CONTROLLED_SHUTDOWN),
        (False, 0, S.NOT_RUNNING),
        (False, 1, S.NOT_RUNNING),
    ],
)
def test_a_broker_state_is_inferred_from_registration_and_drained_isrs(
    live: bool, drained: int, state: BrokerState
) -> None:
    """Registered and emptied by the controller: about to stop. Otherwise it runs while it is registered."""
    control = ControlPlane("prod", assumed=Assumed(), counters_since=0)
    control.put_broker(1, HeldBroker(BrokerRecord(live=live), drained=drained))
    assert ZOOKEEPER.broker_state(control, 1) is state


def test_states_are_inferred_from_the_fold() -> None:
    """Running; emptied by the controller: pending; in an ISR with others again: running; gone."""
    history, fold = small_cluster(), Fold()
    fold.follow(history)
    control = fold.state.control
    assert {ZOOKEEPER.broker_state(control, each) for each in control.brokers} == {
        S.RUNNING_AS_BROKER
    }
    assert ZOOKEEPER.broker_state(control, 99) is None
    history.state("t", 0, leader=0, isr=[0, 2], leader_epoch=1)
    history.state("t", 1, leader=2, isr=[2, 0], leader_epoch=1)
    fold.follow(history)
    assert fold.broker_view(1).inferred_state == "PendingControlledShutdown"
    assert fold.broker_view(0).inferred_state == "RunningAsBroker"
    history.state("t", 1, leader=2, isr=[2, 0, 1], leader_epoch=1)
    fold.follow(history)
    assert fold.broker_view(1).inferred_state == "RunningAsBroker"
    history.broker_gone(1)
    fold.follow(history)
    assert fold.broker_view(1).inferred_state == "NotRunning"


def test_being_alone_in_an_isr_does_not_hide_a_shutdown() -> None:
    """A partition of replication factor 1 cannot be moved: the broker keeps it to the end."""
    history, fold = small_cluster(t={0: (0, 1)}, solo={0: (1,)}), Fold()
    fold.follow(history)
    history.state("t", 0, leader=0, isr=[0], leader_epoch=1)
    fold.follow(history)
    assert fold.broker_view(1).inferred_state == "PendingControlledShutdown"


def test_one_isr_with_one_other_is_enough_to_run() -> None:
    """A controlled shutdown leaves the broker in no ISR that has other members."""
    history, fold = small_cluster(t={0: (0, 1)}, kept={0: (0, 1)}), Fold()
    fold.follow(history)
    history.state("t", 0, leader=0, isr=[0], leader_epoch=1)
    fold.follow(history)
    assert fold.broker_view(1).inferred_state == "RunningAsBroker"
