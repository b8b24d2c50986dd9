"""The configuration of brokers, and their ids."""

from __future__ import annotations

import re
from pathlib import Path

from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker, ZooKeeperModeBroker, random_id
from kcm.servers.supervisor import Supervisor

JARS = Jars(connector=[], broker=[Path("/kafka.jar")])


def _properties(folder: Path) -> dict[str, str]:
    lines = (folder / "server.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_a_watched_broker_keeps_to_its_zookeeper(java: str, tmp_path: Path) -> None:
    """Its session timeout, address and id are as given; `properties` override the defaults."""
    broker = ZooKeeperModeBroker(
        2,
        Supervisor(tmp_path),
        JARS,
        tmp_path,
        zookeeper_connect="127.0.0.1:2181/a",
        session_timeout_ms=4000,
        port=9092,
        properties={"auto.leader.rebalance.enable": "true"},
    )
    assert broker.prepare()[0] == java
    assert broker.name == "kafka-2"
    wanted = {
        "broker.id": "2",
        "zookeeper.connect": "127.0.0.1:2181/a",
        "zookeeper.session.timeout.ms": "4000",
        "listeners": f"PLAINTEXT://{broker.bootstrap_servers}",
        "auto.leader.rebalance.enable": "true",
    }
    assert wanted.items() <= _properties(tmp_path).items()


def test_the_pipelines_broker_keeps_its_identity(java: str, tmp_path: Path) -> None:
    """Its folder is formatted once: a second start finds the same cluster id."""
    broker = KraftBroker(Supervisor(tmp_path), JARS, tmp_path)
    assert broker.prepare()[0] == java
    formatted = (tmp_path / "logs" / "meta.properties").read_text()
    assert re.search(r"^cluster\.id=\S{22}$", formatted, re.MULTILINE)
    broker.prepare()
    assert (tmp_path / "logs" / "meta.properties").read_text() == formatted
    assert len(broker.ports) == 2
    assert _properties(tmp_path)["process.roles"] == "broker,controller"


def test_ids_have_kafkas_form() -> None:
    """22 characters of URL-safe base64; one in 64 would begin with a hyphen, which Kafka refuses."""
    ids = {random_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(re.fullmatch(r"[\w][\w-]{21}", each) for each in ids)


def test_a_heap_counts_from_the_next_start_on(java: str, tmp_path: Path) -> None:
    """A broker of many replicas gets more memory than the others."""
    broker = KraftBroker(Supervisor(tmp_path), JARS, tmp_path)
    assert broker.prepare()[:2] == [java, "-Xmx256m"]
    broker.heap_mib = 1024
    assert broker.prepare()[:2] == [java, "-Xmx1024m"]
