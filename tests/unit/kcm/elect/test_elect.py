"""`kcm elect`: the text of a plan."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import TopicPartition
from kcm.elect.elect import Plan, plan_lines


@pytest.mark.parametrize(
    ("broker", "after", "reported"),
    [
        (None, 3, "imbalance   5, then 3"),
        (3, 3, "imbalance   5 of broker 3, then 3"),
        (None, None, "imbalance   5"),
    ],
)
def test_a_plan_names_the_broker_whose_imbalance_it_shows(
    broker: int | None, after: int | None, reported: str
) -> None:
    """It also gives the imbalance afterwards, where that is known."""
    plan = Plan([TopicPartition("t", 0)], [], broker, 5, after)
    assert plan_lines(plan, 1)[-1] == reported
