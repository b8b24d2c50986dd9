"""Without choices of its own, a cluster is the same at every run."""

from __future__ import annotations

from controller_simulator.cluster.operations import DeleteController
from tests.support.simulated_cluster import TOPIC, cluster_of


def test_without_choices_the_lowest_broker_wins() -> None:
    """Without choices of a caller the cluster is the same at every run."""
    first, second = cluster_of(TOPIC, DeleteController()), cluster_of(TOPIC, DeleteController())
    assert first.commits == second.commits
    assert first.controller is not None
    assert first.controller.id == 0
    assert first.tree.data("/controller_epoch") == "2"
