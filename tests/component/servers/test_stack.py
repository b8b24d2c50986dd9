"""Real servers as child processes: start, health, crash, restart, pause, and errors that help."""

from __future__ import annotations

import json
import shutil
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcm.servers.jars import OURS, Jars, ensure_jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import HOST
from kcm.servers.prometheus import Prometheus
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from pipeline.runtime import ConflictError, EnvironmentProblemError
from tests.support.waiting import DEADLINE_S, wait_until


def test_every_pinned_jar_is_there(jars: Jars) -> None:
    """What Ivy resolves `ivy.xml` to is what our list names, with these hashes, none twice."""
    listed = (OURS.folder() / name for name in OURS.hashes())
    assert {*jars.connector, *jars.broker} == set(listed)
    assert len({path.name for path in jars.broker}) == len(jars.broker)


def test_a_failed_download_of_jars_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror that lacks a jar is one line, and no half-filled folder is left in the cache."""
    settings = tmp_path / "settings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers><filesystem name="mirror">'
        f'<artifact pattern="{tmp_path}/mirror/[artifact]-[revision].[ext]"/>'
        "</filesystem></resolvers></ivysettings>"
    )
    monkeypatch.setenv("KCM_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(EnvironmentProblemError, match="does not have it; run again") as caught:
        ensure_jars()
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "kcm" / "jars").glob("*/")) == []


def test_the_pipeline_broker_keeps_topics_over_a_crash(
    supervisor: Supervisor, jars: Jars, tmp_path: Path
) -> None:
    """After kill -9 the KRaft broker has the same cluster id, topics, and messages of 8 MiB."""
    broker = KraftBroker(supervisor, jars, tmp_path, name="pipeline-crash")
    broker.start()
    config: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.bootstrap_servers}
    admin = AdminClient(config)
    cluster_id = admin.list_topics(timeout=DEADLINE_S).cluster_id
    admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(DEADLINE_S)
    value = bytes(8 << 20)
    producer = Producer({**config, "message.max.bytes": 9 << 20})
    producer.produce("kept", value)
    assert producer.flush(DEADLINE_S) == 0
    broker.kill()
    broker.start()
    found = AdminClient(config).list_topics(timeout=DEADLINE_S)
    assert found.cluster_id == cluster_id
    assert set(found.topics) == {"kept"}
    consumer = Consumer({**config, "group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition("kept", 0, 0)])
    message = consumer.poll(DEADLINE_S)
    assert message is not None
    assert message.value() == value
    consumer.close()
    broker.kill()


def test_the_pipeline_broker_creates_no_topic_by_itself(pipeline_broker: KraftBroker) -> None:
    """Asking for a topic that does not exist does not make it."""
    admin = AdminClient({"bootstrap.servers": pipeline_broker.bootstrap_servers})
    assert (
        admin.list_topics("never-made", timeout=DEADLINE_S).topics["never-made"].error is not None
    )
    assert "never-made" not in admin.list_topics(timeout=DEADLINE_S).topics


def test_a_broker_that_fails_shows_why(supervisor: Supervisor, jars: Jars, tmp_path: Path) -> None:
    """A setting that Kafka refuses comes back in the one error, from the broker's own log."""
    broker = KraftBroker(
        supervisor, jars, tmp_path, name="broken", properties={"log.retention.ms": "soon"}
    )
    with pytest.raises(EnvironmentProblemError, match="broken ended with exit code 1") as caught:
        broker.start()
    assert "Invalid value soon for configuration log.retention.ms" in str(caught.value)


def test_a_server_does_not_start_on_a_port_in_use(
    supervisor: Supervisor, jars: Jars, zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    """The error names the server and the port, before a JVM is started."""
    second = ZooKeeper(supervisor, jars, tmp_path, name="second", port=zookeeper.port)
    with pytest.raises(ConflictError, match=f"second cannot listen on {HOST}:{zookeeper.port}"):
        second.start()
    assert not second.running


@pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="the program prometheus is not installed"
)
def test_prometheus_scrapes_its_targets(supervisor: Supervisor, tmp_path: Path) -> None:
    """Prometheus is ready, loads its rules, and has scraped the target that it was given."""
    rules = tmp_path / "rules.yml"
    rules.write_text(
        json.dumps({"groups": [{"name": "g", "rules": [{"record": "r", "expr": "vector(1)"}]}]})
    )
    targets: dict[str, list[str]] = {}
    server = Prometheus(
        supervisor, tmp_path, targets=targets, rule_files=[rules], scrape_interval_s=0.2
    )
    targets["self"] = [f"{HOST}:{server.port}"]
    server = Prometheus(
        supervisor,
        tmp_path,
        targets=targets,
        rule_files=[rules],
        scrape_interval_s=0.2,
        port=server.port,
    )
    server.start()

    def value_of(query: str) -> str | None:
        url = f"{server.url}/api/v1/query?query={urllib.parse.quote(query)}"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            result = json.load(answer)["data"]["result"]
        return result[0]["value"][1] if result else None

    wait_until(lambda: (value_of('up{job="self"}'), value_of("r")), lambda v: v == ("1", "1"))
    server.stop()
    assert not server.running
