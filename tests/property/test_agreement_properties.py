"""The comparison with real clusters repeats whatever chance decided there."""

from __future__ import annotations

import random

import pytest

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.operations import StartBroker
from controller_simulator.cluster.settings import SimulatorSettings
from tests.support.agreement import Agreement, Reason, agree
from tests.support.random_operations import Dice, RandomChoices, RandomOperations, partitions_of
from tests.support.recordings import QuietPoint, Recording
from tests.support.scripted_operations import CreateTopic, ScriptedOperation
from tests.support.scripted_simulator import ScriptedSimulator

BEGIN: tuple[ScriptedOperation, ...] = (
    StartBroker(0),
    StartBroker(1),
    StartBroker(2),
    CreateTopic("a", ((0, 1, 2), (1, 2, 0))),
)
OPERATIONS = 12
MAX_DROPS = 3
"""How often leaders drop followers during one operation."""
STALLED_CONTROLLER = 125
"""The seed of a recording in which a follower is slow while the controller cannot alter an ISR."""
STALLED_FOLLOWER = 147
"""The seed of one in which a follower that stalled comes back before one that was slow."""


class BusyMachine(RandomChoices):
    """The dice decide races, and at any moment which followers of a partition are too slow."""

    def __init__(self, dice: Dice, cluster: ScriptedSimulator) -> None:
        super().__init__(dice)
        self._cluster = cluster
        self._left = MAX_DROPS

    def falls_behind(self) -> tuple[TopicPartition, tuple[int, ...]] | None:
        """Return any followers in the ISR of any partition, or None."""
        if not self._left:
            return None
        self._left -= 1
        in_sync = [
            (partition, [b for b in leader.manager.partitions[partition].isr if b != leader.id])
            for leader in self._cluster.brokers.values()
            for partition in partitions_of(self._cluster)
            if leader.leads(partition)
        ]
        chosen = self._dice([None, *(each for each in in_sync if each[1])])
        if chosen is None:
            return None
        partition, followers = chosen
        slow = tuple(each for each in followers if self._dice([True, False]))
        return (partition, slow) if slow else None


def recorded(dice: Dice, settings: SimulatorSettings) -> Recording:
    """Return what a simulated cluster on a busy machine wrote."""
    cluster = ScriptedSimulator(settings=settings)
    quiet = []
    for place in range(OPERATIONS):
        cluster.choices = BusyMachine(dice, cluster)
        drawn = RandomOperations(dice).draw(cluster)
        operation = BEGIN[place] if place < len(BEGIN) else drawn
        cluster.perform(operation)
        quiet.append(QuietPoint(cluster.tree.zxid, operation))
    return Recording(tuple(cluster.commits), tuple(quiet))


def on_a_busy_machine(seed: int) -> Agreement:
    """Return how far the comparison repeats one random recording."""
    dice = random.Random(seed).choice  # noqa: S311 - a test's dice
    settings = SimulatorSettings(
        alter_partition=dice([True, False]),
        auto_leader_rebalance=dice([True, False]),
        unclean_leader_election=dice([True, False]),
        delete_topic=dice([True, True, True, False]),
    )
    return agree(recorded(dice, settings), settings)


@pytest.mark.parametrize("seed", [*range(40), STALLED_CONTROLLER, STALLED_FOLLOWER])
def test_a_recording_of_a_busy_machine_is_repeated(seed: int) -> None:
    """Followers that leave an ISR, alone or together and at any moment, make no difference."""
    agreement = on_a_busy_machine(seed)
    assert agreement.differences == []
    assert agreement.quiet_points == OPERATIONS


def test_slow_followers_are_counted_as_chance() -> None:
    """Each write of a leader that drops some is an outcome that is given."""
    given = [on_a_busy_machine(seed).given[Reason.SLOW_FOLLOWER] for seed in range(20)]
    assert sum(given) > len(given)
