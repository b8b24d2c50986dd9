"""A broker obeys its controller, and registers again with each session."""

from __future__ import annotations

from controller_simulator.cluster.events import StopReplicaResponse
from controller_simulator.cluster.operations import DeleteController
from controller_simulator.controller.requests import (
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
)
from tests.support.scripted_operations import CreateTopic
from tests.support.scripted_simulator import served
from tests.support.simulated_cluster import T0, cluster_of


def test_a_request_with_an_older_controller_epoch_is_refused_as_a_whole() -> None:
    """A broker that knows a newer epoch does not obey an older one, and its answer has no results."""
    cluster = cluster_of(CreateTopic("t", ((1, 2),)), DeleteController())
    run = cluster.brokers[1]
    hosted = served(run)
    old = LeaderAndIsrRequest(1, run.manager.broker_epoch, 0, 1, (), {}, ())
    assert run.receive(old, deleting=frozenset()) is None
    stop = StopReplicaPartition(T0, 5, delete=True)
    late = StopReplicaRequest(1, run.manager.broker_epoch, 0, 1, (stop,))
    assert run.receive(late, deleting=frozenset({"t"})) == StopReplicaResponse(1, (T0,), (T0,))
    assert hosted.keys() == {T0}
    assert served(run) == hosted
