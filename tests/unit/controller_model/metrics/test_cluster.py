"""The figures of the controller and of partitions as samples."""

from __future__ import annotations

from controller_model.records.views import ControllerView
from tests.support.metric_samples import of_cluster
from tests.support.samples import cluster_view


def test_exactly_the_controller_is_active() -> None:
    """One live broker is the active controller, or none; a holder that is not registered counts too."""
    name = "kafka_controller_active"
    assert of_cluster(name, cluster_view()) == [(("0", "0"), 1), (("1", "1"), 0)]
    vacant = cluster_view(controller=ControllerView())
    assert sum(value for _, value in of_cluster(name, vacant)) == 0
    stranger = cluster_view(controller=ControllerView(id=9))
    assert (("9", "9"), 1) in of_cluster(name, stranger)
