"""Spark's JVM maps the classes of an archive that fits, and starts as well with one that does not."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kcm.servers.class_archive import SPARK_CLASSES, find_class_archive
from kcm.servers.jars import Jars
from pipeline.java import find_java
from pipeline.settings import load
from streaming.config import StreamSettings
from streaming.session import Session
from streaming.workspace import Workspace
from tests.support.loaded_classes import MAPPED, loaded_classes, noting


def spark_classes(folder: Path, jars: Jars, archive: Path) -> list[str]:
    """Return what a JVM noted of the classes of Spark that it loaded, besides those that it makes of lambdas."""
    noted = folder / "loaded"
    settings = load(
        StreamSettings,
        connector_jars=tuple(jars.connector),
        class_archive=archive,
        spark_conf={"spark.driver.extraJavaOptions": noting(noted)},
    )
    java = find_java(os.environ).path
    with Workspace(folder / "checkpoint", stop=threading.Event()) as workspace:
        session = Session(settings, workspace, java)
        try:
            assert session.spark.range(5).count() == 5
        finally:
            session.close()
    return loaded_classes(noted, "org.apache.spark")


@pytest.mark.full
def test_spark_starts_from_an_archive_that_fits(jars: Jars, tmp_path: Path) -> None:
    """Nearly all classes of Spark come from the archive, once it was made."""
    archive = find_class_archive(SPARK_CLASSES, jars.connector, find_java(os.environ))
    assert archive is not None, "this Java made none"
    loaded = spark_classes(tmp_path, jars, archive)
    assert len(loaded) > 1_000
    assert sum(MAPPED in line for line in loaded) > 0.9 * len(loaded)


@pytest.mark.full
def test_spark_starts_without_an_archive_that_does_not_fit(jars: Jars, tmp_path: Path) -> None:
    """A damaged one costs time, and nothing else."""
    archive = tmp_path / "damaged.jsa"
    archive.write_bytes(b"no classes" * 1_000)
    loaded = spark_classes(tmp_path, jars, archive)
    assert len(loaded) > 1_000
    assert not [line for line in loaded if MAPPED in line]
