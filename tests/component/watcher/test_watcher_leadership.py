"""Several watchers of one cluster: one leads, and what the others and the deposed do harms nothing."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import ACL, Id, Permissions, make_digest_acl_credential

from controller_model.records.changes import (
    ChangeKind,
    SessionState,
    encode_change,
    join_changes,
)
from kcm.servers.kafka import KraftBroker
from kcm.servers.zookeeper import ZooKeeper
from pipeline.runtime import EnvironmentProblemError, UsageError
from pipeline.topics import ensure_topics
from tests.component.watcher.watcher_process import Scene, WatcherProcess
from tests.component.watcher.watching import (
    CLUSTER,
    LogReader,
    RunningWatcher,
    fill,
    kazoo_client,
    published_tree,
    settings_for,
    state,
)
from tests.support.hanging import GO_ON, HANG, NOBODY_READS
from tests.support.waiting import DEADLINE_S, wait_until
from zk_source.config import WatchSettings
from zk_source.election.candidacy import LEAST_STANDSTILL_S

SHORT_SESSION_S = 4.0
"""Of watchers whose session is to end; the others have one that no busy machine ends."""
SLACK_S = 10.0
"""What a loaded machine may add to a take-over, far less than a standby needs that notices nothing; what was measured is printed."""


@pytest.fixture
def client(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    """A plain ZooKeeper client."""
    with kazoo_client(zookeeper) as client:
        yield client


@pytest.fixture
def scene(
    zookeeper: ZooKeeper,
    zk_chroot: str,
    client: KazooClient,
    pipeline_broker: KraftBroker,
    tmp_path: Path,
) -> Iterator[Scene]:
    """A cluster whose watchers are elected in the watched ensemble."""
    fill(client, zk_chroot)
    settings = settings_for(
        zookeeper.connect_string + zk_chroot,
        pipeline_broker,
        heartbeat_s=0.5,
        election_path="/kcm/election",
    )
    scene = Scene(settings, zk_chroot, client, tmp_path)
    try:
        yield scene
    finally:
        scene.close()


@pytest.fixture
def scene_of_short_sessions(scene: Scene) -> Scene:
    """The same, with sessions that end soon after their watcher."""
    scene.settings = scene.settings.model_copy(update={"session_timeout_s": SHORT_SESSION_S})
    return scene


def test_one_leads_and_the_others_publish_nothing(scene: Scene) -> None:
    """A standby says so on /metrics and stays silent in the log; the leader's czxid bounds its generation."""
    leader, standby = scene.start_leader_and_standby()
    assert (leader.metric("kcm_watcher_leader"), standby.metric("kcm_watcher_leader")) == (1, 0)
    for number in range(20):
        scene.change(number)
    tree = published_tree(scene.client, scene.chroot)
    scene.wait_for_tree(tree)
    assert len({change.watcher for change in scene.log.read_to_the_end()}) == 1
    election = f"{scene.chroot}/kcm/election/{CLUSTER}"
    nodes = scene.client.get_children(election)
    czxid = min(scene.client.exists(f"{election}/{node}").czxid for node in nodes)
    assert len(nodes) == 2
    assert scene.log.changes[0].generation == czxid
    scene.check_fold()


def test_a_killed_leader_is_followed_within_its_session_and_a_second(
    scene_of_short_sessions: Scene,
) -> None:
    """After kill -9 the standby's generation begins once the session has ended, and no later."""
    scene = scene_of_short_sessions
    leader, standby = scene.start_leader_and_standby()
    scene.change(1)
    leader.signal(signal.SIGKILL)
    killed_ms = time.time() * 1000
    scene.change(2)
    started = scene.wait_for_take_over()
    took_s = (started.observed_at - killed_ms) / 1000
    print(f"\ntake-over after kill -9: {took_s:.2f} s, session {SHORT_SESSION_S:g} s")  # noqa: T201 -- a figure to be read
    assert took_s <= SHORT_SESSION_S + 1 + SLACK_S
    assert standby.metric("kcm_watcher_leader") == 1
    scene.check_fold()


