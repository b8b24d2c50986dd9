"""A race in a step is reported as one, with what the rehearsal assumes."""

from __future__ import annotations

import pytest

from controller_simulator.cluster.operations import (
    DeleteController,
    KillBroker,
    Reassign,
    StartBroker,
)
from controller_simulator.cluster.simulator import ZooKeeperModeSimulator
from rehearsal.observer import StepObserver
from rehearsal.races import races_of
from rehearsal.report import Race
from rehearsal.steps import Act


def _observer(isr_changes: int = 0) -> StepObserver:
    observer = StepObserver(ZooKeeperModeSimulator())
    observer.isr_changes = isr_changes
    return observer


def test_several_candidates_race_for_the_controller() -> None:
    """All candidates are named, and the assumed winner; a single one is no race."""
    (race,) = races_of(DeleteController(), (1, 2, 10), 1, _observer())
    assert race.race is Race.CONTROLLER
    assert "brokers 1, 2, 10 race" in race.text
    assert race.text.endswith("assumes broker 1")
    assert not list(races_of(DeleteController(), (2,), 2, _observer()))
    assert not list(races_of(DeleteController(), (), None, _observer()))


def test_a_killed_broker_is_missed_only_when_its_session_ends() -> None:
    """That race is separate from the one for the controller."""
    races = list(races_of(KillBroker(3), (1, 2), 1, _observer()))
    assert [each.race for each in races] == [Race.CONTROLLER, Race.SESSION_END]
    assert "the session of broker 3" in races[1].text


@pytest.mark.parametrize(
    ("operation", "waits"),
    [(StartBroker(3), "followers catch up"), (Reassign(()), "the duration depends on the data")],
)
def test_the_order_of_catching_up_is_a_race_where_an_isr_changes(
    operation: Act, waits: str
) -> None:
    """Copies of a reassignment take as long as their data needs; followers that had a copy are faster."""
    (race,) = races_of(operation, (), None, _observer(isr_changes=1))
    assert race.race is Race.CATCH_UP
    assert race.text.startswith(waits)
    assert not list(races_of(operation, (), None, _observer()))
