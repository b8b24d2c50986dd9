"""What the monitor shows while elections are run: the cluster at a glance, and who leads what.

The rule: an election is believed when the monitor shows it, and whatever else happens meanwhile is
a surprise that is told in one sentence.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from controller_model.ids import TopicPartition
from kcm.api_client import ExporterApi, cluster_path

_PAGE = 1000
_MOST = 10_000_000
"""More partitions than a cluster has."""


class Glance(NamedTuple):
    """A cluster as the monitor shows it at one moment."""

    status: str
    controller: int
    epoch: int | None
    live: frozenset[int]
    offline: int
    imbalance: int


class ClusterWatch:
    """One cluster, seen through the exporter."""

    def __init__(self, api: ExporterApi, cluster: str) -> None:
        self._api = api
        self.cluster = cluster

    def glance(self) -> Glance:
        """Return how the cluster is now; raises KcmError when the exporter does not tell."""
        told: dict[str, Any] = self._api.get(cluster_path(self.cluster))
        return Glance(
            status=told["completeness"]["status"],
            controller=told["controller"]["id"],
            epoch=told["controller"]["epoch"],
            live=frozenset(told["brokers_live"]),
            offline=told["counts"]["offline"],
            imbalance=told["counts"]["preferred_imbalance"],
        )

    def not_led(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return those of the partitions that another than their preferred replica leads."""
        found = set()
        for topic in sorted({partition.topic for partition in partitions}):
            pages = self._api.pages(
                cluster_path(self.cluster, "/partitions"),
                "partitions",
                most=_MOST,
                topic=topic,
                filter="not-preferred",
                limit=_PAGE,
            )
            found |= {TopicPartition(topic, each["partition"]) for each in pages}
        return found & set(partitions)


def surprise(before: Glance, now: Glance) -> str | None:
    """Return what has happened that elections do not do; None when nothing has.

    >>> calm = Glance("live", 1, 7, frozenset({1, 2}), 0, 5)
    >>> surprise(calm, calm._replace(imbalance=0)) is None
    True
    >>> surprise(calm, calm._replace(live=frozenset({1})))
    'broker 2 is gone'
    """
    if now.status != "live":
        return f"the monitor's figures are {now.status}: it cannot be seen what happens"
    if now.controller < 0:
        return "the cluster has no controller"
    if (now.controller, now.epoch) != (before.controller, before.epoch):
        return (
            f"the controller changed: broker {before.controller}, epoch {before.epoch}, is now "
            f"broker {now.controller}, epoch {now.epoch}"
        )
    gone = sorted(before.live - now.live)
    if gone:
        many = len(gone) > 1
        return f"broker{'s' * many} {', '.join(map(str, gone))} {'are' if many else 'is'} gone"
    if now.offline > before.offline:
        return f"partitions went offline: {now.offline} are, {before.offline} were"
    return None
