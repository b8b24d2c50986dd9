"""Broker states: Kafka's numbers and names, who may follow whom, and what is inferred."""

from __future__ import annotations

import itertools

import pytest

from controller_model.handlers.broker_inference import (
    coordinated,
    generated_broker_ids,
    inferred_states,
)
from controller_model.kafka.broker_states import (
    SHOWN,
    VALID_PREVIOUS,
    BrokerState,
    Registration,
    generated_ids,
    infer_state,
    register,
)
from controller_model.kafka.coordinators import COORDINATOR_OF, coordinated_by, partition_for
from controller_model.state.broker_record import BrokerRecord
from tests.support.histories import Fold, small_cluster

S = BrokerState
STEPS = {
    (S.NOT_RUNNING, S.STARTING),
    (S.STARTING, S.RECOVERING_FROM_UNCLEAN_SHUTDOWN),
    (S.STARTING, S.RUNNING_AS_BROKER),
    (S.RECOVERING_FROM_UNCLEAN_SHUTDOWN, S.RUNNING_AS_BROKER),
    (S.RUNNING_AS_BROKER, S.PENDING_CONTROLLED_SHUTDOWN),
    (S.STARTING, S.BROKER_SHUTTING_DOWN),
    (S.RECOVERING_FROM_UNCLEAN_SHUTDOWN, S.BROKER_SHUTTING_DOWN),
    (S.RUNNING_AS_BROKER, S.BROKER_SHUTTING_DOWN),
    (S.PENDING_CONTROLLED_SHUTDOWN, S.BROKER_SHUTTING_DOWN),
    (S.STARTING, S.NOT_RUNNING),
    (S.RECOVERING_FROM_UNCLEAN_SHUTDOWN, S.NOT_RUNNING),
    (S.RUNNING_AS_BROKER, S.NOT_RUNNING),
    (S.PENDING_CONTROLLED_SHUTDOWN, S.NOT_RUNNING),
    (S.BROKER_SHUTTING_DOWN, S.NOT_RUNNING),
}
"""Written out by hand from the drawing in kafka.server.BrokerStates, and what a death does."""


def test_numbers_and_names_are_kafkas() -> None:
    """What the BrokerState gauge of each broker shows."""
    assert {state.value: state.kafka_name for state in BrokerState} == {
        0: "NotRunning",
        1: "Starting",
        2: "RecoveringFromUncleanShutdown",
        3: "RunningAsBroker",
        6: "PendingControlledShutdown",
        7: "BrokerShuttingDown",
    }


@pytest.mark.parametrize(("before", "after"), [*itertools.product(BrokerState, BrokerState)])
def test_every_pair_of_states(before: BrokerState, after: BrokerState) -> None:
    """The table allows exactly the steps that are written out here."""
    assert (before in VALID_PREVIOUS[after]) == ((before, after) in STEPS)


def test_each_state_says_whether_it_may_be_registered() -> None:
    """Only the recovery of logs is always done before a broker registers; each says why."""
    assert set(SHOWN) == set(BrokerState)
    never = {state for state, shown in SHOWN.items() if not shown.may_be_registered}
    assert never == {S.RECOVERING_FROM_UNCLEAN_SHUTDOWN}
    assert all(shown.because for shown in SHOWN.values())


@pytest.mark.parametrize(
    ("registered", "drained", "state"),
    [
        (True, False, S.RUNNING_AS_BROKER),
        (True, True, S.PENDING_CONTROLLED_SHUTDOWN),
        (False, False, S.NOT_RUNNING),
        (False, True, S.NOT_RUNNING),
    ],
)
def test_what_is_inferred(registered: bool, drained: bool, state: BrokerState) -> None:
    """The likely state, and beside it every other one that ZooKeeper would show alike."""
    inferred = infer_state(registered=registered, drained=drained)
    assert inferred.state is state
    possible = {s for s in S if SHOWN[s].may_be_registered or not registered}
    assert set(inferred.or_else) == possible - {state}
    assert list(inferred.or_else) == sorted(inferred.or_else)


@pytest.mark.parametrize(
    ("owner", "session", "former", "ends"),
    [
        (None, 7, None, Registration.CREATED),
        (None, 7, 5, Registration.CREATED),
        (7, 7, None, Registration.MINE),
        (7, 7, 7, Registration.MINE),
        (5, 7, 5, Registration.RECREATED),
        (5, 7, None, Registration.NODE_EXISTS),
        (5, 7, 7, Registration.NODE_EXISTS),
    ],
)
def test_how_a_registration_ends(
    owner: int | None, session: int, former: int | None, ends: Registration
) -> None:
    """Nobody there, ourselves, what our expired session left, or another process of our id."""
    assert register(owner=owner, session=session, former_session=former) is ends


