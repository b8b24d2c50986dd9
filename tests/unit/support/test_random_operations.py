"""A random run uses every operation, and the same dice give the same run."""

from __future__ import annotations

import random
from typing import Any

from controller_simulator.cluster.operations import (
    DeleteController,
    DeleteTopic,
    ElectPreferred,
    ElectUnclean,
    KillBroker,
    Reassign,
    StartBroker,
    StopBroker,
)
from controller_simulator.cluster.settings import SimulatorSettings
from tests.support.random_operations import RandomChoices, RandomOperations
from tests.support.scripted_operations import (
    AlterTopicConfig,
    BounceBroker,
    CreatePartitions,
    CreateTopic,
    ElectPreferredByZnode,
    ExpireSession,
    FailLogDir,
    ReassignByZnode,
    ScriptedOperation,
    StallBroker,
)
from tests.support.scripted_simulator import ScriptedSimulator


def life(seed: int, **settings: Any) -> tuple[ScriptedSimulator, set[str]]:
    """Return a cluster after a random run, and the kinds of its operations."""
    dice = random.Random(seed).choice  # noqa: S311  # a play, not a secret
    cluster = ScriptedSimulator(choices=RandomChoices(dice), settings=SimulatorSettings(**settings))
    operations = RandomOperations(dice)
    kinds = set()
    for _ in range(120):
        operation = operations.draw(cluster)
        kinds.add(type(operation).__name__)
        cluster.perform(operation)
    return cluster, kinds


def test_random_operations_include_every_kind() -> None:
    """Each kind of operation is drawn, and the same dice give the same writes."""
    cluster, kinds = life(1)
    again, _ = life(1)
    other, more = life(2, alter_partition=False, auto_leader_rebalance=True)
    assert {type(o).__name__ for o in kinds_of_operations()} == kinds | more
    assert again.commits == cluster.commits
    assert other.commits != cluster.commits


def kinds_of_operations() -> list[ScriptedOperation]:
    """Return one operation of each kind."""
    return [
        StartBroker(0), StopBroker(0), KillBroker(0), BounceBroker(0), StallBroker(0, ()),
        ExpireSession(0), CreateTopic("t", ()), CreatePartitions("t", ()), DeleteTopic("t"),
        AlterTopicConfig("t", {}), Reassign(()), ElectPreferred(), ElectUnclean(),
        ElectPreferredByZnode(()), ReassignByZnode(()), DeleteController(), FailLogDir(0, ()),
    ]  # fmt: skip
