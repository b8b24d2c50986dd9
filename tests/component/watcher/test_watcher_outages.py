"""The watcher while ZooKeeper or the pipeline's Kafka is away, and when they are back."""

from __future__ import annotations

import shutil
import time

import pytest
from confluent_kafka.admin import AdminClient

from controller_model.records.changes import ChangeKind, SessionState
from controller_model.records.views import WatcherBeat, decode_view
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import free_port
from kcm.servers.zookeeper import ZooKeeper
from pipeline.topic_reader import RecordReader
from source_log.readback import _BEGINNING_INTERVAL_S
from tests.component.watcher.watching import (
    LogReader,
    RunningWatcher,
    fill,
    kazoo_client,
    metric,
    published_tree,
    settings_for,
    state,
    watching,
)
from tests.support.topic_changes import topic_id
from tests.support.waiting import DEADLINE_S, wait_until

STATE = "/brokers/topics/t0/partitions/0/state"

DROPPED = "kcm_watcher_dropped_changes_total"
MANY = 1_200

WIDE_STATE = state(1)[:-1] + b',"more":"' + b"x" * 8_000 + b'"}'
"""Of so many, half are the bytes that may be in flight, in however few messages; the other half waits."""


def test_a_reconnect_resyncs_and_a_replaced_history_rebases(
    own_zookeeper: ZooKeeper, pipeline_broker: KraftBroker
) -> None:
    """Killed and restarted, ZooKeeper is resynced; restarted on an emptied folder, it is a rebase."""
    with kazoo_client(own_zookeeper) as client:
        fill(client, "", topics=20)
        before = published_tree(client, "")
    # A server of another history refuses a session that has seen more: a new client is made after 2.5 sessions.
    settings = settings_for(
        own_zookeeper.connect_string, pipeline_broker, session_timeout_s=6.0, heartbeat_s=1.0
    )
    with watching(settings), LogReader(settings) as log:
        log.wait_for_tree(before)
        first = log.wait_for(ChangeKind.RESYNC_FINISHED)

        own_zookeeper.kill()
        log.wait_for_newest(lambda c: c.session is SessionState.SUSPENDED)
        own_zookeeper.start()
        again = log.wait_for(ChangeKind.RESYNC_FINISHED, 2)
        assert (again.generation, again.digest) == (first.generation, first.digest)
        started = log.wait_for(ChangeKind.RESYNC_STARTED, 2)
        assert (started.rebase, started.reason) == (False, "connected again")

        own_zookeeper.kill()
        shutil.rmtree(own_zookeeper.data_dir / "data")
        own_zookeeper.start()
        with kazoo_client(own_zookeeper) as client:
            fill(client, "", topics=2, cluster_id="two")
            after = published_tree(client, "")
        assert log.wait_for(ChangeKind.RESYNC_STARTED, 3).rebase
        log.wait_for(ChangeKind.RESYNC_FINISHED, 3)
        assert log.reader.mzxids == after


@pytest.mark.full
def test_changes_dropped_while_kafka_is_away_are_repaired_by_a_resync(
    zookeeper: ZooKeeper, zk_chroot: str, pipeline_broker: KraftBroker
) -> None:
    """A paused Kafka costs a counted hole at most; afterwards the log equals the tree again."""
    with kazoo_client(zookeeper) as client:
        fill(client, zk_chroot, topics=MANY)
        settings = settings_for(
            zookeeper.connect_string + zk_chroot,
            pipeline_broker,
            buffer_changes=MANY // 3,
            watcher_metrics_port=free_port(),
        )
        with LogReader(settings, strict=False) as log:
            with watching(settings):
                log.wait_for(ChangeKind.RESYNC_FINISHED)
                pipeline_broker.pause()
                try:
                    for number in range(MANY):  # each its own znode: a slow watcher merges none
                        topic = f"{zk_chroot}/brokers/topics/t{number}"
                        client.set(f"{topic}/partitions/0/state", WIDE_STATE)
                    wait_until(
                        lambda: metric(settings.watcher_metrics_port, DROPPED),
                        lambda dropped: dropped > 0,
                    )
                finally:
                    pipeline_broker.resume()
                started = log.wait_for(ChangeKind.RESYNC_STARTED, 2)
                log.wait_for(ChangeKind.RESYNC_FINISHED, 2)
                tree = published_tree(client, zk_chroot)
            goodbye = log.wait_for_goodbye()
    assert "changes dropped" in (started.reason or "")
    assert goodbye.dropped is not None
    assert goodbye.dropped > settings.buffer_changes, "all that waited"
    seqs = [change.seq for change in log.changes]
    assert seqs[-1] - len(seqs) == goodbye.dropped, "the hole is exactly what was dropped"
    start = next(i for i, c in enumerate(log.changes) if c is started)
    last = {c.path: c.mzxid for c in log.changes[start:] if c.kind is ChangeKind.SET}
    assert last == tree


