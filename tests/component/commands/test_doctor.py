"""`kcm doctor` on a real ZooKeeper, a real Kafka and the real exporter; it changes none of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from controller_model.records.views import ClusterConfig
from exporter.serve.server import HttpServer
from kcm.__main__ import main
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import free_port
from kcm.servers.zookeeper import ZooKeeper
from pipeline.settings import PipelineSettings
from pipeline.topics import client_properties, ensure_topics, topic_names
from tests.component.exporter.test_exporter import (
    Exporter,
    fresh_cluster,
    make_settings,
    now_ms,
    running,
)
from tests.support.api_server import Served
from tests.support.samples import as_of, cluster_view, log_view
from tests.support.topic_changes import alter_topic, create_topic, delete_topic
from tests.support.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

BROKER = {"version": 5, "host": "k", "port": 9092, "endpoints": ["PLAINTEXT://k:9092"]}


class Findings:
    """What `kcm doctor --json` found."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        capsys.readouterr()
        self.code = main(["doctor", "--json", *arguments])
        captured = capsys.readouterr()
        assert captured.err == ""
        self.all: list[dict[str, str]] = json.loads(captured.out)

    def of(self, about: str) -> dict[str, str]:
        """Return the only finding about something."""
        (finding,) = [each for each in self.all if each["about"].startswith(about)]
        return finding

    @property
    def wrong(self) -> list[dict[str, str]]:
        """The findings that a person should look at."""
        return [each for each in self.all if each["level"] in {"warn", "fail"}]

    def __repr__(self) -> str:
        """Return what is wrong, for a test that waits."""
        return repr(self.wrong)

    def levels(self) -> dict[str, str]:
        """Return the level of each thing."""
        return {each["about"]: each["level"] for each in self.all}


@pytest.fixture
def client(zookeeper: ZooKeeper, zk_chroot: str) -> Iterator[KazooClient]:
    """A client under a chroot that holds a small cluster."""
    client = KazooClient(zookeeper.connect_string + zk_chroot)
    client.start(timeout=DEADLINE_S)
    for path, body in {
        "/cluster/id": {"version": "1", "id": "watched-cluster"},
        "/controller": {"version": 2, "brokerid": 1},
        "/controller_epoch": 3,
        "/brokers/ids/1": BROKER,
        "/brokers/ids/2": BROKER,
        "/brokers/topics/t": {"version": 2, "partitions": {"0": [1]}},
        "/brokers/topics/t/partitions/0/state": {"leader": 1},
        "/admin/delete_topics": {},
        "/isr_change_notification": {},
        "/log_dir_event_notification": {},
        "/feature": {"status": 0},
        "/config/topics/t": {"version": 1, "config": {}},
        "/config/brokers/1": {"version": 1, "config": {}},
        "/config/changes": {},
    }.items():
        client.create(path, json.dumps(body).encode(), makepath=True)
    yield client
    client.stop()
    client.close()


def watched(zookeeper: ZooKeeper, chroot: str) -> tuple[str, ...]:
    """Return the option that names the watched ZooKeeper."""
    return ("--zookeeper", zookeeper.connect_string + chroot)


def nowhere() -> tuple[str, ...]:
    """Return options of servers that are not there."""
    address = f"127.0.0.1:{free_port()}"
    return ("--exporter", f"http://{address}", "--bootstrap-servers", address)


def tree(client: KazooClient, path: str = "/") -> dict[str, Any]:
    """Return every znode with its version, to prove that nothing was written."""
    _, stat = client.get(path)
    found = {path: (stat.mzxid, stat.cversion)}
    for child in client.get_children(path):
        found |= tree(client, f"{path.rstrip('/')}/{child}")
    return found


