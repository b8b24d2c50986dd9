"""The properties that Spark's session gets."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from pipeline.settings import load
from streaming.config import StreamSettings
from streaming.session import spark_properties
from streaming.workspace import Workspace


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
