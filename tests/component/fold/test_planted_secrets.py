"""A secret in every place that takes one, and a search of all that the parts say, keep and start."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from kcm.__main__ import main
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.supervisor import Supervisor
from tests.component.exporter.test_exporter import make_settings, running
from tests.component.fold.folding import Outcome, Stream
from tests.support.histories import small_cluster
from tests.support.processes import command_lines
from tests.support.waiting import DEADLINE_S, wait_until

SECRET = "hunter2-planted"  # noqa: S105  # the password that must show nowhere
PROPERTIES = {
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": f"user-{SECRET}",
}
SPARK = {
    "spark.hadoop.fs.azure.account.key.acct.blob.core.windows.net": SECRET,
    "spark.driver.extraJavaOptions": f"-Dmy.key={SECRET}",
    "spark.of.nobody": SECRET,
}


class PlantedStream(Stream):
    """A fold that is given secrets by variables and by files."""

    secrets_dir: Path

    @property
    def environment(self) -> dict[str, str]:
        """The fold's settings."""
        return {
            **super().environment,
            "KCM_SECRETS_DIR": str(self.secrets_dir),
            "KCM_KAFKA_PROPERTIES": json.dumps(PROPERTIES),
            "KCM_SPARK_CONF": json.dumps(SPARK),
            "KCM_LOG_LEVEL": "debug",
        }


def records(stream: Stream) -> list[bytes]:
    """Return all records of the three topics."""
    consumer = Consumer({"bootstrap.servers": stream.bootstrap_servers, "group.id": "planted"})
    found: list[bytes] = []
    try:
        parts = [TopicPartition(name, 0, OFFSET_BEGINNING) for name in stream.names]
        consumer.assign(parts)
        left = sum(consumer.get_watermark_offsets(part, timeout=DEADLINE_S)[1] for part in parts)
        while len(found) < left and (message := consumer.poll(DEADLINE_S)) is not None:
            found.append((message.key() or b"") + (message.value() or b""))
    finally:
        consumer.close()
    return found


def http(url: str) -> bytes:
    """Return what is answered."""
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:  # our own port
        body: bytes = answer.read()
    return body


@pytest.mark.full
def test_no_secret_is_in_logs_metrics_topics_arguments_or_files(  # noqa: PLR0917  # fixtures
    supervisor: Supervisor,
    pipeline_broker: KraftBroker,
    jars: Jars,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Logs, metrics, answers, topics, arguments, the checkpoint, errors and bundles hold none of it."""
    stream = PlantedStream(supervisor, pipeline_broker, jars, tmp_path)
    stream.secrets_dir = tmp_path / "secrets"
    stream.secrets_dir.mkdir()
    (stream.secrets_dir / "kafka_properties.sasl.password").write_text(SECRET)
    said: dict[str, bytes] = {}
    process = stream.start()
    try:
        history = small_cluster()
        stream.append_new(history)
        outcome = Outcome(stream.bootstrap_servers, stream.names)
        outcome.folded(history)
        outcome.close()
        said["arguments"] = b"\n".join(command_lines().values())
        said["metrics"] = http(f"http://127.0.0.1:{stream.metrics_port}/metrics")
        settings = make_settings(
            stream.bootstrap_servers,
            stream.prefix,
            kafka_properties=json.loads(json.dumps({**PROPERTIES, "sasl.password": SECRET})),
        )
        with running(settings) as exporter:
            wait_until(exporter.is_ready)
            for path in ("/metrics", "/readyz", "/api/v1/clusters", "/"):
                said[f"exporter {path}"] = exporter.get(path).body
        said["topics"] = b"\n".join(records(stream))
        for name, value in stream.environment.items():
            monkeypatch.setenv(name, value)
        span = ("--from", "2020-01-01T00:00:00Z", "--to", "2040-01-01T00:00:00Z")
        for verb in (
            ("config",),
            ("bundle", *span, "--output", str(tmp_path / "bundle")),
            ("export", "--kafka-properties", f"sasl.oauthbearer.method={SECRET}", "--port", "0"),
            ("watch", "--zk-auth", SECRET),
            ("watch", "--kafka-properties", SECRET),
        ):
            main(list(verb))
        captured = capsys.readouterr()
        said["commands"] = (captured.out + captured.err).encode()
    finally:
        process.stop()
    said["log"] = process.log_path.read_bytes()
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.parent != stream.secrets_dir:
            said[str(file)] = file.read_bytes()
    assert b"kcm_fold_up" in said["metrics"]
    assert b"SparkSubmit" in said["arguments"]
    assert b"(hidden)" in said["commands"]
    assert len(said["topics"]) > 1000
    assert [where for where, text in said.items() if SECRET.encode() in text] == []
