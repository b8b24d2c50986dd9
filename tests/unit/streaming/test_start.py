"""What is checked before Spark starts: settings, Java, jars; and the properties that it gets."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pipeline.runtime import EnvironmentProblemError
from pipeline.settings import load
from streaming.config import StreamSettings
from streaming.service import run


def fake_java(folder: Path, version: str) -> Path:
    """Write a program that answers `-version` as a Java would; return its home."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return folder


def test_missing_jars_are_named(tmp_path: Path) -> None:
    """Before anything starts, with what to do."""
    java_home = fake_java(tmp_path / "java", "17.0.1")
    settings = load(StreamSettings, connector_jars=(tmp_path / "no.jar",), java_home=java_home)
    with pytest.raises(EnvironmentProblemError, match=r"no\.jar; correct connector_jars"):
        run(settings, threading.Event())
    without = load(StreamSettings, java_home=java_home)
    with pytest.raises(EnvironmentProblemError, match="not given: set connector_jars"):
        run(without, threading.Event())
