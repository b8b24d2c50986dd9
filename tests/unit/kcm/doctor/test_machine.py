"""The lines of `kcm doctor` about this machine."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from kcm.doctor.findings import Level
from kcm.doctor.machine import check_machine


@pytest.fixture(autouse=True)
def _no_jars_and_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache, and nothing on the path."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def test_missing_requirements_of_the_fold_are_warnings_with_what_to_do() -> None:
    """It is only a warning because the fold may run on another machine."""
    kcm, *others = check_machine(None)
    assert (kcm.level, kcm.about) == (Level.OK, "kcm")
    assert kcm.text.endswith("can run here: watch, stream, export")
    assert [(each.level, each.about) for each in others] == [
        (Level.WARN, "java"),
        (Level.WARN, "jars"),
    ]
    assert all(each.todo for each in others)


def test_a_machine_without_the_fold_needs_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an installed part can lack something."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyspark" else found(name)
    )
    kcm, java = check_machine(None)
    assert kcm.text.endswith("can run here: watch, export")
    assert (java.level, java.about) == (Level.UNKNOWN, "java")
