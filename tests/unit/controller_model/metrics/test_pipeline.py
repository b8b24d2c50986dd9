"""The figures about the monitor's own work as samples."""

from __future__ import annotations

from tests.support.metric_samples import of_cluster
from tests.support.samples import cluster_view, log_view


def test_nothing_is_complete_before_the_first_proof() -> None:
    """A first resync that never ends would else be called complete for ever."""
    view = cluster_view(log=log_view(verified_at=None))
    assert of_cluster("kcm_cluster_incomplete", view) == [((), 1)]
