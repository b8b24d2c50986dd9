"""The watcher on a real server of each release of ZooKeeper that docs/versions.md names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from controller_model.records.changes import ChangeKind, SessionState
from controller_model.sources.zookeeper.znode_kinds import WATCHED_SUBTREES
from kcm.servers.controller_handle import watchers
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import HOST
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from tests.component.watcher.watching import (
    LogReader,
    fill,
    kazoo_client,
    published_tree,
    settings_for,
    state,
    watching,
)
from tests.support.release_jars import jars_of
from tests.support.releases import ZOOKEEPERS, ZooKeeperRelease
from tests.support.waiting import DEADLINE_S
from zk_source.ensemble.four_letter_words import four_letter_word

STATE = "/brokers/topics/t0/partitions/0/state"
CHANGES = {
    STATE: state(1),
    "/brokers/ids/3": b"{}",
    "/controller": b"x",
    "/brokers/topics/t0/partitions/7/state": state(2),
}


@pytest.fixture(params=ZOOKEEPERS, ids=lambda each: each.release.name)
def release(request: pytest.FixtureRequest) -> ZooKeeperRelease:
    """One release of the table after the other."""
    each: ZooKeeperRelease = request.param
    return each


@pytest.fixture
def server(release: ZooKeeperRelease, supervisor: Supervisor, jars: Jars) -> Iterator[ZooKeeper]:
    """A server of that release, for this test alone."""
    name = f"zookeeper-{release.release.version}"
    classpath = jars_of(release.release)
    server = ZooKeeper(supervisor, jars, supervisor.folder / name, name=name, classpath=classpath)
    server.start()
    assert f"ookeeper version: {release.release.version}" in _ask(server, "srvr")
    yield server
    server.kill()


def _ask(server: ZooKeeper, word: str) -> str:
    return four_letter_word(HOST, server.port, word, deadline_s=DEADLINE_S)


@pytest.mark.full
def test_a_watcher_follows_this_zookeeper(
    release: ZooKeeperRelease, server: ZooKeeper, pipeline_broker: KraftBroker
) -> None:
    """Start, changes, a reconnect, deletions, the end: the log is the tree, one znode at a time."""
    settings = settings_for(
        server.connect_string, pipeline_broker, reconciliation_interval_s=1.0, heartbeat_s=1.0
    )
    with kazoo_client(server) as client:
        fill(client, "", topics=20)
    with LogReader(settings) as log, watching(settings):
        with kazoo_client(server) as client:
            first = log.wait_for(ChangeKind.RESYNC_FINISHED)
            log.wait_for_tree(published_tree(client, ""))
            _assert_watched(release, server)
            before = log.changes[-1].seq
            expected = [_change(client, log, path, data) for path, data in CHANGES.items()]
            sets = [c for c in log.changes if c.kind is ChangeKind.SET and c.seq > before]
            found = [(c.path, c.mzxid, c.version, c.data) for c in sets]
            assert [each for each in found if each[3]] == expected

        server.kill()
        log.wait_for_newest(lambda c: c.session not in {None, SessionState.CONNECTED})
        server.start()
        with kazoo_client(server) as client:
            client.set(STATE, state(3))
            started = log.wait_for(ChangeKind.RESYNC_STARTED, 2)
            assert (started.generation, started.rebase) == (first.generation, False)
            log.wait_for(ChangeKind.RESYNC_FINISHED, 2)
            log.wait_for_tree(published_tree(client, ""))
            _assert_watched(release, server)

            before = log.changes[-1].seq
            client.delete("/controller")
            log.wait_for_tree(published_tree(client, ""))
            client.delete("/brokers/topics/t0", recursive=True)
            log.wait_for_tree(published_tree(client, ""))
            client.create(STATE, state(4), makepath=True)
            log.wait_for_tree(published_tree(client, ""))
            gone = [c.path for c in log.changes if c.kind is ChangeKind.DELETED and c.seq > before]
            assert gone[0] == "/controller"
            assert {STATE, "/brokers/topics/t0"} <= set(gone)
            reconciled = sum(c.kind is ChangeKind.RECONCILED for c in log.changes)
            log.wait_for(ChangeKind.RECONCILED, reconciled + 2)
            tree = published_tree(client, "")
    with LogReader(settings) as log:
        assert log.wait_for_goodbye().dropped == 0
        assert log.reader.mzxids == tree


def _change(
    client: KazooClient, log: LogReader, path: str, data: bytes
) -> tuple[str, int, int, str]:
    """Change a znode once the log shows it; return what the log has to say of the change."""
    client.ensure_path(path)
    log.wait_for_tree(published_tree(client, ""))
    stat = client.set(path, data)
    log.wait_for_tree(published_tree(client, ""))
    return path, stat.mzxid, stat.version, data.decode()


def _assert_watched(release: ZooKeeperRelease, server: ZooKeeper) -> None:
    """Ask the server what is watched: the subtrees from 3.6 on, each znode below."""
    watched = _ask(server, "wchp")
    roots = [path for path in WATCHED_SUBTREES if watchers(watched, path)]
    assert bool(watchers(watched, STATE)) is not release.has_recursive_watches
    if release.has_recursive_watches:
        assert roots == list(WATCHED_SUBTREES)
