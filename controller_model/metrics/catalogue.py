"""The catalogue: every metric about watched clusters, in the order in which it is served.

One entry per metric, here and nowhere else. The exporter renders from it; dashboards,
alert rules and the table in the documentation are made from it, so none of them can name a figure
that does not exist.
"""

from typing import Any

from controller_model.metrics import brokers, cluster, incidents, pipeline, quorum, topics
from controller_model.metrics.metric import Metric, Moment, metrics
from controller_model.records.views import BrokerView, ClusterView

CLUSTER_METRICS: tuple[Metric[ClusterView], ...] = (
    *metrics(cluster.CONTROLLER),
    *metrics(cluster.CLUSTER),
    *metrics(quorum.QUORUM),
    *metrics(incidents.INCIDENTS),
    *metrics(incidents.BALANCE),
    *metrics(pipeline.LOG),
)
"""Read from a cluster view; rendered once per change."""

BROKER_METRICS: tuple[Metric[BrokerView], ...] = metrics(brokers.BROKER, of=("cluster", "broker"))
"""Read from a broker view; rendered once per change."""

NOW_METRICS: tuple[Metric[Moment], ...] = (*metrics(pipeline.NOW), *metrics(topics.WORST))
"""Read at each scrape."""

CATALOGUE: tuple[Metric[Any], ...] = (*NOW_METRICS, *CLUSTER_METRICS, *BROKER_METRICS)
"""All of them."""
