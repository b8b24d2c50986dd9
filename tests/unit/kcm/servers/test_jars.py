"""The cache of jars: what counts as complete, and the messages when it cannot be filled."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from kcm.servers.jars import (
    FILES_BY_CONF,
    OURS,
    JarSet,
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
from tests.support.releases import KAFKAS, ZOOKEEPER_3_4, ZOOKEEPERS, Release
from tests.unit.kcm.servers.cached import fill

JAVA = Java(Path("/java"), "17")


UNRESOLVED = "\t\t:: org.apache.kafka#kafka_2.13;3.9.1: not found"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kcm"


def test_a_complete_folder_is_read() -> None:
    """All files of the manifest are read, each under its conf, and no other file."""
    folder = OURS.folder()
    paths = fill(folder)
    (folder / "broker" / "stray.jar").touch()
    jars = find_jars()
    assert jars is not None
    assert {*jars.connector, *jars.broker} == set(paths)
    assert len(jars.connector) == FILES_BY_CONF["connector"]


def test_a_missing_or_short_file_makes_the_folder_incomplete() -> None:
    """A deleted or truncated file is noticed, and so is its repair."""
    path = fill(OURS.folder())[7]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert find_jars() is None
    path.unlink()
    assert find_jars() is None
    path.write_bytes(whole)
    assert find_jars() is not None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files":[{"name":"a"}]}', '{"files":[]}'])
def test_a_damaged_manifest_makes_the_folder_incomplete(text: str) -> None:
    """Whatever the manifest holds, the folder is incomplete, and nothing crashes."""
    folder = OURS.folder()
    fill(folder)
    (folder / "manifest.json").write_text(text)
    assert find_jars() is None


def test_the_manifest_holds_hashes(tmp_path: Path) -> None:
    """The manifest has each file's size and SHA-256, so that a user can compare them."""
    path = fill(tmp_path)[0]
    entries = json.loads((tmp_path / "manifest.json").read_text())["files"]
    entry = next(e for e in entries if e["name"] == path.relative_to(tmp_path).as_posix())
    assert entry["size"] == path.stat().st_size
    assert entry["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_full_cache_needs_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cached jars are returned without starting anything; otherwise Java is required at once."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EnvironmentProblemError, match="found none"):
        ensure_jars()
    fill(OURS.folder())
    assert len(ensure_jars().broker) == FILES_BY_CONF["broker"]


def test_a_cache_that_cannot_be_written_is_named(cache: Path) -> None:
    """A file where the cache's folder should be is one line, not a traceback."""
    cache.touch()
    with pytest.raises(
        EnvironmentProblemError, match=f"cannot keep jars in {cache}: .*XDG_CACHE_HOME"
    ):
        ensure_jars()


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_CACHE_HOME decides; empty or unset it is ~/.cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/kcm")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert default_cache() == Path.home() / ".cache" / "kcm"


RELEASES = [each.release for each in (*KAFKAS, *ZOOKEEPERS)]
SETS = {release.jar_set.ivy_file: release.jar_set for release in RELEASES}


def dependencies(file: Path) -> list[dict[str, str]]:
    """Return the attributes of all dependencies of an Ivy file."""
    return [d.attrib for d in ET.parse(file).getroot().iter("dependency")]  # noqa: S314 - our own file


@pytest.mark.parametrize("jar_set", SETS.values(), ids=lambda each: each.ivy_file.stem)
def test_every_dependency_is_pinned(jar_set: JarSet) -> None:
    """No version is a range, and every dependency goes to a conf that is counted."""
    found = dependencies(jar_set.ivy_file)
    assert {d["conf"].removesuffix("->default") for d in found} == set(jar_set.counts)
    for each in found:
        assert re.fullmatch(r"\d+(\.\d+)+", each["rev"]), each["name"]


@pytest.mark.parametrize(
    ("release", "module"),
    [*((each.release, "kafka_2.13") for each in KAFKAS), (ZOOKEEPER_3_4, "zookeeper")],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_a_release_is_the_one_that_its_file_pins(release: Release, module: str) -> None:
    """The version that the matrix names is the version that Ivy is asked for."""
    pinned = {d["name"]: d["rev"] for d in dependencies(release.jar_set.ivy_file)}
    assert pinned[module] == release.version


def test_the_jars_of_another_release_are_kept_apart() -> None:
    """They are in a separate folder; this release's set is complete without them."""
    fill(OURS.folder())
    folder = ZOOKEEPER_3_4.jar_set.folder() / ZOOKEEPER_3_4.conf
    folder.mkdir(parents=True)
    for number in range(ZOOKEEPER_3_4.jar_set.counts[ZOOKEEPER_3_4.conf]):
        (folder / f"{number}.jar").touch()
    write_manifest(folder.parent)
    assert len(ensure_jars().broker) == FILES_BY_CONF["broker"]
    found = ensure_set(ZOOKEEPER_3_4.jar_set)[ZOOKEEPER_3_4.conf]
    assert found == sorted(folder.glob("*.jar"))


def test_being_offline_is_one_line() -> None:
    """The line says which jars are missing, which host was not reached, what to do, and where the cache is."""
    output = (
        f"{UNRESOLVED}\n"
        "\tServer access error at url https://repo.example.org/maven2/a/b.pom (java.net.UnknownHostException: repo.example.org)\n"
    )
    assert failure_line(output, Path("/cache")) == (
        "cannot download org.apache.kafka#kafka_2.13;3.9.1: no network reaches repo.example.org "
        "(java.net.UnknownHostException: repo.example.org); run again when online, or name a "
        "mirror's Ivy settings in KCM_IVY_SETTINGS; cache is /cache"
    )


def test_a_mirror_without_a_jar_is_not_taken_for_no_network() -> None:
    """Without an access error the repository answered, and does not have the file."""
    line = failure_line(UNRESOLVED, Path("/cache"))
    assert line.startswith(
        "cannot download org.apache.kafka#kafka_2.13;3.9.1: the repository does not have it"
    )


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("Resolving\n Error: no space left\n  \n", "Ivy failed: Error: no space left;"),
        ("", "it printed nothing"),
    ],
)
def test_any_other_failure_quotes_ivy(output: str, words: str) -> None:
    """What Ivy said last is in the line."""
    line = failure_line(output, Path("/cache"))
    assert words in line
    assert "\n" not in line


def test_ivy_settings_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own settings are passed to Ivy; a path to no file is reported."""
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
    """The installed pyspark contains the Ivy that is run."""
    assert re.fullmatch(r"ivy-[\d.]+\.jar", find_ivy().name)


def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter-only installation cannot download jars; the error says why."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EnvironmentProblemError, match="pyspark is not installed"):
        find_ivy()
