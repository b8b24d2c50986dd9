"""The cache of jars: what counts as complete, and the messages when it cannot be filled."""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from kcm.servers import jars as jars_module
from kcm.servers.jars import (
    OURS,
    JarSet,
    default_cache,
    ensure_jars,
    ensure_set,
    failure_line,
    find_ivy,
    find_jars,
    ivy_command,
)
from pipeline.java import Java
from pipeline.runtime import EnvironmentProblemError
from tests.support.releases import KAFKAS, KRAFTS, ZOOKEEPER_3_4, ZOOKEEPERS, Release
from tests.unit.kcm.servers.cached import fill

JAVA = Java(Path("/java"), "17")


UNRESOLVED = "\t\t:: org.apache.kafka#kafka_2.13;3.9.1: not found"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kcm"


def test_a_complete_folder_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files of the list are read, each under its conf, and no other file."""
    paths = fill(monkeypatch)
    (OURS.folder() / "broker" / "stray.jar").touch()
    jars = find_jars()
    assert jars is not None
    assert {*jars.connector, *jars.broker} == set(paths)
    assert {path.parent.name for path in jars.connector} == {"connector"}


@pytest.mark.parametrize("damage", [b"short", b"BROKER"])
def test_a_missing_or_changed_file_makes_the_folder_incomplete(
    damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time, also where the size is the same; its repair is noticed as well."""
    path = next(each for each in fill(monkeypatch) if each.parent.name == "broker")
    whole = path.read_bytes()
    assert find_jars() is not None
    path.write_bytes(damage + whole[len(damage) :] if damage.isupper() else damage)
    assert find_jars() is None
    path.unlink()
    assert find_jars() is None
    path.write_bytes(whole)
    assert find_jars() is not None


def test_a_jar_of_another_content_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends the jars sends Ivy's checksums, too: our list decides, and the line names the jar."""
    fill(monkeypatch)
    name = "broker/kafka_2.13-3.9.1.jar"
    brought = {each: each.encode() for each in OURS.hashes()} | {name: b"other"}

    def run_ivy(folder: Path, _root: Path, _jar_set: JarSet, *, count: int) -> None:
        assert count == len(OURS.hashes())
        for each, content in brought.items():
            (folder / each).parent.mkdir(exist_ok=True)
            (folder / each).write_bytes(content)

    monkeypatch.setattr(jars_module, "run_ivy", run_ivy)
    (OURS.folder() / name).write_bytes(b"tampered")
    with pytest.raises(EnvironmentProblemError, match=rf"sent another {name} than this release"):
        ensure_jars()
    assert find_jars() is None
    del brought[name]
    brought["broker/unlisted.jar"] = b""
    with pytest.raises(EnvironmentProblemError, match=rf"Ivy did not bring {name}, of 1 "):
        ensure_jars()
    brought[name] = name.encode()
    jars = ensure_jars()
    assert len(jars.broker) + len(jars.connector) == len(OURS.hashes())


def test_a_full_cache_needs_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cached jars are returned without starting anything; otherwise Java is required at once."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EnvironmentProblemError, match="found none"):
        ensure_jars()
    paths = fill(monkeypatch)
    assert len(ensure_jars().broker) + len(ensure_jars().connector) == len(paths)


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


RELEASES = [*(each.release for each in (*KAFKAS, *ZOOKEEPERS)), *KRAFTS]
SETS = {release.jar_set.ivy_file: release.jar_set for release in RELEASES}


def dependencies(file: Path) -> list[dict[str, str]]:
    """Return the attributes of all dependencies of an Ivy file."""
    return [d.attrib for d in ET.parse(file).getroot().iter("dependency")]  # noqa: S314 - our own file


@pytest.mark.parametrize("jar_set", SETS.values(), ids=lambda each: each.ivy_file.stem)
def test_every_dependency_is_pinned(jar_set: JarSet) -> None:
    """No version is a range, and every dependency is in the list of hashes."""
    found = dependencies(jar_set.ivy_file)
    listed = jar_set.hashes()
    for each in found:
        conf = each["conf"].removesuffix("->default")
        assert re.fullmatch(r"\d+(\.\d+)+", each["rev"]), each["name"]
        assert f"{conf}/{each['name']}-{each['rev']}.jar" in listed
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in listed.values())


@pytest.mark.parametrize(
    ("release", "module"),
    [
        *((each.release, "kafka_2.13") for each in KAFKAS),
        *((each, "kafka_2.13") for each in KRAFTS),
        (ZOOKEEPER_3_4, "zookeeper"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_a_release_is_the_one_that_its_file_pins(release: Release, module: str) -> None:
    """The version that the matrix names is the version that Ivy is asked for."""
    pinned = {d["name"]: d["rev"] for d in dependencies(release.jar_set.ivy_file)}
    assert pinned[module] == release.version


def test_the_jars_of_another_release_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in a separate folder; this release's set is complete without them."""
    ours = fill(monkeypatch)
    jars = ensure_jars()
    others = fill(monkeypatch, ZOOKEEPER_3_4.jar_set)
    assert {*jars.broker, *jars.connector} == set(ours)
    assert ensure_set(ZOOKEEPER_3_4.jar_set)[ZOOKEEPER_3_4.conf] == sorted(others)


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
