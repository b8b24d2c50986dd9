"""A cluster of znodes on a real ZooKeeper, and the whole pipeline beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.znodes import ZOOKEEPER_BYTES_PER_PARTITION, Size, ZnodeCluster, connected
from kcm.run.pipeline_processes import Pipeline
from kcm.servers.jars import Jars, ensure_jars
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper

CLUSTER = "bench"
"""Its name in the pipeline."""


def lingering(linger_ms: int | None) -> dict[str, str]:
    """Return the settings of a pipeline in which what may wait does so for this long; None: as shipped."""
    return {} if linger_ms is None else {"linger_ms": str(linger_ms)}


class Watched(NamedTuple):
    """A cluster that is there, and what more processes beside it need."""

    cluster: ZnodeCluster
    znodes: int
    supervisor: Supervisor
    jars: Jars
    folder: Path
    zookeeper: str

    def pipeline(
        self, *, name: str = "pipeline", options: Mapping[str, str] | None = None
    ) -> Pipeline:
        """Describe a pipeline that watches it; `options` are settings that are not as shipped."""
        return Pipeline(
            supervisor=self.supervisor,
            jars=self.jars,
            data_dir=self.folder / name,
            cluster=CLUSTER,
            zookeeper=self.zookeeper,
            options=options,
        )


@contextmanager
def znode_cluster(
    size: Size, *, moves: Callable[[int], bool] = lambda _number: True, others: int = 0
) -> Iterator[Watched]:
    """Make the cluster; everything that was started beside it ends with it.

    `others`: how many partitions of other clusters its ZooKeeper is to have room for.
    """
    jars = ensure_jars()
    with (
        tempfile.TemporaryDirectory(prefix="kcm-bench-") as folder,
        Supervisor(Path(folder), kill_on_exit=True) as supervisor,
    ):
        zookeeper = ZooKeeper(supervisor, jars, Path(folder) / "zookeeper")
        zookeeper.heap_mib += (size.partitions + others) * ZOOKEEPER_BYTES_PER_PARTITION >> 20
        zookeeper.start()
        with connected(zookeeper.connect_string) as client:
            cluster = ZnodeCluster(client, size, moves=moves)
            znodes = cluster.make()
            yield Watched(cluster, znodes, supervisor, jars, Path(folder), zookeeper.connect_string)


@contextmanager
def watched_cluster(
    size: Size,
    *,
    moves: Callable[[int], bool] = lambda _number: True,
    options: Mapping[str, str] | None = None,
) -> Iterator[tuple[ZnodeCluster, Pipeline]]:
    """Make the cluster and start the pipeline; both are there until the block ends."""
    with znode_cluster(size, moves=moves) as watched:
        pipeline = watched.pipeline(options=options)
        pipeline.start()
        pipeline.processes["stream"].wait_ready()
        yield watched.cluster, pipeline
