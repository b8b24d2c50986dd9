"""Kill a real broker that leads thousands of partitions, and measure when each new leader is shown."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.real_cluster import LEADER, RealCluster, real_cluster
from bench.shown import (
    medians,
    observed,
    storm_result,
    when_shown,
)
from bench.watched import CLUSTER
from kcm.run.pipeline_processes import Pipeline

QUIET_S = 10.0  # after the cluster has settled, before the next kill
DEADLINE_S = 180.0  # for the session, the controller's work, and the monitor's
_LEADERS = re.compile(
    rf'^kafka_broker_leaders{{cluster="{CLUSTER}",broker="(\d+)"}} (\S+)$', re.MULTILINE
)


def measure(led: int, partitions: int, kills: int, options: Mapping[str, str]) -> dict[str, Any]:
    """Kill the broker that leads this many partitions a few times; times in seconds, medians."""
    with real_cluster() as cluster:
        pipeline = Pipeline(
            supervisor=cluster.supervisor,
            jars=cluster.jars,
            data_dir=cluster.folder / "pipeline",
            cluster=CLUSTER,
            zookeeper=cluster.zookeeper.connect_string,
            options=options,
        )
        pipeline.start()
        pipeline.processes["stream"].wait_ready()
        cluster.create(partitions, led)  # this warms the pipeline up
        runs = []
        for number in range(kills):
            if number:
                cluster.bring_back(LEADER)
            time.sleep(QUIET_S)
            runs.append(_kill(cluster, pipeline, led))
    return {"partitions": partitions, "led": led, **medians(runs), "rounds": runs}


def _kill(cluster: RealCluster, pipeline: Pipeline, led: int) -> dict[str, Any]:
    led_by_others = _led_by_others(len(cluster.preferred) - led)
    _, views, scraped = observed(
        pipeline, led_by_others, led, lambda: cluster.kill(LEADER), deadline_s=DEADLINE_S
    )
    states = cluster.await_led_by_others(LEADER)
    written = {
        partition: states[partition].written
        for partition, preferred in cluster.preferred.items()
        if preferred == LEADER
    }
    return storm_result(written, when_shown(views, written), scraped)


def _led_by_others(before: int) -> Callable[[str], int | None]:
    """Return a function that counts in a scrape how many more partitions the other brokers lead than before."""

    def count(body: str) -> int | None:
        leaders = {int(broker): int(float(led)) for broker, led in _LEADERS.findall(body)}
        return sum(led for broker, led in leaders.items() if broker != LEADER) - before

    return count
