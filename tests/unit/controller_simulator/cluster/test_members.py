"""Brokers that join, leave and shut down."""

from __future__ import annotations

from controller_simulator.cluster.operations import KillBroker, StartBroker, StopBroker
from tests.support.scripted_operations import CreateTopic
from tests.support.simulated_cluster import cluster_of, paths, state, written_by


def test_a_leader_that_no_broker_can_replace_stops_after_three_attempts() -> None:
    """Asked three times, the controller cannot move the leader. Then the broker ends, and the leader is -1."""
    cluster = cluster_of(CreateTopic("t", ((2, 1),)), KillBroker(1))
    assert state(cluster) == (2, [2], 1, 1)
    writes = written_by(cluster, StopBroker(2))
    assert paths(writes) == [
        "Removed /brokers/ids/2",
        "Changed /brokers/topics/t/partitions/0/state",
    ]
    assert state(cluster) == (-1, [2], 2, 2)


def test_an_unseen_restart_is_a_bounce() -> None:
    """A larger czxid for the same id is a failure and a start: its partitions get other leaders."""
    cluster = cluster_of(CreateTopic("t", ((2, 1),)))
    run = cluster.brokers[2]
    cluster.tree.close_session(run.session)
    cluster.forget(run)
    cluster.perform(StartBroker(2))
    assert state(cluster) == (1, [1, 2], 1, 2)


def test_without_controlled_shutdown_a_stop_is_a_death() -> None:
    """The leaders move when the broker has ended, not before."""
    cluster = cluster_of(CreateTopic("t", ((2, 1),)), controlled_shutdown=False)
    writes = written_by(cluster, StopBroker(2))
    assert paths(writes)[0] == "Removed /brokers/ids/2"
    assert state(cluster) == (1, [1], 1, 1)
