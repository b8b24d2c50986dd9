"""Two watchers of a real quorum while its active controller and one of them are killed, folded and compared with Kafka."""

from __future__ import annotations

import itertools
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from controller_model.records.changes import decode_message
from controller_model.records.metadata_log import (
    AnyMetadataRecord,
    MetadataHeartbeat,
    MetadataSlice,
    SnapshotFinished,
    SnapshotStarted,
)
from controller_model.records.views import TopicView
from kcm.servers.kafka import KraftBroker
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.supervisor import Supervisor
from kraft_source.config import KraftSettings
from tests.component.watcher.watcher_process import WatcherProcess
from tests.support.followed_topic import FollowedTopic
from tests.support.kraft_cluster import KraftFold
from tests.support.release_jars import nodes_jars
from tests.support.releases import KAFKA_4_4
from tests.support.topic_changes import create_topic, delete_topic
from tests.support.waiting import DEADLINE_S, SESSION_MS, wait_until

CLUSTER = "prod"


def settings_for(cluster: KraftCluster, broker: KraftBroker, **options: Any) -> KraftSettings:
    """Return a watcher's settings, with topics of its own."""
    given: dict[str, Any] = {
        "cluster": CLUSTER,
        "controllers": cluster.quorum.bootstrap_controllers,
        "controller_cluster_id": cluster.quorum.cluster_id,
        "bootstrap_servers": broker.bootstrap_servers,
        "topic_prefix": f"t{uuid.uuid4().hex[:8]}",
        "watcher_metrics_port": 0,
        "heartbeat_s": 2.0,
    }
    return KraftSettings(**(given | options))


class PublishedRecords:
    """Reads `<prefix>.changes` from its beginning."""

    def __init__(self, settings: KraftSettings) -> None:
        self._topic = FollowedTopic(
            settings.bootstrap_servers, f"{settings.topic_prefix}.changes", silent_s=0.2
        )
        self.records: list[AnyMetadataRecord] = []

    def read(self) -> list[AnyMetadataRecord]:
        """Read what has come since the last call; return all records so far."""
        for value in self._topic.poll():
            batch = decode_message(value)
            assert not batch.unreadable
            self.records += batch.metadata
        return self.records

    def close(self) -> None:
        """Leave Kafka."""
        self._topic.close()


def fold_of(records: list[AnyMetadataRecord]) -> KraftFold:
    """Return a fold of what is published."""
    return KraftFold().feed(records)


def shown(fold: KraftFold) -> dict[str, dict[int, tuple[Any, ...]]]:
    """Return each topic's partitions as a fold shows them."""
    return {
        view.name: {
            number: (sorted(replicas or ()), sorted(isr or ()), leader)
            for number, replicas, isr, leader in zip(
                view.partitions, view.replicas, view.isr, view.leader, strict=True
            )
        }
        for view in fold.views().values()
        if isinstance(view, TopicView)
    }


def truth(admin: AdminClient) -> dict[str, dict[int, tuple[Any, ...]]]:
    """Return each topic's partitions as a broker tells them."""
    return {
        str(topic.topic): {
            number: (sorted(each.replicas), sorted(each.isrs), each.leader)
            for number, each in topic.partitions.items()
        }
        for topic in admin.list_topics(timeout=DEADLINE_S).topics.values()
    }


