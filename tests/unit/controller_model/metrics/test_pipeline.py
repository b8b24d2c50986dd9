"""The figures about the monitor's own work as samples."""

from __future__ import annotations

from controller_model.metrics.metric import Moment
from controller_model.metrics.pipeline import NOW
from controller_model.records.completeness import Completeness, Stage, Status
from tests.support.metric_samples import of_cluster
from tests.support.samples import cluster_view, log_view


def test_nothing_is_complete_before_the_first_proof() -> None:
    """Otherwise a first resync that never ends would be reported as complete forever."""
    view = cluster_view(log=log_view(verified_at=None))
    assert of_cluster("kcm_cluster_incomplete", view) == [((), 1)]


def test_each_stage_that_is_known_has_its_delay() -> None:
    """In seconds; a stage whose delay is not known has no sample."""
    behind = NOW["kcm_cluster_behind_seconds"]
    assert behind.labels == ("stage",)
    moment = Moment(
        completeness=Completeness(status=Status.LIVE, since=None, stage=None, verified_at=None),
        behind_ms={Stage.WATCHER: 1_500, Stage.FOLD: 0},
        vacant_ms=None,
    )
    assert list(behind.read(moment)) == [((str(Stage.WATCHER),), 1.5), ((str(Stage.FOLD),), 0)]
