"""What is checked before Spark starts: settings, Java, jars; and the properties that it gets."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pipeline.runtime import EnvironmentProblemError, UsageError
from pipeline.settings import load
from streaming.config import StreamSettings
from streaming.service import run
from streaming.session import spark_properties
from streaming.workspace import Workspace


def fake_java(folder: Path, version: str) -> Path:
    """Write a program that answers `-version` as a Java would; return its home."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return folder


def test_jars_are_split_at_commas_and_colons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which people write lists of paths do."""
    monkeypatch.setenv("KCM_CONNECTOR_JARS", f"/a.jar,/b.jar{os.pathsep}/c.jar")
    assert load(StreamSettings).connector_jars == (Path("/a.jar"), Path("/b.jar"), Path("/c.jar"))


def test_a_bad_setting_is_one_line() -> None:
    """It names the option and what would do."""
    with pytest.raises(UsageError) as caught:
        load(StreamSettings, driver_memory="much", poll_delay_ms=0)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert any(line.startswith("option --driver-memory") for line in lines)


def test_missing_jars_are_named(tmp_path: Path) -> None:
    """Before anything starts, with what to do."""
    java_home = fake_java(tmp_path / "java", "17.0.1")
    settings = load(StreamSettings, connector_jars=(tmp_path / "no.jar",), java_home=java_home)
    with pytest.raises(EnvironmentProblemError, match=r"no\.jar; correct connector_jars"):
        run(settings, threading.Event())
    without = load(StreamSettings, java_home=java_home)
    with pytest.raises(EnvironmentProblemError, match="not given: set connector_jars"):
        run(without, threading.Event())


def test_the_users_spark_properties_win(tmp_path: Path) -> None:
    """Ours are defaults; what would break the order of the log is not among the settings."""
    settings = load(
        StreamSettings, spark_conf={"spark.sql.adaptive.enabled": "true", "spark.x": "y"}
    )
    workspace = Workspace(tmp_path, stop=threading.Event())
    properties = spark_properties(settings, workspace)
    assert properties["spark.sql.adaptive.enabled"] == "true"
    assert properties["spark.x"] == "y"
    assert properties["spark.sql.streaming.noDataMicroBatches.enabled"] == "false"
    assert properties["spark.local.dir"] == str(tmp_path / "scratch")


def test_jars_reach_a_cluster_too(tmp_path: Path) -> None:
    """Locally they stand on the class path; a cluster's executors get them sent."""
    workspace = Workspace(tmp_path, stop=threading.Event())
    jars = (Path("/a.jar"), Path("/b.jar"))
    local = spark_properties(load(StreamSettings, connector_jars=jars), workspace)
    assert local["spark.driver.extraClassPath"] == f"/a.jar{os.pathsep}/b.jar"
    remote = spark_properties(
        load(StreamSettings, connector_jars=jars, spark_master="spark://m:7077"), workspace
    )
    assert remote["spark.jars"] == "/a.jar,/b.jar"
    assert "spark.driver.host" not in remote
