"""The class archives of Spark and Kafka: their paths, what they depend on, and failures to make them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kcm.servers import class_archive
from kcm.servers.class_archive import (
    KAFKA_CLASSES,
    SPARK_CLASSES,
    Archived,
    archive_path,
    ensure_class_archive,
    find_class_archive,
)
from pipeline.java import Java
from tests.support.processes import command_lines

JARS = (Path("/a.jar"), Path("/b.jar"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_java(tmp_path: Path) -> Java:
    """A program in place of Java that makes no archive."""
    path = tmp_path / "jre" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    return Java(path, "17.0.1")


def test_each_java_and_set_of_jars_has_its_own_archive(no_java: Java) -> None:
    """Another release of Java or of the jars never uses an old archive."""
    ways = [
        archive_path(KAFKA_CLASSES, JARS, no_java),
        archive_path(SPARK_CLASSES, JARS, no_java),
        archive_path(SPARK_CLASSES, JARS[:1], no_java),
        archive_path(SPARK_CLASSES, JARS, Java(no_java.path, "17.0.2")),
        archive_path(SPARK_CLASSES, JARS, Java(Path("/other/bin/java"), "17.0.1")),
    ]
    assert len(set(ways)) == len(ways)


def test_a_java_that_cannot_make_an_archive_is_tried_once(no_java: Java) -> None:
    """An empty file records it: the next start loses no time, and Spark starts without an archive."""
    assert ensure_class_archive(SPARK_CLASSES, JARS, no_java) is None
    remembered = archive_path(SPARK_CLASSES, JARS, no_java)
    assert remembered.stat().st_size == 0
    made_at = remembered.stat().st_mtime_ns
    assert ensure_class_archive(SPARK_CLASSES, JARS, no_java) is None
    assert remembered.stat().st_mtime_ns == made_at


def test_an_archive_that_takes_too_long_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark starts without an archive, an incomplete one is never used, and no process is left."""
    monkeypatch.setattr(class_archive, "DEADLINE_S", 0.3)
    java = tmp_path / "slow"
    assert ensure_class_archive(SPARK_CLASSES, JARS, Java(java, "17.0.1")) is None
    assert archive_path(SPARK_CLASSES, JARS, Java(java, "17.0.1")).stat().st_size == 0
    assert not [line for line in command_lines().values() if os.fsencode(java) in line]


def test_leftovers_of_a_killed_process_are_deleted(no_java: Java) -> None:
    """It may be as large as an archive, and is never completed."""
    made = archive_path(SPARK_CLASSES, JARS, no_java)
    left = made.parent / f"{made.stem}.part-x"
    left.mkdir(parents=True)
    (left / made.name).write_bytes(b"half")
    ensure_class_archive(SPARK_CLASSES, JARS, no_java)
    assert not left.exists()


@pytest.mark.parametrize("of", [SPARK_CLASSES, KAFKA_CLASSES], ids=lambda of: of.name)
def test_only_archives_in_use_and_the_last_used_are_kept(of: Archived, no_java: Java) -> None:
    """Spark's have 150 MB each, so unused ones are deleted when one is made; the other kind's stay."""
    other = archive_path(SPARK_CLASSES if of == KAFKA_CLASSES else KAFKA_CLASSES, JARS, no_java)
    made = archive_path(of, JARS, no_java)
    older = [made.parent / f"{age}.jsa" for age in range(of.kept + 1)]
    for age, path in enumerate([*older, other], start=1):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"classes")
        os.utime(path, ns=(1_000 - age, 1_000 - age))
    ensure_class_archive(of, JARS, no_java)
    assert sorted(made.parent.glob("*.jsa")) == sorted([made, *older[: of.kept - 1]])
    assert other.exists()


def test_archives_of_more_releases_than_are_kept_stay_while_they_are_used(no_java: Java) -> None:
    """A JVM that starts from an archive has used it, so what starts next to many others keeps its own."""
    sets = [(Path(f"/{number}.jar"),) for number in range(KAFKA_CLASSES.kept + 2)]
    paths = [archive_path(KAFKA_CLASSES, jars, no_java) for jars in sets]
    paths[0].parent.mkdir(parents=True)
    for jars, path in zip(sets, paths, strict=True):
        path.write_bytes(b"classes")
        os.utime(path, (0, 0))
        assert find_class_archive(KAFKA_CLASSES, jars, no_java) == path
    ensure_class_archive(KAFKA_CLASSES, JARS, no_java)
    assert all(path.exists() for path in paths)


def test_an_unwritable_cache_makes_no_archive_and_no_error(cache: Path, no_java: Java) -> None:
    """Spark starts without an archive, as with an empty one."""
    (cache / "kcm").write_text("no folder")
    assert ensure_class_archive(SPARK_CLASSES, JARS, no_java) is None
    assert find_class_archive(SPARK_CLASSES, JARS, no_java) is None
