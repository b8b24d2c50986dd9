"""Which Java is used, and the error when none is usable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.java import Java, find_java, use_java
from pipeline.runtime import EnvironmentProblemError


def fake_java(folder: Path, answer: str, *, exit_code: int = 0) -> Path:
    """Write a program `bin/java` below the folder that answers `-version`, and return it."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{answer}' >&2\nexit {exit_code}\n")
    path.chmod(0o755)
    return path


def test_java_home_takes_precedence_over_path(tmp_path: Path) -> None:
    """JAVA_HOME's Java is taken although PATH has another."""
    home = fake_java(tmp_path / "home", 'openjdk version "21.0.1" 2023-10-17')
    other = fake_java(tmp_path / "other", 'openjdk version "17.0.15" 2025-04-15')
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(other.parent)})
    assert found == Java(home, "21.0.1")


def test_the_setting_takes_precedence_over_java_home(tmp_path: Path) -> None:
    """java_home's Java is taken although JAVA_HOME names another."""
    chosen = fake_java(tmp_path / "chosen", 'openjdk version "17.0.15" 2025-04-15')
    other = fake_java(tmp_path / "other", 'openjdk version "21-ea"')
    environ = {"JAVA_HOME": str(other.parent.parent)}
    assert find_java(environ, tmp_path / "chosen") == Java(chosen, "17.0.15")
    assert find_java(environ) == Java(other, "21-ea")


def test_the_java_of_the_setting_is_found_by_all_that_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by what does not know the setting, and where JAVA_HOME names none."""
    chosen = fake_java(tmp_path / "chosen", 'openjdk version "17.0.15" 2025-04-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert use_java(tmp_path / "chosen") == Java(chosen, "17.0.15")
    assert find_java(os.environ) == Java(chosen, "17.0.15")
    assert use_java(None) == Java(chosen, "17.0.15")


def test_path_is_searched_without_java_home(tmp_path: Path) -> None:
    """An empty JAVA_HOME counts as none."""
    path = fake_java(tmp_path, 'openjdk version "17.0.15" 2025-04-15')
    assert find_java({"JAVA_HOME": "", "PATH": str(path.parent)}) == Java(path, "17.0.15")


def test_a_missing_java_is_reported_with_the_remedy(tmp_path: Path) -> None:
    """The error names the required version and how to install it."""
    with pytest.raises(EnvironmentProblemError) as caught:
        find_java({"PATH": str(tmp_path)})
    assert str(caught.value) == (
        "Java 17 or newer is needed; found none; install a JRE 17 or set JAVA_HOME"
    )


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_292", "16"])
def test_an_old_java_is_named_with_its_place(tmp_path: Path, version: str) -> None:
    """The error names the version that was found, and where."""
    path = fake_java(tmp_path, f'openjdk version "{version}"')
    with pytest.raises(EnvironmentProblemError) as caught:
        find_java({"PATH": str(path.parent)})
    assert str(caught.value) == (
        f"Java 17 or newer is needed; found {version} at {path}; install a JRE 17 or set JAVA_HOME"
    )


def test_a_wrong_java_home_is_named(tmp_path: Path) -> None:
    """A JAVA_HOME without a Java is an error, not a reason to use another one silently."""
    other = fake_java(tmp_path / "other", 'openjdk version "17.0.15"')
    env = {"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(other.parent)}
    with pytest.raises(
        EnvironmentProblemError, match=r"JAVA_HOME is .*gone but .*gone/bin/java cannot be run"
    ):
        find_java(env)


def test_a_java_without_version_output_is_named(tmp_path: Path) -> None:
    """A program that prints no version is not taken for a Java."""
    path = fake_java(tmp_path, "The operation could not be completed", exit_code=1)
    with pytest.raises(EnvironmentProblemError, match=f"{path} does not answer to -version"):
        find_java({"PATH": str(path.parent)})