@pytest.fixture
def quorum(supervisor: Supervisor, tmp_path: Path) -> KraftCluster:
    """Three controllers and two brokers."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(KAFKA_4_4),
        tmp_path,
        brokers=(1, 2),
        dynamic=True,
        session_timeout_ms=SESSION_MS,
        name="watched",
    )
    cluster.start()
    return cluster


def test_two_watchers_publish_one_log_while_a_controller_and_a_watcher_are_killed(
    quorum: KraftCluster, pipeline_broker: KraftBroker, tmp_path: Path
) -> None:
    """No hole, no anomaly, no third copy; what is folded is what a broker says."""
    settings = settings_for(
        quorum, pipeline_broker, controller_cluster_id="", reconciliation_interval_s=1.0
    )
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap_servers})
    published = PublishedRecords(settings)
    watchers = [
        WatcherProcess(settings, tmp_path / f"watcher-{name}.log", module="kraft_source")
        for name in ("one", "two")
    ]
    try:
        for watcher in watchers:
            watcher.wait_for_line("watching")
        create_topic(admin, "first", 3, 2)
        wait_until(lambda: shown(fold_of(published.read())), lambda seen: "first" in seen)
        wait_until(
            lambda: [watcher.metric("kcm_watcher_leader") for watcher in watchers],
            lambda leads: sum(leads) == 1,
        )
        led = quorum.await_leader()
        quorum.controllers[led.id].kill()
        create_topic(admin, "without-the-first-controller", 3, 2)
        quorum.await_leader(lambda leader: leader.epoch > led.epoch)
        wait_until(
            lambda: (fold_of(published.read()).cluster.controller, quorum.leader()),
            lambda both: (
                both[0] is not None  # not known yet
                and both[1] is not None
                and both[0].id == both[1].id
                and both[0].epoch == both[1].epoch
                and both[1].epoch > led.epoch
            ),
        )
        # Two of three are left: neither may stop, and the dead one breaks nothing.
        wait_until(
            lambda: fold_of(published.read()).cluster.controllers_safe_to_stop,
            lambda safe: safe == {each: each == led.id for each in quorum.controllers},
        )

        (writing,) = wait_until(
            lambda: [each for each in watchers if each.metric("kcm_watcher_leader") == 1],
            lambda writing: len(writing) == 1,
        )
        other = next(each for each in watchers if each is not writing)
        before = len(published.read())
        writing.end()
        create_topic(admin, "without-the-first-watcher", 3, 2)
        wait_until(
            lambda: shown(fold_of(published.read())),
            lambda seen: "without-the-first-watcher" in seen,
        )
        wait_until(lambda: other.metric("kcm_watcher_leader") == 1)
        quorum.controllers[led.id].start()
        delete_topic(admin, "first")
        wait_until(
            lambda: fold_of(published.read()).cluster.controllers_safe_to_stop,
            lambda safe: safe == dict.fromkeys(quorum.controllers, True),
        )
        create_topic(admin, "last", 7, 2)
        fold = wait_until(
            lambda: fold_of(published.read()), lambda seen: shown(seen) == truth(admin)
        )
        heartbeat = wait_until(
            lambda: [e for e in published.read()[before:] if isinstance(e, MetadataHeartbeat)],
            lambda seen: bool(seen) and seen[-1].quorum is not None,
        )[-1]
        view = wait_until(
            lambda: fold_of(published.read()).cluster.log, lambda seen: seen.reconciliations > 5
        )
    finally:
        for watcher in watchers:
            watcher.end()
        quorum.kill()
    assert view.divergent_since is None
    log = fold.state.control.log.view
    assert (log.holes, log.anomalies, log.errors, log.unreadable) == (0, 0, 0, 0)
    assert log.incomplete_since is None
    assert log.verified_at is not None
    assert {each.generation for each in published.records} == {1}
    assert {each.cluster_id for each in published.records} == {quorum.quorum.cluster_id}
    assert heartbeat.quorum is not None
    assert {each.replica_id for each in heartbeat.quorum.voters} == set(quorum.controllers)
    slices = [each for each in published.records if isinstance(each, MetadataSlice)]
    repeated = sum(after.first <= before.last for before, after in itertools.pairwise(slices))
    assert repeated <= len(slices) // 4
    published.close()


def test_a_late_watcher_publishes_a_snapshot_and_what_follows(
    supervisor: Supervisor, pipeline_broker: KraftBroker, tmp_path: Path
) -> None:
    """The log does not begin at 0 for it; one that comes back later goes on where the topic ends."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(KAFKA_4_4),
        tmp_path,
        controllers=(3001,),
        brokers=(1, 2),
        properties={"metadata.log.max.record.bytes.between.snapshots": 2_000},
        session_timeout_ms=SESSION_MS,
        name="late",
    )
    cluster.start()
    settings = settings_for(cluster, pipeline_broker)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(20):
        create_topic(admin, f"early-{number}", 3, 2)
    folder = cluster.controllers[3001].log_dir / "__cluster_metadata-0"
    wait_until(lambda: [*folder.glob("*.checkpoint")], lambda found: len(found) > 1)
    published = PublishedRecords(settings)
    log_path = tmp_path / "watcher.log"
    watcher = WatcherProcess(settings, log_path, module="kraft_source")
    try:
        wait_until(lambda: shown(fold_of(published.read())), lambda seen: seen == truth(admin))
        stranger_log = tmp_path / "stranger.log"
        stranger = WatcherProcess(
            settings.model_copy(update={"controller_cluster_id": "A" * 22, "fail_fast": True}),
            stranger_log,
            module="kraft_source",
        )
        assert wait_until(lambda: stranger.exit_code, lambda code: code is not None) == 3
        assert "belongs to another cluster" in stranger_log.read_text().splitlines()[-1]
        watcher.end()
        create_topic(admin, "unwatched", 3, 2)
        watcher = WatcherProcess(settings, log_path, module="kraft_source")
        fold = wait_until(
            lambda: fold_of(published.read()), lambda seen: shown(seen) == truth(admin)
        )
    finally:
        watcher.end()
        cluster.kill()
    kinds = [type(each) for each in published.records]
    assert kinds[0] is SnapshotStarted
    assert kinds.count(SnapshotStarted) == kinds.count(SnapshotFinished) == 1
    assert fold.state.control.log.view.holes == 0
    assert {each.generation for each in published.records} == {1}
    published.close()
