"""Incidents as samples."""

from __future__ import annotations

from controller_model.metrics.incidents import INCIDENTS
from tests.support.failing import begun, closed, quiet
from tests.support.metric_samples import of_cluster


def test_the_last_closed_incident_and_each_of_its_figures_are_samples() -> None:
    """One at a time, so that dashboards can show it; no figure is a label; none before the first."""
    history, fold = begun()
    last = INCIDENTS["kafka_cluster_incident_last_timestamp_seconds"]
    abnormal = INCIDENTS["kafka_cluster_incident_abnormal_timestamp_seconds"]
    assert list(last.read(fold.cluster_view())) == list(abnormal.read(fold.cluster_view())) == []
    history.delete("/controller")
    history.elect(0)
    fold.follow(history)
    quiet(history, fold)
    ended_at = closed(fold).last_abnormal_at / 1000
    ((labels, value),) = last.read(fold.cluster_view())
    assert value == ended_at
    assert dict(zip(last.labels, labels, strict=True)) == {
        "opened_by": "ControllerVacated",
        "end": "recovered",
    }
    figures = {
        name: list(samples.read(fold.cluster_view()))
        for name, samples in INCIDENTS.items()
        if name.startswith("kafka_cluster_incident_last_") and not samples.labels
    }
    assert figures == {
        "kafka_cluster_incident_last_duration_seconds": [((), 0.01)],
        "kafka_cluster_incident_last_brokers_lost": [((), 0)],
        "kafka_cluster_incident_last_controller_elections": [((), 1)],
        "kafka_cluster_incident_last_leaders_moved": [((), 0)],
        "kafka_cluster_incident_last_offline_partitions": [((), 0)],
    }
    assert list(abnormal.read(fold.cluster_view())) == [((), ended_at)]


def test_the_open_incident_is_a_sample_while_it_is_open() -> None:
    """Its number and the event that opened it; absent before and after."""
    history, fold = begun()
    name = "kafka_cluster_incident_info"
    assert of_cluster(name, fold.cluster_view()) == []
    history.delete("/controller")
    fold.follow(history)
    assert of_cluster(name, fold.cluster_view()) == [(("1", "ControllerVacated"), 1)]
    history.elect(0)
    fold.follow(history)
    quiet(history, fold)
    assert of_cluster(name, fold.cluster_view()) == []
