"""What the simulated cluster does when sessions expire."""

from __future__ import annotations

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
