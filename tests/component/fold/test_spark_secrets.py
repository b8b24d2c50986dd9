"""Spark's JVM: what its arguments, its files and its wire show of secrets."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.java import find_java
from pipeline.settings import load
from streaming.config import StreamSettings
from streaming.session import Session, check_wire
from streaming.workspace import Workspace
from tests.support.processes import command_lines

SECRET = "hunter2 =:#!\\\"'{}äß\N{GRINNING FACE}$(id)`x"  # noqa: S105  # the password that must show nowhere
PLAIN_PART = "hunter2"
ACCOUNT_KEY = "spark.hadoop.fs.azure.account.key.acct.blob.core.windows.net"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """A checkpoint folder."""
    with Workspace(tmp_path / "checkpoint", stop=threading.Event()) as held:
        yield held


@pytest.mark.full
def test_a_secret_of_spark_is_in_no_argument_and_no_file(workspace: Workspace) -> None:
    """The JVM has each property to the letter; `ps` and the checkpoint folder have none of it."""
    settings = load(
        StreamSettings,
        driver_memory="500m",
        spark_conf={
            ACCOUNT_KEY: SECRET,
            "spark.driver.extraJavaOptions": f"-Dmy.password={PLAIN_PART} '-Dother=a \"b\\c'",
        },
    )
    session = Session(settings, workspace, find_java(os.environ, None).path)
    try:
        jvm: Any = session.spark.sparkContext._jvm  # the only way to ask the JVM
        seen = [called.decode(errors="replace") for called in command_lines().values()]
        held = {path: path.read_bytes() for path in workspace.root.rglob("*") if path.is_file()}
        conf: Any = session.spark.sparkContext._jsc.sc().conf()  # the same
        assert conf.get(ACCOUNT_KEY) == SECRET
        assert jvm.System.getProperty("my.password") == PLAIN_PART
        assert jvm.System.getProperty("other") == 'a "b\\c'
        assert jvm.Runtime.getRuntime().maxMemory() < 510 * 1024 * 1024
        assert session.spark.range(5).count() == 5
    finally:
        session.close()
    assert any("SparkSubmit" in line for line in seen)
    assert not [line for line in seen if PLAIN_PART in line]
    assert not [path for path, content in held.items() if PLAIN_PART.encode() in content]


@pytest.mark.full
def test_executors_authenticate_and_encrypt(workspace: Workspace, tmp_path: Path) -> None:
    """Connections to executors in separate processes are encrypted unless the user disables it."""
    settings = load(
        StreamSettings,
        spark_master="local-cluster[1,1,512]",
        spark_conf={
            "spark.authenticate.secret": PLAIN_PART,
            "spark.executor.memory": "512m",
            "spark.worker.cleanup.enabled": "true",
        },
    )
    check_wire(settings)
    os.environ["SPARK_WORKER_DIR"] = str(tmp_path / "work")
    session = Session(settings, workspace, find_java(os.environ, None).path)
    try:
        assert session.spark.range(1000, numPartitions=2).selectExpr("sum(id)").first()[0] == 499500  # type: ignore[index]  # an aggregate has a row
        seen = [called.decode(errors="replace") for called in command_lines().values()]
        conf = session.spark.sparkContext.getConf()
        assert conf.get("spark.authenticate") == "true"
        assert conf.get("spark.network.crypto.enabled") == "true"
    finally:
        session.close()
    executors = [line for line in seen if "CoarseGrainedExecutorBackend" in line]
    assert executors
    assert all("-Dspark.authenticate=true" in line for line in executors)
    assert not [line for line in seen if PLAIN_PART in line]
