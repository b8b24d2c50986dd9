"""Broker states: Kafka's numbers and names, and what is inferred."""

from __future__ import annotations

import pytest

from controller_model.kafka.broker_states import BrokerState, infer_state

S = BrokerState


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


@pytest.mark.parametrize(
    ("registered", "drained", "state"),
    [
        (True, False, S.RUNNING_AS_BROKER),
        (True, True, S.PENDING_CONTROLLED_SHUTDOWN),
        (False, False, S.NOT_RUNNING),
        (False, True, S.NOT_RUNNING),
    ],
)
def test_a_broker_state_is_inferred_from_registration_and_drained_isrs(
    registered: bool, drained: bool, state: BrokerState
) -> None:
    """Registered and emptied by the controller: about to stop. Otherwise it runs while it is registered."""
    assert infer_state(registered=registered, drained=drained) is state