@pytest.mark.full
def test_a_leader_whose_main_loop_hangs_is_followed_though_it_lives(
    scene_of_short_sessions: Scene,
) -> None:
    """Its session ends, its own gauge is 0; when the loop turns again it stands by, and its records are ignored."""
    scene = scene_of_short_sessions
    leader, standby = scene.start_leader_and_standby(may_hang=True)
    leader.signal(HANG)
    hung_ms = time.time() * 1000
    scene.change(1)
    started = scene.wait_for_take_over()
    took_s = (started.observed_at - hung_ms) / 1000
    print(f"\ntake-over from a main loop that hangs: {took_s:.2f} s")  # noqa: T201 -- the same
    assert took_s <= LEAST_STANDSTILL_S + 2 + SLACK_S
    assert (leader.metric("kcm_watcher_leader"), standby.metric("kcm_watcher_leader")) == (0, 1)
    assert leader.metric("kcm_main_loop_age_seconds") >= LEAST_STANDSTILL_S
    scene.change(2)
    leader.signal(GO_ON)
    leader.wait_for_line("the lease is lost")
    wait_until(lambda: leader.metric("kcm_main_loop_age_seconds"), lambda age_s: age_s < 2)
    assert (leader.metric("kcm_watcher_leader"), standby.metric("kcm_watcher_leader")) == (0, 1)
    scene.check_fold()


def test_a_log_that_nobody_reads_stops_neither_work_nor_end(scene: Scene) -> None:
    """Far more than a pipe holds is logged in the main loop: lines are lost, changes are not."""
    watcher = scene.start(may_hang=True)
    scene.log.wait_for(ChangeKind.RESYNC_FINISHED)
    watcher.signal(NOBODY_READS)
    for number in range(20):
        scene.change(number)
    scene.wait_for_tree(published_tree(scene.client, scene.chroot))
    assert watcher.metric("kcm_log_lost_lines_total") > 0
    # Ten thousand lines may take longer than a main loop may stand still: it then leads again.
    wait_until(lambda: watcher.metric("kcm_watcher_leader"), lambda value: value == 1)
    watcher.signal(signal.SIGTERM)
    wait_until(lambda: watcher.exit_code, lambda code: code is not None)
    assert watcher.exit_code == 0
    scene.check_fold()


@pytest.mark.full
def test_a_clean_stop_hands_over_at_once(scene: Scene) -> None:
    """After SIGTERM the standby does not wait for a session to end."""
    leader, _standby = scene.start_leader_and_standby()
    leader.signal(signal.SIGTERM)
    stopped_ms = time.time() * 1000
    started = scene.wait_for_take_over()
    took_s = (started.observed_at - stopped_ms) / 1000
    print(f"\nhand-over after SIGTERM: {took_s:.2f} s")  # noqa: T201 -- a figure to be read
    assert took_s < scene.settings.session_timeout_s
    wait_until(lambda: leader.exit_code, lambda code: code is not None)
    assert leader.exit_code == 0
    goodbye = [c for c in scene.log.changes if c.watcher != started.watcher][-1]
    assert goodbye.session is SessionState.LOST
    scene.check_fold()


def test_records_of_a_leader_paused_past_its_session_are_ignored(
    scene_of_short_sessions: Scene,
) -> None:
    """After SIGSTOP another leads; after SIGCONT the old generation is ignored."""
    scene = scene_of_short_sessions
    paused, standby = scene.start_leader_and_standby()
    old = scene.log.changes[0].watcher
    for number in range(200):
        scene.change(number)  # some of it will be on its way when the process stops
    paused.signal(signal.SIGSTOP)
    paused_ms = time.time() * 1000
    started = scene.wait_for_take_over()
    print(f"\ntake-over after SIGSTOP: {(started.observed_at - paused_ms) / 1000:.2f} s")  # noqa: T201 -- the same
    scene.change(7)
    paused.signal(signal.SIGCONT)
    paused.wait_for_line("the lease is lost")
    paused.wait_for_line("standing by")
    wait_until(lambda: paused.metric("kcm_watcher_leader"), lambda value: value == 0)
    assert standby.metric("kcm_watcher_leader") == 1
    scene.change(8)
    beats = len([c for c in scene.log.read_to_the_end() if c.kind is ChangeKind.HEARTBEAT])
    scene.log.wait_for(ChangeKind.HEARTBEAT, beats + 2)
    assert {c.watcher for c in scene.log.changes if c.generation >= started.generation} == {
        started.watcher
    }
    late = [
        c for c in scene.log.changes if c.watcher == old and c.observed_at > started.observed_at
    ]
    assert not late, "what the paused leader saw after its waking did not reach the log"
    assert scene.check_fold().control.log.view.watcher == started.watcher
    assert (paused.exit_code, standby.exit_code) == (None, None)

    standby.signal(signal.SIGTERM)
    again = scene.log.wait_for_newest(lambda c: c.generation > started.generation)
    assert again.watcher not in {old, started.watcher}, "each term has a name of its own"


