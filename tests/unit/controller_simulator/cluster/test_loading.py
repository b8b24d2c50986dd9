"""A cluster that is loaded from znodes continues as the one that wrote them would."""

from __future__ import annotations

import random

import pytest

from controller_simulator.cluster.operations import KillBroker, StartBroker
from controller_simulator.cluster.settings import SimulatorSettings
from controller_simulator.controller.phases import Phase
from controller_simulator.zookeeper.transactions import DeleteZnode
from controller_simulator.zookeeper.tree import ZnodeTree
from tests.support.random_operations import RandomChoices, RandomOperations
from tests.support.scripted_operations import CreateTopic
from tests.support.scripted_simulator import ScriptedSimulator, load_scripted
from tests.support.simulated_cluster import cluster_of
from tests.support.znode_log import take_over


def copy_of(tree: ZnodeTree) -> ZnodeTree:
    """Return another tree with the same content and history."""
    copied = ZnodeTree()
    for commit in tree.commits:
        take_over(copied, commit)
    return copied


def test_loading_writes_nothing() -> None:
    """The controller continues with its epoch; its brokers keep their sessions."""
    cluster = cluster_of(CreateTopic("t", ((1, 2), (2, 1))), KillBroker(2))
    taken = load_scripted(copy_of(cluster.tree))
    assert taken.commits == cluster.commits
    assert taken.live == (0, 1)
    assert taken.controller is taken.brokers[0]
    life, original = taken.brokers[0].life, cluster.brokers[0].life
    assert life == original
    assert taken.brokers[1].life.phase is Phase.STANDBY
    assert taken.brokers[1].life.active_controller_id == 0
    assert taken.brokers[1].session == cluster.brokers[1].session
    taken.perform(StartBroker(2))
    assert taken.brokers[2].session > cluster.brokers[2].session


def test_a_tree_without_a_controller_loads_without_one() -> None:
    """/controller is gone and no broker has noticed yet: the next broker that starts takes it."""
    cluster = cluster_of(CreateTopic("t", ((1, 2),)))
    tree = copy_of(cluster.tree)
    tree.write(DeleteZnode("/controller"))
    taken = load_scripted(tree)
    assert taken.controller is None
    assert {run.life.phase for run in taken.brokers.values()} == {Phase.STANDBY}
    taken.perform(StartBroker(3))
    assert taken.controller is taken.brokers[3]
    assert taken.tree.data("/controller_epoch") == "2"


@pytest.mark.parametrize("seed", range(20))
def test_a_random_history_can_be_loaded_and_continued(seed: int) -> None:
    """After any operations a simulator can continue from a copy of the cluster's znodes."""
    dice = random.Random(seed).choice  # noqa: S311  # a simulation, not a secret
    settings = SimulatorSettings(alter_partition=seed % 2 == 0)
    cluster = ScriptedSimulator(choices=RandomChoices(dice), settings=settings)
    life = RandomOperations(dice)
    for _ in range(40):
        cluster.perform(life.draw(cluster))
    taken = load_scripted(copy_of(cluster.tree), settings=settings, choices=RandomChoices(dice))
    for _ in range(20):
        taken.perform(life.draw(taken))
    assert taken.commits[: len(cluster.commits)] == cluster.commits