def test_generated_ids_begin_above_the_reserved_ones() -> None:
    """The version of /brokers/seqid counts them."""
    assert list(generated_ids(0)) == []
    assert list(generated_ids(3, reserved=10)) == [11, 12, 13]


def test_generated_ids_are_counted_from_the_znodes_version() -> None:
    """Without the znode none; each set of it is one more; a log that tells no version knows none."""
    history, fold = small_cluster(), Fold()
    fold.follow(history)
    assert fold.cluster_view().generated_broker_ids == 0
    history.set("/brokers/seqid", b"")
    fold.follow(history)
    assert fold.cluster_view().generated_broker_ids == 0
    history.set("/brokers/seqid", b"")
    history.set("/brokers/seqid", b"")
    fold.follow(history)
    assert fold.cluster_view().generated_broker_ids == 2
    fold.state.control.stats["/brokers/seqid"].version = -1
    assert generated_broker_ids(fold.state.control) == 0


def test_states_are_inferred_from_the_fold() -> None:
    """Running; emptied by the controller: pending; in sync with others again: running; gone."""
    history, fold = small_cluster(), Fold()
    fold.follow(history)
    assert set(inferred_states(fold.state.control).values()) == {S.RUNNING_AS_BROKER}
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


def test_an_id_that_is_only_assigned_has_no_state() -> None:
    """Replicas on a broker that never registered: nothing is known of it."""
    history, fold = small_cluster(t={0: (0, 9)}), Fold()
    fold.follow(history)
    assert fold.broker_view(9).inferred_state is None


def test_leaders_of_internal_topics_coordinate() -> None:
    """Partitions without a leader have no coordinator; a topic that is not there has no entry."""
    assert {topic: kind.value for topic, kind in COORDINATOR_OF.items()} == {
        "__consumer_offsets": "group",
        "__transaction_state": "transaction",
    }
    assert coordinated_by([0, None, -1, -2, 0, 3]) == {0: 2, 3: 1}
    offsets = {0: (0, 1), 1: (1, 0), 2: (0, 1)}
    history, fold = small_cluster(__consumer_offsets=offsets, t={0: (2,)}), Fold()
    fold.follow(history)
    assert coordinated(fold.state.control, 0) == {"group": 2}
    assert fold.broker_view(1).coordinated == {"group": 1}
    assert fold.broker_view(2).coordinated == {"group": 0}
    history.state("__consumer_offsets", 1, leader=0, isr=[0], leader_epoch=1)
    fold.follow(history)
    assert fold.broker_view(0).coordinated == {"group": 3}
    history.topic_gone("__consumer_offsets")
    fold.follow(history)
    assert fold.broker_view(0).coordinated == {}


def test_both_coordinators_are_told_in_one_order() -> None:
    """Groups before transactions, whichever topic was made first."""
    topics = {"__transaction_state": {0: (0,)}, "__consumer_offsets": {0: (1,)}}
    history, fold = small_cluster(**topics), Fold()
    fold.follow(history)
    assert list(fold.broker_view(0).coordinated.items()) == [("group", 0), ("transaction", 1)]


@pytest.mark.parametrize(
    ("name", "partition"),
    [("payments", 13), ("polygenelubricants", 0), ("g1", 42), ("console-consumer-1", 24)],
)
def test_a_group_lives_where_kafka_puts_it(name: str, partition: int) -> None:
    """Utils.abs of Kafka 3.9 gave these, the smallest hash code included."""
    assert partition_for(name, 50) == partition


def test_a_record_begins_without_a_failed_directory() -> None:
    """Nothing is concluded of a broker that nothing is known of."""
    assert (BrokerRecord().log_dir_failed, BrokerRecord().log_dir_failures) == (False, 0)


def test_a_broker_without_replicas_runs() -> None:
    """Nothing was taken from it, and nothing can be."""
    history, fold = small_cluster(t={0: (0, 1)}), Fold()
    fold.follow(history)
    assert fold.broker_view(2).inferred_state == "RunningAsBroker"


def test_one_isr_with_one_other_is_enough_to_run() -> None:
    """A controlled shutdown leaves no ISR that others are in."""
    history, fold = small_cluster(t={0: (0, 1)}, kept={0: (0, 1)}), Fold()
    fold.follow(history)
    history.state("t", 0, leader=0, isr=[0], leader_epoch=1)
    fold.follow(history)
    assert fold.broker_view(1).inferred_state == "RunningAsBroker"
