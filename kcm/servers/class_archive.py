"""Make and find the class archives of Spark's JVM and of Kafka's: loaded classes in a file that a JVM maps into memory.

With its archive a JVM starts in half the time, for half the processor time; for so long a fold or a
broker that was killed is missing. One is made once for each Java and each set of jars, by a JVM that
starts as the fold's does, runs a query and ends, or by a broker that starts and stops (JEP 350). Java
itself checks whether an archive fits, and starts without one that does not.
"""

import contextlib
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from kcm.servers.jars import default_cache, file_lock
from kcm.servers.process import Process, without_settings
from kcm.servers.supervisor import Supervisor
from pipeline.java import Java

DEADLINE_S = 180.0
"""How long making one may take; Spark's takes half a minute."""


class Archived(NamedTuple):
    """A kind of JVM that has archives."""

    name: str
    """The one that `kcm.servers.archive_training` knows it by."""
    folder: Path
    """In the cache."""
    kept: int
    """How many of the last used archives are kept, in use or not: each release and each Java has its own."""
    mib: int
    """The size of one."""
    announced: str


SPARK_CLASSES = Archived(
    "spark", Path("class-archives"), 2, 150, "Spark's classes, once (half a minute)"
)
KAFKA_CLASSES = Archived(
    "kafka", Path("class-archives", "kafka"), 4, 45, "Kafka's classes, once (ten seconds)"
)
"""Brokers in both modes and controllers: one that is a broker and a controller loads what they have in common."""

TRAINING = "kcm.servers.archive_training"
"""The module that runs what an archive is made of."""

IN_USE_S = 86_400.0
"""An archive that a JVM started from within this time is kept, however many there are."""

_POLL_S = 0.1


def find_class_archive(of: Archived, jars: Sequence[Path], java: Java) -> Path | None:
    """Return the archive for these jars and this Java, and note that it is used; None where there is none. Makes nothing."""
    path = archive_path(of, jars, java)
    if not (path.is_file() and path.stat().st_size):
        return None
    with contextlib.suppress(OSError):  # another user's, or of a disk without write permission
        os.utime(path)
    return path


def ensure_class_archive(of: Archived, jars: Sequence[Path], java: Java) -> Path | None:
    """Return the archive for these jars and this Java; make it first if there is none.

    `java` is what `find_java` finds here. None where it cannot make one; the next call does not try again.
    """
    path = archive_path(of, jars, java)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(path.with_suffix(".lock")):
            if not path.is_file():
                Console(stderr=True).print(f"preparing {of.announced}", highlight=False)
                _make_archive(of, path, jars, java)
                _delete_unused(path.parent, of.kept)
    except OSError:
        return None  # disk full, or a folder without write permission: the JVM starts without it
    return find_class_archive(of, jars, java)


def archive_path(of: Archived, jars: Sequence[Path], java: Java) -> Path:
    """Return the path in the cache of the archive for these jars and this Java."""
    spark = importlib.util.find_spec("pyspark") if of == SPARK_CLASSES else None
    fits = [os.fspath(java.path.resolve()), java.version, str(spark and spark.origin)]
    key = "\n".join([*fits, *map(os.fspath, jars)])
    name = f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"
    return default_cache() / of.folder / name


def _delete_unused(folder: Path, kept: int) -> None:
    """Delete all archives but those in use and the last used ones; a JVM that has mapped one keeps it."""
    used = {each: each.stat().st_mtime for each in folder.glob("*.jsa")}
    for path in sorted(used, key=used.__getitem__)[:-kept]:
        if used[path] < time.time() - IN_USE_S:
            path.unlink(missing_ok=True)


def _make_archive(of: Archived, path: Path, jars: Sequence[Path], java: Java) -> None:
    """Make an archive, or an empty file where that fails; the file gets its name only when it is complete."""
    for left in path.parent.glob(f"{path.stem}.part-*"):
        shutil.rmtree(left, ignore_errors=True)  # its maker was killed: the lock is held here
    with tempfile.TemporaryDirectory(prefix=f"{path.stem}.part-", dir=path.parent) as folder:
        made = Path(folder) / path.name
        command: list[str | Path] = [sys.executable, "-m", TRAINING, of.name, made]
        if not _run_guarded([*command, java.path, *jars], Path(folder)):
            made.unlink(missing_ok=True)
        made.touch()
        made.rename(path)


def _run_guarded(command: Sequence[str | Path], folder: Path) -> bool:
    """Run a command under guard and without kcm's settings; return whether it succeeded in time."""
    with Supervisor(folder, kill_on_exit=True) as supervisor:
        training = Process(supervisor, "class-archive", command, env=without_settings())
        training.start()
        deadline = time.monotonic() + DEADLINE_S
        while training.running and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return training.exit_code == 0
