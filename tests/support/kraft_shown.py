"""A KRaft cluster as the exporter shows it, from its own views."""

from __future__ import annotations

from tests.support.api_server import Served
from tests.support.kraft_cluster import KraftCluster, KraftFold, Watcher


def kraft_served() -> tuple[Served, KraftCluster]:
    """Return an exporter that shows a cluster: controller 3000, three brokers, of which 3 is fenced."""
    cluster = KraftCluster(elr=True)
    for broker in (1, 2, 3):
        cluster.register(broker)
        cluster.unfence(broker)
    cluster.create("orders", 6, 3)
    cluster.fence(3)
    cluster.tick(2_000)
    watcher = Watcher(cluster)
    fold = KraftFold().feed([*watcher.slices(), watcher.heartbeat()])
    views = fold.views()
    last = views.pop("prod/cluster")
    served = Served()
    served.now = cluster.now
    served.write(*views.values(), last)
    return served, cluster
