"""The watcher on a real ZooKeeper and a real Kafka: its log is exactly the cluster's history."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from controller_model.records.changes import ChangeKind
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import free_port
from kcm.servers.zookeeper import ZooKeeper
from pipeline.runtime import ConflictError, UnreachableError, UsageError
from source_log import readback
from tests.component.watcher.watching import (
    LogReader,
    RunningWatcher,
    fill,
    kazoo_client,
    published_tree,
    repository,
    settings_for,
    state,
    watching,
)
from tests.support.topic_changes import alter_topic
from tests.support.waiting import DEADLINE_S, wait_until

STATE = "/brokers/topics/t0/partitions/0/state"


@pytest.fixture
def client(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    """A plain ZooKeeper client."""
    with kazoo_client(zookeeper) as client:
        yield client


@pytest.fixture
def watched(zookeeper: ZooKeeper, zk_chroot: str, client: KazooClient) -> str:
    """The connect string of a small Kafka cluster's znodes."""
    fill(client, zk_chroot)
    return zookeeper.connect_string + zk_chroot


def test_each_change_is_logged_in_order_with_its_stat(
    watched: str, zk_chroot: str, client: KazooClient, pipeline_broker: KraftBroker
) -> None:
    """Changes made one after the other are in the log one by one, in order, with their Stat."""
    settings = settings_for(watched, pipeline_broker, reconciliation_interval_s=1.0)
    with watching(settings), LogReader(settings) as log:
        finished = log.wait_for(ChangeKind.RESYNC_FINISHED)
        tree = published_tree(client, zk_chroot)
        assert log.reader.mzxids == tree
        assert finished.znodes == len(tree)
        config = next(c for c in log.changes if c.path == "/config/topics/t0")
        assert "secret" not in config.payload().decode()

        expected = []
        for path, data in ((STATE, state(1)), ("/brokers/ids/3", b"{}"), ("/controller", b"x")):
            client.ensure_path(zk_chroot + path)
            stat = client.set(zk_chroot + path, data)
            expected.append((ChangeKind.SET, path, stat.mzxid, stat.version, data.decode()))
            log.wait_for_tree(published_tree(client, zk_chroot))
        client.delete(zk_chroot + "/controller")
        log.wait_for_tree(published_tree(client, zk_chroot))

        news = [c for c in log.changes if c.seq > finished.seq and c.path]
        sets = [c for c in news if c.kind is ChangeKind.SET and c.data != ""]
        assert [(c.kind, c.path, c.mzxid, c.version, c.data) for c in sets] == expected
        assert (news[-1].kind, news[-1].path) == (ChangeKind.DELETED, "/controller")
        assert all(c.read_zxid is not None for c in news)
        log.wait_for(ChangeKind.RECONCILED, 3)


def test_the_largest_znodes_that_zookeeper_takes_are_published_whole(
    watched: str, zk_chroot: str, client: KazooClient, pipeline_broker: KraftBroker
) -> None:
    """A topic of 5,000 partitions, an assignment of nearly 1 MiB, and as much that is no text."""
    settings = settings_for(watched, pipeline_broker)
    many = {str(partition): [1, 2, 3] for partition in range(5_000)}
    most = {str(partition): [1001, 1002, 1003] for partition in range(36_000)}
    payloads = {
        "many": json.dumps({"version": 1, "partitions": many}).encode(),
        "most": json.dumps({"version": 1, "partitions": most}, separators=(",", ":")).encode(),
        "bytes": bytes(range(0x80, 0xFF)) * 8_000,
    }
    assert max(map(len, payloads.values())) > 900_000
    with watching(settings), LogReader(settings) as log:
        log.wait_for(ChangeKind.RESYNC_FINISHED)
        for topic, payload in payloads.items():
            client.create(f"{zk_chroot}/brokers/topics/{topic}", payload)
        paths = [f"{zk_chroot}/brokers/topics/many/partitions/{p}/state" for p in range(200)]
        # Each takes several requests, so a sync, or a request after them, may come before the last.
        for created in [client.create_async(path, state(1), makepath=True) for path in paths]:
            created.get()
        log.wait_for_tree(published_tree(client, zk_chroot))
    published = {c.path: c.payload() for c in log.changes if c.kind is ChangeKind.SET}
    for topic, payload in payloads.items():
        assert published[f"/brokers/topics/{topic}"] == payload


PUBLISHED_WITHIN_MS = 50
QUICK = 10


def test_changes_are_in_the_log_within_milliseconds(
    watched: str, zk_chroot: str, client: KazooClient, pipeline_broker: KraftBroker
) -> None:
    """From a change in ZooKeeper to its place in the log, without a pause.

    Each change is made when the one before is in the log, so a pause would delay all of them; a busy machine delays some.
    """
    settings = settings_for(watched, pipeline_broker)
    delays: list[int] = []
    with watching(settings), LogReader(settings) as log:
        log.wait_for(ChangeKind.RESYNC_FINISHED)

        def one_more() -> list[int]:
            client.set(zk_chroot + STATE, state(len(delays)))
            log.wait_for_tree(published_tree(client, zk_chroot))
            change = next(c for c in reversed(log.changes) if c.path == STATE)
            delays.append(change.observed_at - (change.mtime or 0))
            return delays

        wait_until(one_more, lambda found: sum(ms <= PUBLISHED_WITHIN_MS for ms in found) >= QUICK)