@pytest.mark.full
def test_a_restart_of_kafka_causes_no_resync(
    zookeeper: ZooKeeper, zk_chroot: str, pipeline_broker: KraftBroker
) -> None:
    """What changes meanwhile waits. A client says that a topic is missing while no broker answers, and right after."""
    with kazoo_client(zookeeper) as client:
        fill(client, zk_chroot)
        settings = settings_for(zookeeper.connect_string + zk_chroot, pipeline_broker)
        with LogReader(settings) as log:
            with watching(settings):
                log.wait_for(ChangeKind.RESYNC_FINISHED)
                pipeline_broker.kill()
                try:
                    client.set(zk_chroot + STATE, state(1))
                    time.sleep(_BEGINNING_INTERVAL_S + 1)  # it asks for the topics at least once
                finally:
                    pipeline_broker.start()
                log.wait_for_tree(published_tree(client, zk_chroot))
                client.set(zk_chroot + STATE, state(2))
                log.wait_for_tree(published_tree(client, zk_chroot))
            goodbye = log.wait_for_goodbye()
    assert goodbye.dropped == 0
    assert len([c for c in log.changes if c.kind is ChangeKind.RESYNC_STARTED]) == 1


@pytest.mark.full
def test_a_resync_larger_than_the_buffer_loses_nothing(
    zookeeper: ZooKeeper, zk_chroot: str, pipeline_broker: KraftBroker
) -> None:
    """What a Kafka that is there takes at once never waited: one resync brings the whole tree."""
    with kazoo_client(zookeeper) as client:
        fill(client, zk_chroot, topics=400)
        settings = settings_for(
            zookeeper.connect_string + zk_chroot, pipeline_broker, buffer_changes=50
        )
        with LogReader(settings) as log:
            with watching(settings):
                log.wait_for(ChangeKind.RESYNC_FINISHED)
                log.wait_for_tree(published_tree(client, zk_chroot))
            goodbye = log.wait_for_goodbye()
    assert goodbye.dropped == 0
    assert len([c for c in log.changes if c.kind is ChangeKind.RESYNC_STARTED]) == 1


@pytest.mark.full
def test_topics_that_were_deleted_are_made_again_and_filled(
    zookeeper: ZooKeeper, zk_chroot: str, pipeline_broker: KraftBroker
) -> None:
    """When the log is deleted under it, the watcher makes the topics again and resyncs into them."""
    with kazoo_client(zookeeper) as client:
        fill(client, zk_chroot)
        settings = settings_for(zookeeper.connect_string + zk_chroot, pipeline_broker)
        changes = f"{settings.topic_prefix}.changes"
        with watching(settings), LogReader(settings) as log:
            log.wait_for(ChangeKind.RESYNC_FINISHED)
            admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
            deleted = topic_id(admin, changes)
            admin.delete_topics([changes])[changes].result(DEADLINE_S)
            client.set(zk_chroot + STATE, state(1))
            # A reader that still found the old one would go on from its end in the new one.
            wait_until(lambda: topic_id(admin, changes), lambda now: now not in {"", deleted})
            with LogReader(settings) as new_log:
                new_log.wait_for_tree(published_tree(client, zk_chroot))


@pytest.mark.full
def test_heartbeats_show_how_long_zookeeper_has_not_answered(
    own_zookeeper: ZooKeeper, pipeline_broker: KraftBroker
) -> None:
    """Heartbeats continue, with the age of the request that ZooKeeper answered last."""
    with kazoo_client(own_zookeeper) as client:
        client.ensure_path("/brokers/ids")
    # It asks for a sign of life three times in a session's timeout.
    settings = settings_for(own_zookeeper.connect_string, pipeline_broker, session_timeout_s=2.0)
    ages: list[int | None] = [None]

    def newest_age() -> int | None:
        for record in reader.poll(0.1).records:
            view = decode_view(record.value or b"")
            if isinstance(view, WatcherBeat):
                ages.append(view.source_answered_ms)
        return ages[-1]

    with watching(settings), LogReader(settings) as log, RecordReader(settings, "beats") as reader:
        log.wait_for(ChangeKind.RESYNC_FINISHED)
        reader.follow([(f"{settings.topic_prefix}.views", 0)])
        wait_until(newest_age, lambda age: age is not None and age < 2_000)
        own_zookeeper.pause()
        try:
            wait_until(newest_age, lambda age: age is not None and age > 3_000)
        finally:
            own_zookeeper.resume()
        wait_until(newest_age, lambda age: age is not None and age < 2_000)


def test_a_watcher_stops_while_zookeeper_does_not_answer(
    own_zookeeper: ZooKeeper, pipeline_broker: KraftBroker
) -> None:
    """With a frozen ZooKeeper the watcher still ends in good time."""
    with kazoo_client(own_zookeeper) as client:
        client.ensure_path("/brokers/ids")
    settings = settings_for(own_zookeeper.connect_string, pipeline_broker)
    watcher = RunningWatcher(settings)
    with LogReader(settings) as log:
        log.wait_for(ChangeKind.RESYNC_FINISHED)
    own_zookeeper.pause()
    try:
        watcher.stop()
    finally:
        own_zookeeper.resume()
