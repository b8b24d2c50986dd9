"""The Dockerfile, held against what it copies and installs; `python -m tests.images` builds it and runs the images."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kcm.cli.parts import EXPORT, STREAM, WATCH
from kcm.servers.jars import Jars
from tests.component.chart.chart import (
    DOCKERFILE,
    ROOT,
)


def test_the_image_names_the_jars_that_are_pinned(jars: Jars) -> None:
    """The connector's jars that the image gives to kcm are those that it copies."""
    given = re.search(r"KCM_CONNECTOR_JARS=(\S+)", DOCKERFILE.read_text())
    assert given
    named = [Path(path) for path in given.group(1).split(",")]
    assert sorted(path.name for path in named) == sorted(path.name for path in jars.connector)
    assert {str(path.parent) for path in named} == {"/opt/connector"}


def test_the_images_copy_every_package_that_the_wheel_needs() -> None:
    """What the build may see holds all packages, and the extras of the three parts are installed."""
    seen = (ROOT / "docker" / "Dockerfile.dockerignore").read_text().split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {f"!{name}" for name in packages} <= set(seen)
    text = DOCKERFILE.read_text()
    assert all(f"--extra {part.verb}" in text for part in (WATCH, STREAM, EXPORT))


def test_packages_of_the_image_are_pinned_and_in_the_sbom() -> None:
    """The base by its digest, each package of Debian with its release; each image has its bill of materials."""
    text = DOCKERFILE.read_text()
    installed = re.findall(r"apt-get install -y --no-install-recommends (\S+)", text)
    assert set(installed) == {'"${JRE}"'}
    bases = set(re.findall(r"^FROM (\S+) AS", text, re.MULTILINE)) - stages().keys()
    assert bases == {"${BASE}"}
    assert re.search(
        r"^ARG BASE=python:3\.11-slim-bookworm@sha256:[0-9a-f]{64}$", text, re.MULTILINE
    )
    assert re.search(r"^ARG JRE=openjdk-17-jre-headless=17[0-9.]+\+\S+$", text, re.MULTILINE)
    for name in ("monitor", "monitor-spark"):
        assert "/sbom.py" in stages()[name]
        assert ("ARG JRE" in stages()[name]) == ("${JRE}" in stages()[name])


def test_a_build_needs_no_registry_but_that_of_its_base() -> None:
    """No frontend is fetched from Docker Hub: a mirror or a base of one's own is enough."""
    assert not re.search(r"^#\s*syntax=", DOCKERFILE.read_text(), re.MULTILINE)


@pytest.mark.parametrize("target", ["monitor", "monitor-spark"])
def test_an_image_says_what_it_is(target: str) -> None:
    """Labels in OCI's names, the release among them, and the ports that the parts listen on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', stages()[target]))
    assert labels["title"] == f"kafka-controller-{target}"
    assert labels["version"] == project["version"]
    assert labels["licenses"] == project["license"]
    assert labels["description"]
    assert labels["revision"] == "${REVISION}"
    # Else podman 4 would take the label of an earlier build from its cache.
    assert re.search(r"ARG REVISION=.*\nRUN ", stages()[target])
    ports = re.findall(r"^EXPOSE (.+)$", stages()[target], re.MULTILINE)
    assert ports == (["9640 9641"] if target == "monitor" else ["9642"])


def stages() -> dict[str, str]:
    """Return the stages of the Dockerfile: name -> its instructions and its bases' instructions."""
    found: dict[str, str] = {}
    for stage in re.split(r"^FROM ", DOCKERFILE.read_text(), flags=re.MULTILINE)[1:]:
        first, _, rest = stage.partition("\n")
        base, name = first.split(" AS ")
        found[name] = found.get(base, "") + rest
    return found


def test_an_edit_of_a_source_downloads_nothing_again() -> None:
    """Packages, Java and jars come before the sources: what follows these takes nothing from elsewhere."""
    copied = [text for text in stages().values() if "COPY . ." in text]
    assert copied
    for text in copied:
        after = text.partition("COPY . .")[2]
        assert not re.search("apt-get|hashes|ensure_jars", after)
    for name, text in stages().items():
        if "--from=wheel" in text:
            after = text.partition("--from=wheel")[2]
            assert not re.search("apt-get|hashes|ensure_jars", after), name


def test_the_jars_are_fetched_by_what_is_copied_for_it(tmp_path: Path) -> None:
    """The stage that fetches them holds every module it needs, and no other module of kcm."""
    for line in re.findall(
        r"^COPY (.+)$", stages()["jars"].partition("requirements.lock")[2], re.MULTILINE
    ):
        *sources, target = line.split()
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, tmp_path / target)
            else:
                (tmp_path / target).mkdir(exist_ok=True)
                shutil.copy(ROOT / source, tmp_path / target)
    imported = subprocess.run(
        [sys.executable, "-c", "import kcm.servers.jars as jars; print(jars.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert imported.stdout.startswith(str(tmp_path)), imported.stderr
    assert (tmp_path / "kcm" / "servers" / "ivy.xml").is_file()
    assert (tmp_path / "kcm" / "servers" / "ivy.sha256").is_file()


def test_the_image_with_spark_has_what_executors_run() -> None:
    """The template's command is a program that the image gets, and that may be run."""
    given = re.search(
        r"^COPY (docker/\S+) /opt/kcm/bin/spark-executor$", DOCKERFILE.read_text(), re.MULTILINE
    )
    assert given
    assert os.access(ROOT / given.group(1), os.X_OK)
    assert f"!{given.group(1)}" in (ROOT / "docker" / "Dockerfile.dockerignore").read_text().split()