def test_a_healthy_pipeline_passes_every_check_unchanged(
    client: KazooClient,
    zookeeper: ZooKeeper,
    zk_chroot: str,
    pipeline_broker: KraftBroker,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Everything is ok, by the exporter's own address of Kafka; no znode and no topic has changed."""
    settings = make_settings(pipeline_broker.bootstrap_servers)
    before = tree(client)
    with running(settings) as exporter:
        _show(exporter)
        admin = AdminClient(client_properties(settings))
        topics = set(admin.list_topics(timeout=DEADLINE_S).topics)
        arguments = (
            *watched(zookeeper, zk_chroot),
            *("--exporter", exporter.url, "--topic-prefix", settings.topic_prefix),
        )
        with exporter.beating():
            # What is late for a moment is found, too.
            found = wait_until(lambda: Findings(capsys, *arguments), lambda found: not found.wrong)
        assert set(admin.list_topics(timeout=DEADLINE_S).topics) == topics
    assert tree(client) == before
    assert found.code == 0
    assert "3.8.4, standalone" in found.of("zookeeper ")["text"]
    assert "2 brokers (1, 2), registration version 5" in found.of("cluster")["text"]
    assert "not the cluster that is watched" in found.of("apart")["text"]
    assert "live, in lineage L1" in found.of("figures of prod")["text"]
    assert "within 2 s" in found.of("clock, here")["text"]


def _show(exporter: Exporter) -> None:
    """Let the exporter show a cluster that is well."""
    wait_until(exporter.is_ready)
    now = now_ms()
    exporter.write(
        fresh_cluster(log=log_view(heartbeat_at=now, last_change_at=now, verified_at=now))
    )
    path = "/api/v1/clusters/prod"
    wait_until(lambda: exporter.get(path).status, lambda status: status == 200)


@pytest.mark.full
def test_a_znode_without_read_permission_is_named(
    client: KazooClient,
    zookeeper: ZooKeeper,
    zk_chroot: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A configuration is a warning, for its figures are then unknown; a topic is a failure."""
    locked = [make_digest_acl("kafka", "secret", all=True)]
    client.set_acls("/config/brokers/1", locked)
    found = Findings(capsys, *watched(zookeeper, zk_chroot), *nowhere()).of("permissions")
    assert (found["level"], "/config/brokers/1;" in found["text"]) == ("warn", True)
    client.set_acls("/brokers/topics/t", locked)
    found = Findings(capsys, *watched(zookeeper, zk_chroot), *nowhere()).of("permissions")
    assert (found["level"], "/brokers/topics/t," in found["text"]) == ("fail", True)


@pytest.mark.full
def test_each_unreachable_server_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each unreachable server has its line with what to do; the exit code reports a failure."""
    found = Findings(capsys, "--zookeeper", f"127.0.0.1:{free_port()}", *nowhere())
    assert found.code == 6
    assert {
        about.split()[0]: level for about, level in found.levels().items() if level == "fail"
    } == {"zookeeper": "fail", "session": "fail", "pipeline's": "fail", "exporter": "fail"}
    assert all(each["todo"] for each in found.all if each["level"] == "fail")
    assert found.of("apart")["level"] == "-"


@pytest.mark.full
def test_a_chroot_without_kafka_and_one_in_migration_are_reported(
    client: KazooClient,
    zookeeper: ZooKeeper,
    zk_chroot: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing under the chroot is a failure; a migration to KRaft is a warning, from its first sign on."""
    empty = Findings(capsys, *watched(zookeeper, f"{zk_chroot}/nope"), *nowhere())
    assert "no /brokers" in empty.of("cluster")["text"]
    whole = Findings(capsys, *watched(zookeeper, zk_chroot), *nowhere())
    assert "migration" not in whole.levels()
    for body, text in (
        (b'{"kraft_controller_id":-1}', "has started to migrate"),
        (b'{"kraft_controller_id":3000,"kraft_metadata_offset":140}', "copy up to offset 140"),
    ):
        client.ensure_path("/migration")
        client.set("/migration", body)
        migrating = Findings(capsys, *watched(zookeeper, zk_chroot), *nowhere()).of("migration")
        assert migrating["level"] == "warn"
        assert text in migrating["text"]
        assert "kcm watch --controllers" in migrating["todo"]


@pytest.mark.full
def test_another_clusters_exporter_is_reported(
    client: KazooClient,
    zookeeper: ZooKeeper,
    zk_chroot: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """ZooKeeper holds one cluster, the exporter shows another one: all else may be green."""
    assert client.exists("/cluster/id")
    served = Served()
    served.write(cluster_view(config=ClusterConfig(cluster_id="somebody-else")))
    with HttpServer(served.app, "127.0.0.1", 0) as server:
        options = (*watched(zookeeper, zk_chroot), *nowhere()[2:], "--exporter", server.url)
        found = Findings(capsys, *options).of("same cluster")
        assert found["level"] == "fail"
        assert "watched-cluster" in found["text"]
        assert "prod (somebody-else)" in found["text"]
        served.write(cluster_view(at=as_of(2), config=ClusterConfig(cluster_id="watched-cluster")))
        assert Findings(capsys, *options).of("same cluster")["level"] == "ok"


@pytest.mark.full
def test_brokers_that_differ_are_reported(
    client: KazooClient,
    zookeeper: ZooKeeper,
    zk_chroot: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Registrations of several versions are what an upgrade that is under way looks like."""
    client.set("/brokers/ids/2", json.dumps({**BROKER, "version": 4}).encode())
    found = Findings(capsys, *watched(zookeeper, zk_chroot), *nowhere()).of("cluster")
    assert found["level"] == "warn"
    assert "4, 5: they differ" in found["text"]


def topics_alone(settings: PipelineSettings) -> tuple[str, ...]:
    """Return options of the pipeline's Kafka; all other servers are not there."""
    return (
        *("--bootstrap-servers", settings.bootstrap_servers),
        *("--topic-prefix", settings.topic_prefix),
        *("--exporter", f"http://127.0.0.1:{free_port()}"),
        *("--zookeeper", f"127.0.0.1:{free_port()}"),
    )


@pytest.mark.full
def test_missing_and_misconfigured_topics_fail(
    pipeline_broker: KraftBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing ones and wrong settings fail; another size is a warning."""
    settings = make_settings(pipeline_broker.bootstrap_servers)
    names = topic_names(settings.topic_prefix)
    options = topics_alone(settings)
    missing = Findings(capsys, *options)
    assert [missing.of(name)["level"] for name in names] == ["fail"] * 3
    assert "protocol 3.9" in missing.of("pipeline's Kafka")["text"]
    admin = AdminClient(client_properties(settings))
    create_topic(admin, names.views)
    wrong = Findings(capsys, *options).of(names.views)
    assert wrong["level"] == "fail"
    assert "cleanup.policy=delete, not compact" in wrong["text"]
    delete_topic(admin, names.views)
    ensure_topics(settings, stop=threading.Event())
    alter_topic(admin, names.events, "retention.ms", "1000")
    chosen = Findings(capsys, *options).of(names.events)
    assert chosen["level"] == "warn"
    assert "retention.ms=1000" in chosen["text"]


@pytest.mark.full
def test_a_record_of_a_clock_that_is_ahead_is_named_and_ends_with_an_older_release(
    pipeline_broker: KraftBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Topics as an older release made them are dated by their writers until a part starts; then by Kafka."""
    settings = make_settings(pipeline_broker.bootstrap_servers)
    names = topic_names(settings.topic_prefix)
    options = topics_alone(settings)
    ensure_topics(settings, stop=threading.Event())
    admin = AdminClient(client_properties(settings))
    a_year_ahead = now_ms() + 365 * 24 * 3_600_000
    producer = Producer(client_properties(settings))
    about = f"oldest record of {names.changes}"

    def written() -> dict[str, str]:
        producer.produce(names.changes, b"x", partition=0, timestamp=a_year_ahead)
        assert producer.flush(DEADLINE_S) == 0
        return Findings(capsys, *options).of(about)

    assert written()["level"] == "ok"
    alter_topic(admin, names.changes, "message.timestamp.type", "CreateTime")
    # The broker tells the new setting a moment before it dates records by it.
    poisoned = wait_until(written, lambda found: found["level"] == "warn")
    assert "retention deletes nothing" in poisoned["text"]
    ensure_topics(settings, stop=threading.Event())
    finding = Findings(capsys, *options).of(names.changes)
    assert (finding["level"], "CreateTime" in finding["text"]) == ("ok", False)


def test_settings_of_the_brokers_files_are_printed_as_options(
    pipeline_broker: KraftBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """By DescribeConfigs: the file's value, under what was set dynamically; its lack of topics is no fault."""
    admin = AdminClient({"bootstrap.servers": pipeline_broker.bootstrap_servers})
    described = admin.describe_cluster().result(timeout=DEADLINE_S)
    (node,) = described.nodes
    dynamic = ConfigResource(
        ResourceType.BROKER,
        str(node.id),
        incremental_configs=[
            ConfigEntry("min.insync.replicas", "3", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    served = Served()
    served.write(
        cluster_view(config=ClusterConfig(cluster_id=described.cluster_id), min_isr_assumed=None)
    )
    with HttpServer(served.app, "127.0.0.1", 0) as server:
        options = (
            *("--bootstrap-servers", pipeline_broker.bootstrap_servers),
            *("--topic-prefix", "elsewhere", "--exporter", server.url),
            *("--zookeeper", f"127.0.0.1:{free_port()}"),
        )
        for future in admin.incremental_alter_configs([dynamic]).values():
            future.result(timeout=DEADLINE_S)
        try:
            found = Findings(capsys, *options)
        finally:
            dynamic.incremental_configs[0].incremental_operation = AlterConfigOpType.DELETE
            for future in admin.incremental_alter_configs([dynamic]).values():
                future.result(timeout=DEADLINE_S)
        lines = [each for each in found.all if each["about"] == "brokers' files of prod"]
        on = f"on broker {node.id}"
        percentage = f"leader.imbalance.per.broker.percentage=10 {on}"
        assert [(each["level"], each["text"]) for each in lines] == [
            ("warn", f"min.insync.replicas=1 {on}; min_insync_replicas is not set"),
            ("ok", f"{percentage}: --leader-imbalance-percentage prod=10"),
            (
                "warn",
                f"auto.leader.rebalance.enable=false {on}; auto_leader_rebalance is true for the fold",
            ),
            ("ok", f"leader.imbalance.check.interval.seconds=300 {on}"),
        ]
        assert lines[0]["todo"].startswith("set --min-insync-replicas prod=1")
        assert "the brokers of prod, which is watched" in found.of("topics")["text"]
