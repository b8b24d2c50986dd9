"""The pipeline's parts as child processes: their addresses, and which settings reach them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.run.pipeline_processes import Pipeline
from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import UsageError
from tests.support.certificates import NEEDS_OPENSSL, make_authority, make_certificate
from tests.support.web import hashed, write_config

PORTS = {"port": "9640", "watcher_metrics_port": "9641", "stream_metrics_port": "9642"}


def described(folder: Path, http_config: Path | None = None, **options: str) -> Pipeline:
    """Return a pipeline on the user's own Kafka; it is not started."""
    return Pipeline(
        supervisor=Supervisor(folder),
        jars=Jars(connector=[Path("/a.jar"), Path("/b.jar")], broker=[]),
        data_dir=folder,
        cluster="prod",
        zookeeper="zk1:2181/kafka",
        bootstrap_servers="k1:9092",
        options={**PORTS, **options},
        http_config=http_config,
    )


def test_each_part_is_a_verb_with_all_settings(tmp_path: Path) -> None:
    """Settings are passed in the environment, never as arguments, which other users could read."""
    pipeline = described(tmp_path, kafka_properties='{"sasl.password": "hunter2"}')
    verbs = {name: list(process.argv)[3:] for name, process in pipeline.processes.items()}
    assert verbs == {
        "watcher": ["kcm", "watch"],
        "stream": ["kcm", "stream"],
        "exporter": ["kcm", "export"],
    }
    for process in pipeline.processes.values():
        assert process.env["KCM_KAFKA_PROPERTIES"] == '{"sasl.password": "hunter2"}'
        assert process.env["KCM_ZOOKEEPER"] == "zk1:2181/kafka"
        assert process.env["KCM_CONNECTOR_JARS"] == "/a.jar,/b.jar"
        assert process.log_path == tmp_path / "logs" / f"{process.name}.log"


def test_kcm_variables_of_the_supervisor_do_not_reach_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A KCM_ variable of this process is empty for the parts, in whatever case it is written."""
    monkeypatch.setenv("KCM_LOG_LEVEL", "debug")
    monkeypatch.setenv("kcm_topic_prefix", "other")
    env = described(tmp_path).processes["watcher"].env
    assert env["KCM_LOG_LEVEL"] == ""
    assert env["kcm_topic_prefix"] == ""


def test_a_part_that_listens_everywhere_is_asked_on_loopback(tmp_path: Path) -> None:
    """The exporter's URL can be requested, also with IPv6."""
    hosts = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]", "10.0.0.7": "10.0.0.7"}  # noqa: S104  # nothing listens
    for host, shown in hosts.items():
        assert described(tmp_path, host=host).exporter_url == f"http://{shown}:9640"
    assert described(tmp_path).exporter_url == "http://127.0.0.1:9640"
    addresses = described(tmp_path, metrics_host="10.0.0.7").metrics_addresses
    assert addresses == ["10.0.0.7:9641", "10.0.0.7:9642", "127.0.0.1:9640"]


def test_no_broker_is_started_where_the_user_names_one(tmp_path: Path) -> None:
    """The user's brokers are used, and no server is started for the topics."""
    pipeline = described(tmp_path)
    assert pipeline.broker is None
    assert pipeline.bootstrap_servers == "k1:9092"
    pipeline.stop()  # nothing was started, so there is nothing to stop


@NEEDS_OPENSSL
def test_a_secured_exporter_needs_an_http_config_file(tmp_path: Path) -> None:
    """Nothing is started if its figures could not be read: its health would never be known."""
    make_authority(tmp_path)
    make_certificate(tmp_path, "server", "localhost")
    tls = "tls_server_config: {cert_file: server.pem, key_file: server.key}"
    for text, scheme in ((tls, "https"), (f'basic_auth_users: {{alice: "{hashed()}"}}', "http")):
        web = str(write_config(tmp_path, text))
        with pytest.raises(UsageError, match="--http-config-file"):
            described(tmp_path, web_config_file=web)
        pipeline = described(tmp_path, tmp_path / "client.yaml", web_config_file=web)
        assert pipeline.exporter_url == f"{scheme}://127.0.0.1:9640"
        assert pipeline.processes["exporter"].env["KCM_WEB_CONFIG_FILE"] == web
