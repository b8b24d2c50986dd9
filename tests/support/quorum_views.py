"""An exporter that shows a KRaft cluster of three voters and three brokers, of which node 1 is both."""

from __future__ import annotations

from typing import Any

from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from tests.support.api_server import Served
from tests.support.kraft_cluster import KraftCluster, KraftFold, Watcher

WHAT_IF = "/api/v1/clusters/prod/what-if"
VOTERS = (1, 3000, 3001)
"""Node 1 is a broker as well."""
DEAD_MS = 60_000


def served(*, behind: dict[int, int] | None = None, **heartbeat: Any) -> tuple[Served, KraftFold]:
    """Return an exporter of a cluster with brokers 1 to 3; voters in `behind` were caught up so many ms ago."""
    cluster = KraftCluster()
    cluster.voters = VOTERS
    for broker in (1, 2, 3):
        cluster.register(broker)
        cluster.unfence(broker)
    cluster.create("pairs", 6, 2)
    cluster.configure("pairs", "min.insync.replicas", "1")
    cluster.elect(3000)
    now, end = cluster.now, cluster.end
    late = behind or {}
    voters = tuple(
        QuorumReplica(
            each, end - bool(late.get(each)), now - late.get(each, 0), now - late.get(each, 0)
        )
        for each in VOTERS
    )
    sample = QuorumSample(now, 3000, cluster.epoch, end, voters)
    watcher = Watcher(cluster)
    fold = KraftFold().feed(
        [*watcher.slices(), watcher.heartbeat(**({"quorum": sample} | heartbeat))]
    )
    shown = Served()
    views = fold.views()
    shown.write(
        *(view for key, view in views.items() if key != "prod/cluster"), views["prod/cluster"]
    )
    return shown, fold
