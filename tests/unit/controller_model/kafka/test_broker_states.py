"""Broker states: Kafka's numbers and names, who may follow whom, and what is inferred."""

from __future__ import annotations

import itertools

import pytest

from controller_model.kafka.broker_states import (
    SHOWN,
    VALID_PREVIOUS,
    BrokerState,
    Registration,
    generated_ids,
    infer_state,
    register,
)

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
