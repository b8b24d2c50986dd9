"""A watcher on a pipeline's Kafka that enforces ACLs: what it may not do it says before it leads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kazoo.client import KazooClient

from controller_model.records.changes import ChangeKind
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from pipeline.runtime import UsageError
from tests.component.watcher.watching import LogReader, RunningWatcher, settings_for, watching
from tests.support.waiting import DEADLINE_S, wait_until
from zk_source.config import WatchSettings

EVERYBODY = "User:*"


@pytest.fixture(scope="module")
def strict_broker(supervisor: Supervisor, jars: Jars) -> Iterator[KraftBroker]:
    """A broker that lets everybody do what no ACL is about."""
    broker = KraftBroker(
        supervisor,
        jars,
        supervisor.folder / "strict-kafka",
        name="strict-kafka",
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "early.start.listeners": "CONTROLLER",
        },
    )
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def watched(zookeeper: ZooKeeper, zk_chroot: str) -> str:
    """A cluster without brokers, in a place of its own."""
    client = KazooClient(zookeeper.connect_string + zk_chroot)
    client.start(timeout=DEADLINE_S)
    try:
        client.ensure_path("/brokers/ids")
        client.ensure_path("/brokers/topics")
    finally:
        client.stop()
        client.close()
    return zookeeper.connect_string + zk_chroot


def put(
    broker: KraftBroker, topic: str, *permissions: tuple[AclOperation, AclPermissionType]
) -> None:
    """Say what everybody may do with a topic."""
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            EVERYBODY,
            "*",
            operation,
            permission,
        )
        for operation, permission in permissions
    ]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_acls(bindings).values():
        try:
            future.result()
        except KafkaException as error:
            pytest.fail(f"the ACL was not taken: {error}")


def deny_write(broker: KraftBroker, topic: str) -> None:
    """Let everybody do all but write."""
    put(
        broker,
        topic,
        (AclOperation.ALL, AclPermissionType.ALLOW),
        (AclOperation.WRITE, AclPermissionType.DENY),
    )


def wait_for_the_end(settings: WatchSettings) -> RunningWatcher:
    """Run a watcher until it ends by itself."""
    watcher = RunningWatcher(settings)
    try:
        wait_until(lambda: watcher.ended)
    finally:
        watcher.stop()
    return watcher


@pytest.mark.full
def test_a_watcher_that_may_not_write_the_log_ends_before_it_leads(
    watched: str, strict_broker: KraftBroker
) -> None:
    """With one line that names the topic and the right; so does one whose right is taken while it leads."""
    settings = settings_for(watched, strict_broker)
    log_topic = f"{settings.topic_prefix}.changes"
    watcher = RunningWatcher(settings)
    try:
        with LogReader(settings) as log:
            log.wait_for(ChangeKind.RESYNC_FINISHED)
            deny_write(strict_broker, log_topic)
            wait_until(lambda: watcher.ended)
            written = len(log.read_to_the_end())
    finally:
        watcher.stop()
    assert isinstance(watcher.error, UsageError)
    assert f"does not let the monitor write {log_topic}; allow WRITE" in str(watcher.error)
    again = wait_for_the_end(settings)
    assert str(again.error) == str(watcher.error)
    with LogReader(settings) as log:
        assert len(log.read_to_the_end()) == written


def test_without_write_on_the_views_a_watcher_still_writes_the_log(
    watched: str, strict_broker: KraftBroker
) -> None:
    """Beats are refused, heartbeats continue: readers go by what the fold publishes."""
    settings = settings_for(watched, strict_broker, heartbeat_s=1.0)
    with watching(settings), LogReader(settings) as log:
        log.wait_for(ChangeKind.RESYNC_FINISHED)
        deny_write(strict_broker, f"{settings.topic_prefix}.views")
        before = sum(change.kind is ChangeKind.HEARTBEAT for change in log.read_to_the_end())
        log.wait_for(ChangeKind.HEARTBEAT, before + 3)
