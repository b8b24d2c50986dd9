"""Read what the exporter shows of one cluster now, for `kcm up`, `kcm demo` and callers that wait for it.

It reads the same /metrics that Prometheus does, so that "ready" means ready for a scrape.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import httpx

from kcm.queries.http_config import http_client

ANSWER_DEADLINE_S = 2.0
"""The exporter answers from memory in milliseconds; a longer time means a problem."""
STATUS = "kcm_cluster_status"
CONTROLLER = "kafka_controller_id"
EPOCH = "kafka_controller_epoch"
_BROKERS = "kafka_cluster_brokers"
_INFO = "kafka_cluster_info"
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Scrape = dict[tuple[str, str], float]
"""Values by (metric, value of the label other than `cluster`; empty without one)."""


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
    try:
        # It is on this machine, so no proxy may be used.
        with http_client(url, http_config, timeout_s=ANSWER_DEADLINE_S) as client:
            answer = client.get(f"{url}/metrics")
        why = "" if answer.is_success else f"{answer.status_code} {answer.reason_phrase}"
    except httpx.HTTPError as error:
        why = str(error)
    if why:
        return f"the exporter at {url} does not answer: {why}"
    return parse_cluster(answer.text, cluster)


def parse_cluster(body: str, cluster: str) -> ClusterSeen | str:
    """Return what a scrape's text shows of a cluster, or why it shows nothing."""
    scrape = parse_scrape(body, cluster, {STATUS, CONTROLLER, EPOCH, _BROKERS, _INFO})
    status = label_of(scrape, STATUS)
    if status is None:
        return f"the exporter shows nothing of cluster {cluster} yet"
    return ClusterSeen(
        status=status,
        controller_id=whole(scrape, CONTROLLER),
        epoch=whole(scrape, EPOCH),
        live_brokers=whole(scrape, _BROKERS),
        cluster_id=label_of(scrape, _INFO),
    )


def parse_scrape(body: str, cluster: str, names: Collection[str]) -> Scrape:
    """Return a cluster's samples of these metrics, each of which has at most one more label.

    >>> parse_scrape('kafka_controller_id{cluster="demo"} 2', "demo", {"kafka_controller_id"})
    {('kafka_controller_id', ''): 2.0}
    """
    scrape = {}
    for line in body.splitlines():
        name, _, rest = line.partition("{")
        if name in names:
            labels, _, value = rest.rpartition("} ")
            found = dict(_LABEL.findall(labels))
            if found.pop("cluster", None) == cluster:
                scrape[name, next(iter(found.values()), "")] = float(value)
    return scrape


def label_of(scrape: Scrape, metric: str) -> str | None:
    """Return the label of the metric's sample that is not 0; None without one."""
    labels = (label for (name, label), value in scrape.items() if name == metric and value)
    return next(labels, None)


def whole(scrape: Scrape, metric: str) -> int | None:
    """Return a metric's value; None without a sample."""
    value = scrape.get((metric, ""))
    return None if value is None else int(value)
