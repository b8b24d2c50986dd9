"""What a real ZooKeeper denies the watcher is not known in any figure, from the start or later, until it may be read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions

from controller_model.insight.thresholds import THRESHOLDS
from controller_model.metrics.catalogue import CLUSTER_METRICS
from controller_model.records.changes import ChangeKind
from controller_model.records.completeness import ReaderProgress
from controller_model.records.events import BrokerStarted, ControllerElected, LeadersElected
from exporter.api.problems import problems_of
from exporter.core.records import ClusterSnapshot
from exporter.scrape.collector import Collector
from kcm.servers.kafka import KraftBroker
from kcm.servers.zookeeper import ZooKeeper
from tests.component.watcher.watching import (
    CLUSTER,
    LogReader,
    fill,
    kazoo_client,
    settings_for,
    watching,
)
from tests.property.brute_force import Seen, seen
from tests.support.histories import Fold
from tests.support.waiting import wait_until

STATE = "/brokers/topics/t0/partitions/0/state"
NO_READ = [ACL(Permissions.ALL & ~Permissions.READ, Id("world", "anyone"))]
BROKER = {
    "version": 5,
    "host": "b0",
    "port": 9092,
    "endpoints": [],
    "jmx_port": -1,
    "timestamp": "1",
}
GONE = {
    "/brokers/ids": {"kafka_cluster_brokers", "kafka_cluster_offline_partitions"},
    STATE: {"kafka_cluster_offline_partitions", "kafka_cluster_under_replicated_partitions"},
    "/controller": {"kafka_controller_id", "kafka_controller_health"},
}
"""Paths, and some of the metrics without a sample while they may not be read."""


@pytest.fixture
def client(zookeeper: ZooKeeper, zk_chroot: str) -> Iterator[KazooClient]:
    """A client that has made a small cluster with a live broker and min.insync.replicas of 2, and keeps the broker's session."""
    with kazoo_client(zookeeper) as made:
        fill(made, zk_chroot, topics=2)
        made.delete(f"{zk_chroot}/controller")
        controller = json.dumps({"version": 1, "brokerid": 0, "timestamp": "1"}).encode()
        made.create(f"{zk_chroot}/brokers/ids/0", json.dumps(BROKER).encode(), ephemeral=True)
        made.create(f"{zk_chroot}/controller", controller, ephemeral=True)
        yield made


class Watched:
    """The log of the watcher, folded."""

    def __init__(self, log: LogReader) -> None:
        self._log, self._read = log, 0
        self.fold = Fold(cluster=CLUSTER)

    def now(self) -> Seen:
        """Return the views, with all that the log holds."""
        changes = self._log.read()
        self.fold.feed(changes[self._read :])
        self._read = len(changes)
        return seen(self.fold)

    def absent(self) -> set[str]:
        """Return the metrics of the cluster without a sample."""
        view = self.now().cluster
        return {metric.name for metric in CLUSTER_METRICS if not list(metric.read(view))}

    def alerts(self) -> set[str | None]:
        """Return the alerts on what the page shows."""
        held = self.now()
        snapshot = ClusterSnapshot(name="w", partition=0, view=held.cluster, brokers=held.brokers)
        at = self.fold.state.control.now
        moment = Collector(lambda _: ReaderProgress(read_ms=0, watcher_ms=0)).moment(snapshot, at)
        return {problem.alert for problem in problems_of(snapshot, moment, at, THRESHOLDS)}


@pytest.mark.full
def test_denied_paths_are_not_known_until_they_may_be_read_again(
    zookeeper: ZooKeeper, zk_chroot: str, client: KazooClient, pipeline_broker: KraftBroker
) -> None:
    """No alert on the cluster fires, nothing is reported, and the figures come back as they were."""
    client.set_acls(f"{zk_chroot}/brokers/ids", NO_READ)
    settings = settings_for(
        f"{zookeeper.connect_string}{zk_chroot}", pipeline_broker, reconciliation_interval_s=1.0
    )
    with watching(settings), LogReader(settings, strict=False) as log:
        log.wait_for(ChangeKind.RESYNC_FINISHED)
        watched = Watched(log)
        before = set[str]()
        for path, hidden in GONE.items():
            client.set_acls(zk_chroot + path, NO_READ)
            client.set(zk_chroot + path, client_data(path))
            absent = wait_until(watched.absent, hidden.issubset)
            assert "kcm_cluster_denied_paths" not in absent
            assert watched.alerts() <= {"KcmPathsDenied", "KcmIncompleteOrDivergent"}, path
            client.set_acls(zk_chroot + path, OPEN_ACL_UNSAFE)
            seen_again, _ = wait_until(
                lambda: (watched.absent(), watched.alerts()),
                partial(is_whole_again, hidden),
            )
            before = before or seen_again
            assert seen_again == before
    reported = {type(event) for event in watched.fold.events}
    assert reported.isdisjoint({BrokerStarted, ControllerElected, LeadersElected})


def is_whole_again(hidden: set[str], seen_now: tuple[set[str], set[str | None]]) -> bool:
    """Return whether none of these metrics is absent, and no alert fires: a resync is over."""
    absent, alerts = seen_now
    return hidden.isdisjoint(absent) and not alerts


def client_data(path: str) -> bytes:
    """Return what is written to a denied path, so that the watcher has reason to read it: what it held."""
    return {
        STATE: b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}',
        "/controller": json.dumps({"version": 1, "brokerid": 0, "timestamp": "1"}).encode(),
    }.get(path, b"")