@pytest.mark.full
def test_an_election_znode_that_vanishes_deposes_its_leader(scene: Scene) -> None:
    """When a leader's znode is deleted the standby leads; the old one notices and queues again."""
    leader, _standby = scene.start_leader_and_standby()
    election = f"{scene.chroot}/kcm/election/{CLUSTER}"
    nodes = scene.client.get_children(election)
    first = min(nodes, key=lambda node: scene.client.exists(f"{election}/{node}").czxid)
    scene.client.delete(f"{election}/{first}")
    started = scene.wait_for_take_over()
    leader.wait_for_line("the lease is lost")
    leader.wait_for_line("standing by")
    late = [c for c in scene.log.read_to_the_end() if c.generation < started.generation]
    session_ms = scene.settings.session_timeout_s * 1000
    assert late[-1].observed_at <= started.observed_at + session_ms
    scene.check_fold()


@pytest.mark.full
def test_a_leader_pauses_the_log_while_its_election_ensemble_is_unreachable(
    scene: Scene, own_zookeeper: ZooKeeper
) -> None:
    """While the ensemble is frozen changes wait; a rebuilt one elects a higher generation."""
    there = {
        "election_zookeeper": own_zookeeper.connect_string,
        "session_timeout_s": 2.0,  # a new session is begun after five seconds of silence
    }
    scene.settings = scene.settings.model_copy(update=there)
    watcher = scene.start()
    scene.log.wait_for(ChangeKind.RESYNC_FINISHED)
    wait_until(lambda: watcher.metric("kcm_watcher_leader"), lambda value: value == 1)
    own_zookeeper.pause()
    wait_until(lambda: watcher.metric("kcm_watcher_leader"), lambda value: value == 0)
    scene.change(5)
    wait_until(lambda: watcher.metric("kcm_watcher_buffer_changes"), lambda held: held >= 2)
    assert state(5).decode() not in {change.data for change in scene.log.read_to_the_end()}
    own_zookeeper.resume()
    wait_until(lambda: watcher.metric("kcm_watcher_leader"), lambda value: value == 1)
    scene.check_fold()
    last = scene.log.read_to_the_end()[-1]

    own_zookeeper.kill()
    shutil.rmtree(own_zookeeper.data_dir / "data")
    own_zookeeper.start()
    scene.change(6)
    started = scene.wait_for_take_over()
    assert started.generation > last.generation
    nodes = f"/kcm/election/{CLUSTER}"
    with kazoo_client(own_zookeeper) as client:
        (node,) = client.get_children(nodes)
        assert client.exists(f"{nodes}/{node}").czxid < started.generation
    scene.check_fold()


def test_without_an_election_path_a_watcher_says_that_it_runs_alone(
    watched_alone: WatchSettings, tmp_path: Path
) -> None:
    """One line reports it, and the watcher leads at once."""
    watcher = WatcherProcess(watched_alone, tmp_path / "alone.log")
    try:
        watcher.wait_for_line("no election_path is set: this watcher runs alone")
        watcher.wait_for_line("watching")
        wait_until(lambda: watcher.metric("kcm_watcher_leader"), lambda value: value == 1)
    finally:
        watcher.end()


