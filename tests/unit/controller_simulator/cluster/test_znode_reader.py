"""What the simulated brokers read in ZooKeeper has the same effect as on real ones."""

from __future__ import annotations

from controller_simulator.cluster.operations import KillBroker, StartBroker
from tests.support.scripted_operations import CreateTopic
from tests.support.simulated_cluster import cluster_of, state


def test_unclean_election_may_be_the_brokers_default() -> None:
    """Then it needs no setting of the topic, and the topic may forbid it."""
    story = (KillBroker(2), KillBroker(1), StartBroker(2))
    lossy = cluster_of(CreateTopic("t", ((1, 2),)), *story, unclean_leader_election=True)
    assert state(lossy)[:2] == (2, [2])
    forbidden = {"unclean.leader.election.enable": "false"}
    safe = cluster_of(CreateTopic("t", ((1, 2),), forbidden), *story, unclean_leader_election=True)
    assert state(safe)[:2] == (-1, [1])
