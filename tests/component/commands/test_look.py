"""`kcm look` on a real ZooKeeper: what it shows, what it says while the source is away, and what it leaves."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from kazoo.client import KazooClient

from controller_model.records.views import ClusterView
from controller_model.state.control_plane import Assumed
from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from tests.component.commands.looking import CLUSTER, looking, noted_look
from tests.support.looked import NotedTopics, processed
from tests.support.registered import registered
from tests.support.waiting import DEADLINE_S, wait_until

REFUSED_S = 120.0
"""At once; but where twenty processes share two processors, Python alone takes half a minute to start."""

BROKER = {"version": 5, "host": "h", "port": 9, "endpoints": [], "features": {}}
REPLICAS = [0, 1]
STATE = {"controller_epoch": 7, "leader": 0, "version": 1, "leader_epoch": 0, "isr": REPLICAS}
TOPIC = {"version": 3, "adding_replicas": {}, "removing_replicas": {}}
ZNODES: dict[str, object] = {
    "/brokers/ids/0": BROKER,
    "/brokers/ids/1": BROKER,
    "/controller": {"version": 2, "brokerid": 0, "timestamp": "1", "kraftControllerEpoch": -1},
    "/controller_epoch": 7,
    **{
        f"/brokers/topics/{name}": {**TOPIC, "partitions": {"0": REPLICAS, "1": REPLICAS}}
        for name in "ab"
    },
    **{
        f"/brokers/topics/{name}/partitions/{number}/state": STATE
        for name in "ab"
        for number in (0, 1)
    },
}


@pytest.fixture
def cluster(zookeeper: ZooKeeper, zk_chroot: str) -> Iterator[KazooClient]:
    """Two brokers with four partitions, held by this client's session."""
    with registered(zookeeper.connect_string + zk_chroot, ZNODES) as client:
        yield client


def at(zookeeper: ZooKeeper, zk_chroot: str) -> tuple[str, str]:
    """Return the option that names the cluster."""
    return "--zookeeper", zookeeper.connect_string + zk_chroot


def test_it_shows_what_the_processor_makes_of_the_same_records(
    cluster: KazooClient, zookeeper: ZooKeeper, zk_chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that moves, a broker that ends, another controller, a deleted topic: all views are equal."""
    connect = zookeeper.connect_string + zk_chroot
    with noted_look(monkeypatch, zookeeper=connect, assumed_min_insync_replicas="2") as topics:
        wait_until(lambda: counts_of(topics), lambda counts: counts == (4, 0, 7))
        moved = {**STATE, "leader": 1, "leader_epoch": 1, "isr": [1]}
        cluster.set("/brokers/topics/a/partitions/0/state", json.dumps(moved).encode())
        cluster.delete("/controller")
        cluster.set("/controller_epoch", b"8")
        controller = {"version": 2, "brokerid": 1, "timestamp": "2", "kraftControllerEpoch": -1}
        cluster.create("/controller", json.dumps(controller).encode(), ephemeral=True)
        cluster.delete("/brokers/ids/0")
        cluster.delete("/brokers/topics/b", recursive=True)
        wait_until(lambda: counts_of(topics), lambda counts: counts == (2, 1, 8))
    expected = processed(CLUSTER, topics.messages, Assumed(min_insync_replicas=2))
    assert topics.views() == expected
    assert {"looked/broker/0", "looked/topic/a/0", "looked/cluster"} <= expected.keys()
    assert "looked/topic/b/0" not in expected


def counts_of(topics: NotedTopics) -> tuple[int | None, int | None, int | None]:
    """Return partitions, offline partitions and the controller's epoch, as the exporter was told last."""
    view = topics.views().get(f"{CLUSTER}/cluster")
    if not isinstance(view, ClusterView) or view.controller is None:
        return None, None, None
    return view.counts.partitions, view.counts.offline, view.controller.epoch


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
@pytest.mark.usefixtures("cluster")
def test_a_signal_ends_it_and_nothing_is_left(
    zookeeper: ZooKeeper, zk_chroot: str, tmp_path: Path, number: signal.Signals
) -> None:
    """The page, the API and the metrics answer until then; the home of who ran it stays empty."""
    with looking(tmp_path, *at(zookeeper, zk_chroot)) as command:
        command.says("in this process alone")
        command.says(r"kcm up --zookeeper \S+ --cluster looked")
        command.says("live: controller is 0, epoch 7, 2 brokers, 4 partitions")
        command.wait_for_status("live")
        with httpx.Client(base_url=command.url, trust_env=False, timeout=DEADLINE_S) as client:
            metrics = client.get("/metrics").text
            assert f'kafka_controller_id{{cluster="{CLUSTER}"}} 0' in metrics
            assert f'kcm_watcher_leader{{cluster="{CLUSTER}"}} 1' in metrics
            assert client.get("/readyz").status_code == 200
            assert client.get("/healthz").status_code == 200
            assert "<title>" in client.get("/").text
        assert command.end(number) == 0
        assert command.output.endswith("stopping\n")
        assert list(command.home.iterdir()) == []


def test_a_zookeeper_that_dies_is_told_with_the_time_and_it_comes_back(
    supervisor: Supervisor, jars: Jars, tmp_path: Path
) -> None:
    """As the whole monitor does: blind, since when; the process goes on, and is live again."""
    zookeeper = ZooKeeper(supervisor, jars, tmp_path / "zookeeper", name="looked-zookeeper")
    zookeeper.start()
    try:
        with (
            registered(zookeeper.connect_string, ZNODES),
            looking(tmp_path, "--zookeeper", zookeeper.connect_string) as command,
        ):
            command.says("live: controller is 0")
            command.wait_for_status("live")
            began = datetime.now(UTC)
            zookeeper.kill()
            told = command.says(
                r"the figures are blind since (20\d\d-\S+Z): no answer from ZooKeeper at"
            )
            since = datetime.fromisoformat(told[1])
            assert abs(since - began) < timedelta(seconds=10), "not when somebody noticed it"
            command.wait_for_status("blind")
            zookeeper.start()
            command.says("the figures are live\n", after="blind since")
            assert command.process.poll() is None
            assert command.end() == 0
    finally:
        zookeeper.kill()


def test_a_second_one_on_its_port_is_refused(
    zookeeper: ZooKeeper, zk_chroot: str, tmp_path: Path
) -> None:
    """One line names the port; nothing was watched."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with looking(tmp_path, *at(zookeeper, zk_chroot), "--port", str(port)) as command:
            assert command.process.wait(REFUSED_S) == 4
            wait_until(lambda: command.output.splitlines()[-1], lambda last: f"{port}" in last)


@pytest.mark.parametrize(
    ("chroot", "code", "says"),
    [
        ("/nothing-here", 2, "no Kafka cluster at"),
        (None, 3, "does not answer"),
    ],
    ids=["another chroot", "no server"],
)
def test_a_wrong_address_is_told_in_one_line(
    zookeeper: ZooKeeper, tmp_path: Path, chroot: str | None, code: int, says: str
) -> None:
    """At once, for somebody waits at the terminal; with --no-fail-fast it would wait."""
    where = "127.0.0.1:9" if chroot is None else zookeeper.connect_string + chroot
    with looking(tmp_path, "--zookeeper", where) as command:
        assert command.process.wait(REFUSED_S) == code
        last = wait_until(
            lambda: command.output.splitlines()[-1], lambda line: line.startswith("kcm: ")
        )
        assert says in last
