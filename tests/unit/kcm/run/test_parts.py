"""Settings of a part that only the command line can know."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kcm.run.parts import with_connector_jars
from kcm.servers.class_archive import SPARK_CLASSES, archive_path
from kcm.servers.jars import OURS
from pipeline.java import find_java
from pipeline.settings import load
from streaming.config import StreamSettings
from tests.unit.kcm.servers.cached import fill


def test_jars_that_were_given_are_taken_as_they_are() -> None:
    """No jars are looked for or downloaded when the user named them."""
    settings = load(StreamSettings, checkpoint_dir="/c", connector_jars="/a.jar,/b.jar")
    assert with_connector_jars(settings) == settings


def test_an_archive_that_was_made_for_the_jars_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked up by the jars and the Java; one that the user named wins."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jars = (Path("/a.jar"), Path("/b.jar"))
    settings = load(StreamSettings, checkpoint_dir="/c", connector_jars=jars)
    made = archive_path(SPARK_CLASSES, jars, find_java(os.environ))
    made.parent.mkdir(parents=True)
    made.write_bytes(b"classes")
    assert with_connector_jars(settings).class_archive == made
    other = settings.model_copy(update={"class_archive": Path("/other.jsa")})
    assert with_connector_jars(other).class_archive == Path("/other.jsa")


def test_jars_come_from_the_cache_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fold gets all jars of the connector, and none of the servers'."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fill(monkeypatch)
    jars = with_connector_jars(load(StreamSettings, checkpoint_dir="/c")).connector_jars
    assert len(jars) == sum(name.startswith("connector/") for name in OURS.hashes())
    assert {jar.parent.name for jar in jars} == {"connector"}
