"""The watcher where there are no recursive watches: a real ZooKeeper 3.4, and a 3.8 without them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from controller_model.records.changes import ChangeKind
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import HOST
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from pipeline.runtime import EnvironmentProblemError
from tests.component.watcher.watching import (
    LogReader,
    RunningWatcher,
    fill,
    kazoo_client,
    published_tree,
    settings_for,
    state,
    watching,
)
from tests.support.release_jars import jars_of
from tests.support.releases import ZOOKEEPER_3_4
from tests.support.waiting import DEADLINE_S, wait_until
from zk_source.ensemble.four_letter_words import four_letter_word

STATE = "/brokers/topics/t0/partitions/0/state"


@pytest.fixture(scope="module")
def old_zookeeper(supervisor: Supervisor, jars: Jars) -> Iterator[ZooKeeper]:
    """A ZooKeeper 3.4 that these tests may kill."""
    classpath = jars_of(ZOOKEEPER_3_4)
    folder = supervisor.folder / "old-zookeeper"
    server = ZooKeeper(supervisor, jars, folder, name="old-zookeeper", classpath=classpath)
    server.start()
    assert f"Zookeeper version: {ZOOKEEPER_3_4.version}" in four_letter_word(
        HOST, server.port, "srvr", deadline_s=DEADLINE_S
    )
    yield server
    server.kill()


@pytest.fixture
def old_chroot(old_zookeeper: ZooKeeper, request: pytest.FixtureRequest) -> str:
    """A small Kafka cluster's znodes on the old server, under a path of the test's own."""
    path = f"/{request.node.name}"
    with kazoo_client(old_zookeeper) as client:
        fill(client, path)
    return path


def test_a_stormy_history_on_an_old_server_ends_equal_to_the_tree(
    old_zookeeper: ZooKeeper, old_chroot: str, pipeline_broker: KraftBroker
) -> None:
    """Znodes created, set and deleted faster than they can be read leave no trace of what is gone."""
    settings = settings_for(old_zookeeper.connect_string + old_chroot, pipeline_broker)
    with kazoo_client(old_zookeeper) as client, watching(settings), LogReader(settings) as log:
        log.wait_for(ChangeKind.RESYNC_STARTED)
        play_script(client, old_chroot, seed=1, steps=600)
        log.wait_for_tree(published_tree(client, old_chroot))


@pytest.mark.full
def test_recursive_and_one_shot_watches_publish_the_same_log(
    zookeeper: ZooKeeper, zk_chroot: str, pipeline_broker: KraftBroker
) -> None:
    """One script of writes, two logs: both end with the same znodes, payloads and versions."""
    where = zookeeper.connect_string + zk_chroot
    recursive = settings_for(
        where, pipeline_broker, zk_watches="recursive", reconciliation_interval_s=2.0
    )
    one_shot = settings_for(
        where, pipeline_broker, zk_watches="one-shot", reconciliation_interval_s=2.0
    )
    with kazoo_client(zookeeper) as client:
        fill(client, zk_chroot)
        with (
            watching(recursive),
            watching(one_shot),
            LogReader(recursive) as first,
            LogReader(one_shot) as second,
        ):
            for log in (first, second):
                log.wait_for(ChangeKind.RESYNC_FINISHED)
            play_script(client, zk_chroot, seed=2, steps=600)
            tree = published_tree(client, zk_chroot)
            for log in (first, second):
                log.wait_for_tree(tree)
                log.wait_for(ChangeKind.RECONCILED, 2)
    assert published(first) == published(second)


def test_a_server_without_recursive_watches_is_watched_by_one_shot_watches(
    supervisor: Supervisor, jars: Jars, pipeline_broker: KraftBroker
) -> None:
    """ZooKeeper 3.8's other watch manager has none; a `recursive` watcher reports it and ends."""
    server = ZooKeeper(
        supervisor,
        jars,
        supervisor.folder / "optimized",
        name="optimized-zookeeper",
        properties={
            "watchManagerName": "org.apache.zookeeper.server.watch.WatchManagerOptimized",
        },
    )
    server.start()
    try:
        with kazoo_client(server) as client:
            fill(client, "")
            settings = settings_for(server.connect_string, pipeline_broker)
            with watching(settings), LogReader(settings) as log:
                log.wait_for(ChangeKind.RESYNC_FINISHED)
                client.set(STATE, state(4))
                client.delete("/controller")
                log.wait_for_tree(published_tree(client, ""))
        settings = settings_for(server.connect_string, pipeline_broker, zk_watches="recursive")
        watcher = RunningWatcher(settings)
        wait_until(lambda: watcher.ended)
        assert isinstance(watcher.error, EnvironmentProblemError)
        assert "zk_watches" in str(watcher.error)
    finally:
        server.kill()


def play_script(client: KazooClient, chroot: str, *, seed: int, steps: int) -> None:
    """Write, delete and make again, in an order that the seed decides, as fast as may be."""
    rng = random.Random(seed)  # noqa: S311 - a script, not a secret
    leaves = [f"/brokers/ids/{number}" for number in range(5)]
    leaves += ["/controller", "/feature", "/admin/reassign_partitions"]
    states = [f"/brokers/topics/t{t}/partitions/{p}/state" for t in range(4) for p in range(5)]
    for step in range(steps):
        path = chroot + rng.choice(leaves + states)
        topic = path.partition("/partitions/")[0]
        chance = rng.random()
        if chance < 0.02 and topic != path:
            with contextlib.suppress(KazooException):  # it is not there, or half made
                client.delete(topic, recursive=True)
        elif chance < 0.25:
            client.delete_async(path)
        else:
            data = b"%d" % step
            for above in (topic, f"{topic}/partitions", path.rpartition("/")[0]):
                if topic != path:
                    client.create_async(above, data)
            client.create_async(path, data)
            client.set_async(path, data)
    client.sync(chroot)


def published(log: LogReader) -> dict[str, tuple[int | None, int | None, str | None]]:
    """Return what a log says of each znode in the end: mzxid, version, data."""
    last = {c.path: c for c in log.changes if c.kind is ChangeKind.SET}
    held = log.reader.mzxids
    return {p: (c.mzxid, c.version, c.data) for p, c in last.items() if p in held}