@pytest.fixture
def watched_alone(
    zookeeper: ZooKeeper, zk_chroot: str, client: KazooClient, pipeline_broker: KraftBroker
) -> WatchSettings:
    """Settings without an election."""
    fill(client, zk_chroot)
    return settings_for(zookeeper.connect_string + zk_chroot, pipeline_broker)


def test_the_permissions_that_an_election_needs_are_those_that_are_documented(
    zookeeper: ZooKeeper, zk_chroot: str, client: KazooClient, pipeline_broker: KraftBroker
) -> None:
    """CREATE, DELETE and READ on the path are enough; without CREATE it is said, with the path."""
    fill(client, zk_chroot)
    ours = Id("digest", make_digest_acl_credential("kcm", "secret"))
    needed = Permissions.CREATE | Permissions.DELETE | Permissions.READ
    path = f"{zk_chroot}/kcm/election"
    client.ensure_path(f"{zk_chroot}/kcm")
    client.create(path, acl=[ACL(needed, ours)])
    read_only = [ACL(Permissions.READ, Id("world", "anyone"))]
    client.create(f"{zk_chroot}/closed", acl=read_only)
    client.set_acls(zk_chroot, read_only)
    settings = settings_for(
        zookeeper.connect_string + zk_chroot,
        pipeline_broker,
        election_path="/kcm/election",
        zk_auth="digest:kcm:secret",
    )
    watcher = RunningWatcher(settings)
    with LogReader(settings) as log:
        log.wait_for(ChangeKind.RESYNC_FINISHED)
    (node,) = client.get_children(f"{path}/{CLUSTER}")
    with pytest.raises(NoAuthError):  # who is nobody cannot depose the leader
        client.delete(f"{path}/{CLUSTER}/{node}")
    watcher.stop()
    assert watcher.error is None

    refused = RunningWatcher(
        settings_for(settings.zookeeper, pipeline_broker, election_path="/closed")
    )
    wait_until(lambda: refused.ended)
    assert isinstance(refused.error, EnvironmentProblemError)
    assert f"{zk_chroot}/closed/{CLUSTER}: allow CREATE, DELETE and READ there" in str(
        refused.error
    )


def test_a_chroot_of_the_election_that_is_missing_is_reported_and_not_made(
    zookeeper: ZooKeeper, zk_chroot: str, client: KazooClient, pipeline_broker: KraftBroker
) -> None:
    """With fail-fast it ends with one line; nothing was created."""
    fill(client, zk_chroot)
    settings = settings_for(
        zookeeper.connect_string + zk_chroot,
        pipeline_broker,
        election_path="/kcm",
        election_zookeeper=f"{zookeeper.connect_string}{zk_chroot}/nowhere",
    )
    ensure_topics(settings, stop=threading.Event())
    watcher = RunningWatcher(settings.model_copy(update={"fail_fast": True}))
    wait_until(lambda: watcher.ended)
    assert isinstance(watcher.error, UsageError)
    assert f"the chroot {zk_chroot}/nowhere" in str(watcher.error)
    assert client.exists(f"{zk_chroot}/nowhere") is None


def test_a_leader_takes_a_higher_generation_after_a_record_of_another_watcher(scene: Scene) -> None:
    """A watcher outside of the election does not end the leader, which verifies its lead first."""
    leader, _standby = scene.start_leader_and_standby()
    last = scene.log.changes[-1]
    stranger = msgspec.structs.replace(
        last, watcher="stranger", generation=last.generation + 5, seq=1
    )
    producer = Producer({"bootstrap.servers": scene.settings.bootstrap_servers})
    producer.produce(
        f"{scene.settings.topic_prefix}.changes",
        join_changes([encode_change(stranger)]),
        CLUSTER,
        partition=0,
    )
    assert producer.flush(DEADLINE_S) == 0
    started = scene.wait_for_take_over()
    assert (started.generation, started.watcher) == (last.generation + 6, last.watcher)
    assert leader.exit_code is None
    wait_until(lambda: leader.metric("kcm_watcher_leader"), lambda value: value == 1)
