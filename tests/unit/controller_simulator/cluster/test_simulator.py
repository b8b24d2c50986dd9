"""What the simulated cluster does when sessions expire."""

from __future__ import annotations

from controller_simulator.cluster.operations import KillBroker
from controller_simulator.controller.phases import Phase
from tests.support.scripted_operations import CreateTopic, ExpireSession
from tests.support.simulated_cluster import T0, T1, cluster_of, paths, state, written_by


def test_a_broker_that_loses_its_session_registers_again() -> None:
    """Its partitions get other leaders, and it returns under a new broker epoch without a start."""
    cluster = cluster_of(CreateTopic("t", ((2, 1), (1, 2))))
    before = cluster.tree.at("/brokers/ids/2").czxid
    writes = written_by(cluster, ExpireSession(2))
    assert paths(writes) == [
        "Removed /brokers/ids/2",
        "Changed /brokers/topics/t/partitions/0/state",
        "Changed /brokers/topics/t/partitions/1/state",
        "Created /brokers/ids/2",
        "Changed /brokers/ids/2",
        "Changed /brokers/topics/t/partitions/0/state",
        "Changed /brokers/topics/t/partitions/1/state",
    ]
    assert state(cluster, T0) == (1, [1, 2], 1, 2)
    assert state(cluster, T1) == (1, [1, 2], 1, 2)
    assert cluster.tree.at("/brokers/ids/2").czxid > before
    assert cluster.brokers[2].manager.broker_epoch == cluster.tree.at("/brokers/ids/2").czxid
    assert cluster.tree.data("/controller_epoch") == "1"


def test_a_controller_that_loses_its_session_is_replaced_before_it_wakes() -> None:
    """Another broker is elected, with the next epoch; the old one resigns and watches."""
    cluster = cluster_of(CreateTopic("t", ((0, 1),)))
    writes = written_by(cluster, ExpireSession(None))
    assert paths(writes)[:4] == [
        "Removed /brokers/ids/0",
        "Removed /controller",
        "Created /controller",
        "Changed /controller_epoch",
    ]
    assert cluster.controller is cluster.brokers[1]
    life = cluster.brokers[0].life
    assert (life.phase, life.active_controller_id, life.epoch) == (Phase.STANDBY, 1, 0)
    assert state(cluster) == (1, [1, 0], 2, 3)


def test_the_only_broker_is_elected_again_with_its_new_session() -> None:
    """In between there is no controller, so nothing writes that its partitions are offline."""
    cluster = cluster_of(CreateTopic("t", ((0,),)), brokers=1)
    assert cluster.perform(ExpireSession(0)) is None
    assert cluster.tree.data("/controller_epoch") == "2"
    assert cluster.brokers[0].life.phase is Phase.ACTIVE
    assert state(cluster) == (0, [0], 0, 0)
    cluster.perform(KillBroker(0))
    assert cluster.perform(ExpireSession(None)) == "there is no controller"
