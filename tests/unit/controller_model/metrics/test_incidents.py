"""Incidents as samples."""

from __future__ import annotations

from controller_model.metrics.incidents import INCIDENTS
from tests.support.failing import begun, closed, quiet
from tests.support.metric_samples import of_cluster


def test_the_last_closed_one_is_a_sample_whose_labels_are_its_figures() -> None:
    """One at a time, so that boards can show it; none before the first."""
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
        "number": "1",
        "opened_by": "ControllerVacated",
        "end": "recovered",
        "lasted": "10 ms",
        "brokers_lost": "0",
        "controller_elections": "1",
        "leaders_moved": "0",
        "offline": "0",
    }
    assert list(abnormal.read(fold.cluster_view())) == [((), ended_at)]


def test_the_open_incident_is_a_sample_while_it_is_open() -> None:
    """Its number and the event that opened it; none before and after."""
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
