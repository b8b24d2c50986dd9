"""The cache of jars: what counts as complete, and what is said when it cannot be filled."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from kcm.jars.jars import (
    FILES_BY_CONF,
    IVY_FILE,
    OURS,
    default_cache,
    ensure_jars,
    ensure_set,
    failure_line,
    find_ivy,
    find_jars,
    ivy_command,
    write_manifest,
)
from pipeline.java import Java
from pipeline.runtime import EnvironmentProblemError
from tests.support.old_zookeeper import CONF, OLD_ZOOKEEPER
from tests.unit.kcm.jars.cached import fill

JAVA = Java(Path("/java"), "17")


UNRESOLVED = "\t\t:: org.apache.kafka#kafka_2.13;3.9.1: not found"


def test_a_complete_folder_is_read(tmp_path: Path) -> None:
    """All files of the manifest, each under its conf, and nothing else that lies around."""
    folder = OURS.folder(tmp_path)
    paths = fill(folder)
    (folder / "broker" / "stray.jar").touch()
    jars = find_jars(tmp_path)
    assert jars is not None
    assert {*jars.connector, *jars.broker} == set(paths)
    assert len(jars.connector) == FILES_BY_CONF["connector"]


def test_a_missing_or_short_file_makes_the_folder_incomplete(tmp_path: Path) -> None:
    """A file that was removed or cut short is noticed, and so are its return and its length."""
    path = fill(OURS.folder(tmp_path))[7]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert find_jars(tmp_path) is None
    path.unlink()
    assert find_jars(tmp_path) is None
    path.write_bytes(whole)
    assert find_jars(tmp_path) is not None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files":[{"name":"a"}]}', '{"files":[]}'])
def test_a_damaged_manifest_makes_the_folder_incomplete(tmp_path: Path, text: str) -> None:
    """Whatever is written there, it is not complete, and not a crash."""
    folder = OURS.folder(tmp_path)
    fill(folder)
    (folder / "manifest.json").write_text(text)
    assert find_jars(tmp_path) is None


def test_the_manifest_holds_hashes(tmp_path: Path) -> None:
    """A manifest names each file's size and SHA-256, for a reader who wants to compare."""
    path = fill(tmp_path)[0]
    entries = json.loads((tmp_path / "manifest.json").read_text())["files"]
    entry = next(e for e in entries if e["name"] == path.relative_to(tmp_path).as_posix())
    assert entry["size"] == path.stat().st_size
    assert entry["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_full_cache_needs_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jars that are there are taken without starting anything; else Java is asked for at once."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EnvironmentProblemError, match="found none"):
        ensure_jars(cache=tmp_path)
    fill(OURS.folder(tmp_path))
    assert len(ensure_jars(cache=tmp_path).broker) == FILES_BY_CONF["broker"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file where the cache's folder should be is one line, not a traceback."""
    blocked = tmp_path / "blocked"
    blocked.touch()
    with pytest.raises(
        EnvironmentProblemError, match=f"cannot keep jars in {blocked}: .*XDG_CACHE_HOME"
    ):
        ensure_jars(cache=blocked)


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_CACHE_HOME decides; empty or unset it is ~/.cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/kcm")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert default_cache() == Path.home() / ".cache" / "kcm"


@pytest.mark.parametrize(
    ("file", "counts", "least"),
    [(IVY_FILE, FILES_BY_CONF, 6), (OLD_ZOOKEEPER.ivy_file, OLD_ZOOKEEPER.counts, 3)],
)
def test_every_dependency_is_pinned(file: Path, counts: dict[str, int], least: int) -> None:
    """No version is a range, and every dependency goes to a conf that is counted."""
    dependencies = ET.parse(file).getroot().iter("dependency")  # noqa: S314 - our own file
    found = [(d.attrib["name"], d.attrib["rev"], d.attrib["conf"]) for d in dependencies]
    assert len(found) >= least
    for name, revision, conf in found:
        assert re.fullmatch(r"\d+(\.\d+)+", revision), name
        assert conf.removesuffix("->default") in counts, name


def test_an_old_zookeeper_is_kept_apart(tmp_path: Path) -> None:
    """Its jars lie in a folder of their own; the others are complete without them."""
    fill(OURS.folder(tmp_path))
    folder = OLD_ZOOKEEPER.folder(tmp_path) / CONF
    folder.mkdir(parents=True)
    for number in range(OLD_ZOOKEEPER.counts[CONF]):
        (folder / f"{number}.jar").touch()
    write_manifest(folder.parent)
    assert len(ensure_jars(cache=tmp_path).broker) == FILES_BY_CONF["broker"]
    assert ensure_set(OLD_ZOOKEEPER, tmp_path)[CONF] == sorted(folder.glob("*.jar"))


def test_being_offline_is_one_line() -> None:
    """What could not be had, what was not reached, what to do, and where the cache is."""
    output = [
        UNRESOLVED,
        "\tServer access error at url https://repo.example.org/maven2/a/b.pom (java.net.UnknownHostException: repo.example.org)",
    ]
    assert failure_line(output, Path("/cache")) == (
        "cannot download org.apache.kafka#kafka_2.13;3.9.1: no network reaches repo.example.org "
        "(java.net.UnknownHostException: repo.example.org); run again when online, or name a "
        "mirror's Ivy settings in KCM_IVY_SETTINGS; cache is /cache"
    )


def test_a_mirror_without_a_jar_is_not_taken_for_no_network() -> None:
    """Without an access error the repository answered, and does not have the file."""
    line = failure_line([UNRESOLVED], Path("/cache"))
    assert line.startswith(
        "cannot download org.apache.kafka#kafka_2.13;3.9.1: the repository does not have it"
    )


@pytest.mark.parametrize(
    ("output", "words"),
    [(["Error: no space left", "  "], "no space left"), ([], "it printed nothing")],
)
def test_any_other_failure_quotes_ivy(output: list[str], words: str) -> None:
    """What Ivy said last is in the line."""
    line = failure_line(output, Path("/cache"))
    assert words in line
    assert "\n" not in line


def test_ivy_settings_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own settings are handed to Ivy; a path to nothing is named."""
    settings = tmp_path / "settings.xml"
    monkeypatch.setenv("KCM_IVY_SETTINGS", str(settings))
    with pytest.raises(EnvironmentProblemError, match=f"KCM_IVY_SETTINGS names {settings}"):
        ivy_command(JAVA, tmp_path, tmp_path)
    settings.touch()
    command = ivy_command(JAVA, tmp_path, tmp_path)
    assert command[command.index("-settings") + 1] == str(settings)
    monkeypatch.delenv("KCM_IVY_SETTINGS")
    assert "-settings" not in ivy_command(JAVA, tmp_path, tmp_path)


def test_ivy_is_found_inside_pyspark() -> None:
    """The installed pyspark brings exactly the Ivy that is run."""
    assert re.fullmatch(r"ivy-[\d.]+\.jar", find_ivy().name)


def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter-only installation cannot download jars, and says why."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EnvironmentProblemError, match="pyspark is not installed"):
        find_ivy()
