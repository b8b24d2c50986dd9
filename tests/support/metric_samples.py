"""The samples of one metric of the catalogue, for tests that read them back."""

from __future__ import annotations

from controller_model.metrics.catalogue import BROKER_METRICS, CLUSTER_METRICS
from controller_model.metrics.metric import Sample
from controller_model.records.views import BrokerView, ClusterView


def of_cluster(name: str, view: ClusterView) -> list[Sample]:
    """Return the samples of a cluster's metric."""
    return next(list(metric.read(view)) for metric in CLUSTER_METRICS if metric.name == name)


def of_broker(name: str, view: BrokerView) -> list[Sample]:
    """Return the samples of a broker's metric."""
    return next(list(metric.read(view)) for metric in BROKER_METRICS if metric.name == name)
