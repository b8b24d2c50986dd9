"""What only the command line can know of a part's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.jars.jars import FILES_BY_CONF, OURS
from kcm.parts.run import with_connector_jars
from pipeline.settings import load
from streaming.config import StreamSettings
from tests.unit.kcm.jars.cached import fill


def test_jars_that_were_given_are_taken_as_they_are() -> None:
    """Nothing is looked for or downloaded when the user named them."""
    settings = load(StreamSettings, checkpoint_dir="/c", connector_jars="/a.jar,/b.jar")
    assert with_connector_jars(settings) is settings


def test_else_they_come_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold gets all jars of the connector, and none of the servers'."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fill(OURS.folder(tmp_path / "kcm"))
    jars = with_connector_jars(load(StreamSettings, checkpoint_dir="/c")).connector_jars
    assert len(jars) == FILES_BY_CONF["connector"]
    assert {jar.parent.name for jar in jars} == {"connector"}
