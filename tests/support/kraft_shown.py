"""A KRaft cluster as the exporter shows it, from its own views."""

from __future__ import annotations

from typing import Any

from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from tests.support.api_server import Served
from tests.support.kraft_cluster import KraftCluster, KraftFold, Watcher


def kraft_served(
    stands_still_ms: int | None = None, **heartbeat: Any
) -> tuple[Served, KraftCluster]:
    """Return an exporter that shows a cluster: controller 3000, three brokers, of which 3 is fenced.

    `stands_still_ms`: the leader answers so long after the high watermark last grew; None: it does not say.
    `heartbeat`: what else the last heartbeat says.
    """
    cluster = KraftCluster(elr=True)
    for broker in (1, 2, 3):
        cluster.register(broker)
        cluster.unfence(broker)
    cluster.create("orders", 6, 3)
    cluster.fence(3)
    cluster.tick(2_000)
    watcher = Watcher(cluster)
    sample = None
    if stands_still_ms is not None:
        at = cluster.now + stands_still_ms
        voter = QuorumReplica(3000, cluster.end, at, at)
        sample = QuorumSample(at, 3000, cluster.epoch, cluster.end, (voter,))
    fold = KraftFold().feed([*watcher.slices(), watcher.heartbeat(quorum=sample, **heartbeat)])
    views = fold.views()
    last = views.pop("prod/cluster")
    served = Served()
    served.now = cluster.now
    served.write(*views.values(), last)
    return served, cluster
