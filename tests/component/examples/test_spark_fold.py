"""The fold by spark-submit, as a Spark platform starts it: it folds, and ends with the program that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import free_port
from pipeline.java import find_java
from streaming.config import StreamSettings
from tests.component.chart.chart import answer

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
STARTED_S = 180.0
ENDED_S = 60.0
"""Spark starts and ends in seconds; on a machine that does much else at once, in minutes."""


def _until(seconds: float, holds: Callable[[], bool], output: Path) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, output.read_text()[-4_000:]
        time.sleep(0.2)


@pytest.mark.full
def test_spark_submit_runs_the_fold_and_ends_it(
    tmp_path: Path, pipeline_broker: KraftBroker, jars: Jars
) -> None:
    """With settings in the environment alone; SIGTERM to spark-submit leaves no fold behind, and no lock."""
    port = free_port()
    checkpoint = tmp_path / "checkpoint"
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(os.environ).path.resolve().parents[1]),
        "PYSPARK_PYTHON": sys.executable,
        "KCM_BOOTSTRAP_SERVERS": pipeline_broker.bootstrap_servers,
        "KCM_TOPIC_PREFIX": "spark-submit",
        "KCM_REPLICATION_FACTOR": "1",
        "KCM_CHECKPOINT_DIR": str(checkpoint),
        "KCM_STREAM_METRICS_PORT": str(port),
        "KCM_CONNECTOR_JARS": ",".join(map(str, jars.connector)),
    }
    submit = (
        str(Path(sys.executable).with_name("spark-submit")),
        *("--master", "local[1]", "--driver-memory", "256m"),
        str(EXAMPLES / "spark_fold.py"),
    )
    output = tmp_path / "output"

    def shows(text: bytes) -> bool:
        return text in answer(f"http://127.0.0.1:{port}/metrics")[1]

    with output.open("wb") as file:
        process = subprocess.Popen(
            submit, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        _until(STARTED_S, lambda: shows(b"\nkcm_fold_up 1.0"), output)
        process.terminate()
        process.wait(ENDED_S)
        _until(ENDED_S, lambda: answer(f"http://127.0.0.1:{port}/healthz")[0] == 0, output)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_application_names_settings_that_the_fold_has() -> None:
    """Its variables are the fold's own, its port is the one of its metrics, its volume is where the checkpoint lies."""
    spec = yaml.safe_load((EXAMPLES / "spark-application.yaml").read_text())["spec"]
    driver = spec["driver"]
    given = {each["name"]: each["value"] for each in driver["env"]}
    fields = StreamSettings.model_fields
    assert {name.removeprefix("KCM_").lower() for name in given} <= set(fields)
    assert [each["containerPort"] for each in driver["ports"]] == [
        fields["stream_metrics_port"].default
    ]
    (mount,) = driver["volumeMounts"]
    assert given["KCM_CHECKPOINT_DIR"].startswith(mount["mountPath"] + "/")
    assert spec["mainApplicationFile"].endswith("/spark_fold.py")