def test_an_unreadable_znode_is_denied_and_the_rest_is_published(
    watched: str, zk_chroot: str, client: KazooClient, pipeline_broker: KraftBroker
) -> None:
    """Without READ permission a path is named on the resync's end; credentials open it."""
    acl = make_digest_acl("kafka", "secret", all=True)
    client.create(f"{zk_chroot}/config/brokers", b"", acl=[acl])
    settings = settings_for(watched, pipeline_broker)
    with watching(settings), LogReader(settings) as log:
        finished = log.wait_for(ChangeKind.RESYNC_FINISHED)
    assert finished.denied == ("/config/brokers",)
    assert log.reader.mzxids[STATE]
    settings = settings_for(watched, pipeline_broker, zk_auth="digest:kafka:secret")
    with watching(settings), LogReader(settings) as log:
        assert log.wait_for(ChangeKind.RESYNC_FINISHED).denied == ()


def test_a_wrong_chroot_is_reported_with_the_existing_znodes(
    zookeeper: ZooKeeper, zk_chroot: str, client: KazooClient, pipeline_broker: KraftBroker
) -> None:
    """Fail-fast ends with a line that names the chroot and what that level holds."""
    client.create(f"{zk_chroot}/somebody-elses", b"")
    settings = settings_for(
        f"{zookeeper.connect_string}{zk_chroot}/kafka", pipeline_broker, fail_fast=True
    )
    watcher = RunningWatcher(settings)
    wait_until(lambda: watcher.ended)
    assert isinstance(watcher.error, UsageError)
    assert f"there is no {zk_chroot}/kafka" in str(watcher.error)
    assert "somebody-elses" in str(watcher.error)


def test_an_unreachable_zookeeper_fails_fast_with_its_address(pipeline_broker: KraftBroker) -> None:
    """Fail-fast ends within seconds with a line that names the server."""
    where = f"127.0.0.1:{free_port()}"
    watcher = RunningWatcher(settings_for(where, pipeline_broker, fail_fast=True))
    wait_until(lambda: watcher.ended)
    assert isinstance(watcher.error, UnreachableError)
    assert where in str(watcher.error)


@pytest.mark.full
def test_deleted_views_are_requested_again(
    watched: str, pipeline_broker: KraftBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed cleanup policy deletes them: compaction alone never moves the beginning."""
    monkeypatch.setattr(readback, "_BEGINNING_INTERVAL_S", 0.5)
    settings = settings_for(watched, pipeline_broker)
    views = f"{settings.topic_prefix}.views"
    admin = AdminClient({"bootstrap.servers": pipeline_broker.bootstrap_servers})
    with watching(settings), LogReader(settings) as log:
        log.wait_for(ChangeKind.RESYNC_FINISHED)
        time.sleep(2.0)  # beats stand in the views, and their beginning was asked for
        alter_topic(admin, views, "cleanup.policy", "compact,delete")
        place = TopicPartition(views, 0, 1)
        admin.delete_records([place])[place].result(DEADLINE_S)
        started = log.wait_for(ChangeKind.RESYNC_STARTED, 2)
    assert started.reason == "the pipeline's Kafka has lost views"


def test_of_two_watchers_of_a_cluster_one_ends(watched: str, pipeline_broker: KraftBroker) -> None:
    """Of two watchers of one cluster name exactly one stays; the other names it and ends."""
    settings = settings_for(watched, pipeline_broker, heartbeat_s=0.5)
    first = RunningWatcher(settings)
    second = None
    try:
        with LogReader(settings, strict=False) as log:
            log.wait_for(ChangeKind.RESYNC_FINISHED)
            second = RunningWatcher(settings)
            wait_until(lambda: [w for w in (first, second) if w.ended])
            beats = sum(c.kind is ChangeKind.HEARTBEAT for c in log.read_to_the_end())
            log.wait_for(ChangeKind.HEARTBEAT, beats + 2)
            loser, winner = (first, second) if first.ended else (second, first)
            assert isinstance(loser.error, ConflictError)
            assert log.changes[-1].watcher in str(loser.error)
            assert not winner.ended
            assert log.changes[-1].generation == max(c.generation for c in log.changes)
    finally:
        first.stop()
        if second is not None:
            second.stop()


def test_a_killed_watcher_is_followed_by_a_new_generation_at_once(
    watched: str, pipeline_broker: KraftBroker
) -> None:
    """After kill -9 a restart takes the next generation without waiting; SIGTERM ends it cleanly."""
    settings = settings_for(watched, pipeline_broker)
    env = {
        **os.environ,
        "KCM_CLUSTER": settings.cluster,
        "KCM_ZOOKEEPER": settings.zookeeper,
        "KCM_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "KCM_TOPIC_PREFIX": settings.topic_prefix,
        "KCM_WATCHER_METRICS_PORT": "0",
    }
    argv = [sys.executable, "-m", "zk_source"]
    started = [subprocess.Popen(argv, cwd=repository(), env=env, stderr=subprocess.PIPE)]
    try:
        with LogReader(settings) as log:
            log.wait_for(ChangeKind.RESYNC_FINISHED)
            started[0].kill()
            started.append(
                subprocess.Popen(argv, cwd=repository(), env=env, stderr=subprocess.PIPE)
            )
            assert log.wait_for(ChangeKind.RESYNC_FINISHED, 2).generation == 2
            started[1].send_signal(signal.SIGTERM)
            assert started[1].wait(DEADLINE_S) == 0
            assert log.wait_for_goodbye().generation == 2
    finally:
        for process in started:
            process.kill()
            process.communicate()
