"""Read what the exporter shows of one cluster now, for `kcm up` and for callers that wait for it.

The rule: it reads the same /metrics that Prometheus does, so that "ready" means ready for a scrape.
"""

import http.client
import urllib.request
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from kcm.queries.http_config import http_handlers

ANSWER_DEADLINE_S = 2.0
"""The exporter answers from memory in milliseconds; a longer time means a problem."""


class ClusterSeen(NamedTuple):
    """A cluster's main figures as served; None where there is no sample."""

    status: str
    controller_id: int | None
    epoch: int | None
    live_brokers: int | None
    cluster_id: str | None

    @property
    def live(self) -> bool:
        """Whether the figures are verified and follow ZooKeeper."""
        return self.status == "live"


def read_cluster(url: str, cluster: str, http_config: Path | None = None) -> ClusterSeen | str:
    """Return what the exporter at `url` shows of a cluster, or why it shows nothing."""
    # It is on this machine, so no proxy may be used.
    directly = urllib.request.ProxyHandler({})
    opener = urllib.request.build_opener(directly, *http_handlers(http_config, url))
    try:
        with opener.open(f"{url}/metrics", timeout=ANSWER_DEADLINE_S) as answer:
            body = answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return f"the exporter at {url} does not answer: {getattr(error, 'reason', error)}"
    return parse_cluster(body, cluster)


def parse_cluster(body: str, cluster: str) -> ClusterSeen | str:
    """Return what a scrape's text shows of a cluster, or why it shows nothing."""
    figures: dict[str, float] = {}
    status = ""
    cluster_id = None
    for family in text_string_to_metric_families(body):
        for sample in family.samples:
            if sample.labels.get("cluster") != cluster:
                continue
            if sample.name == "kcm_cluster_status" and sample.value == 1:
                status = sample.labels["status"]
            if sample.name == "kafka_cluster_info":
                cluster_id = sample.labels["id"]
            figures[sample.name] = sample.value
    if not status:
        return f"the exporter shows nothing of cluster {cluster} yet"
    return ClusterSeen(
        status=status,
        controller_id=_whole(figures, "kafka_controller_id"),
        epoch=_whole(figures, "kafka_controller_epoch"),
        live_brokers=_whole(figures, "kafka_cluster_brokers"),
        cluster_id=cluster_id,
    )


def _whole(figures: dict[str, float], name: str) -> int | None:
    value = figures.get(name)
    return None if value is None else int(value)
