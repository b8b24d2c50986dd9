"""Fixtures of the server tests: the owner of processes, and a Java that only prints its version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.servers.supervisor import Supervisor


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor of this test's own."""
    with Supervisor(tmp_path) as supervisor:
        yield supervisor


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program that answers like Java 17."""
    path = tmp_path / "java" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\"' >&2\n")
    path.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return str(path)
