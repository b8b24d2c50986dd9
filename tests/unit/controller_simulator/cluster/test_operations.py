"""A script of operations can be stored as text, and run on any cluster, again and again."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.operations import (
    DeleteController,
    DeleteTopic,
    ElectPreferred,
    ElectUnclean,
    KillBroker,
    Operation,
    Reassign,
    StartBroker,
    StopBroker,
)

T0 = TopicPartition("t", 0)
SCRIPT: list[tuple[Operation, str | None]] = [
    (DeleteController(), None),
    (DeleteTopic("t"), "NOT_CONTROLLER"),
    (Reassign(((T0, (1, 2)), (T0, None))), "NOT_CONTROLLER"),
    (ElectPreferred(), "NOT_CONTROLLER"),
    (ElectUnclean((T0,)), "NOT_CONTROLLER"),
    (StopBroker(1), "broker 1 does not run"),
    (KillBroker(1), "broker 1 does not run"),
    (StartBroker(1), None),
    (StartBroker(1), "broker 1 runs"),
    (DeleteTopic("t"), "UNKNOWN_TOPIC_OR_PARTITION"),
    (Reassign(((T0, (1,)),)), "UNKNOWN_TOPIC_OR_PARTITION"),
    (ElectPreferred(), None),
    (ElectUnclean(), None),
    (StopBroker(1), None),
    (KillBroker(1), "broker 1 does not run"),
]
"""Operations for an empty cluster, each with the reason for which it is refused; None: it is not."""


def test_every_operation_is_in_the_script() -> None:
    """So a new operation has to be added to the script."""
    assert {type(operation) for operation, _ in SCRIPT} == set(get_args(Operation))


@pytest.mark.parametrize("operation", [each for each, _ in SCRIPT])
def test_an_operation_comes_back_from_its_text(operation: Operation) -> None:
    """Whichever operation it is: its text contains its type."""
    kept = msgspec.json.encode(operation)
    assert msgspec.json.decode(kept, type=Operation) == operation
