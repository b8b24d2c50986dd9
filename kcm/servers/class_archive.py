"""Make and find the class archive of Spark's JVM: its loaded classes in a file that it maps into memory.

With the archive the JVM starts in half the time, for half the processor time; for so long a fold
that was killed is missing. It is made once for each Java and each set of jars, by a JVM that starts
as the fold's does, runs a query and ends (JEP 350). Java itself checks whether an archive fits, and
starts without one that does not.
"""

import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from kcm.servers.jars import default_cache, file_lock
from kcm.servers.process import Process, without_settings
from kcm.servers.supervisor import Supervisor
from pipeline.java import Java

DEADLINE_S = 180.0
"""How long making one may take; it takes half a minute."""

KEPT = 2
"""How many of the newest archives are kept: each has 150 MB, and each release and each Java has its own."""

_POLL_S = 0.1

_BATCHES = 3
"""Batches of the query: nothing new is loaded from the second one on."""


def find_class_archive(connector: Sequence[Path], java: Java) -> Path | None:
    """Return the archive for these jars and this Java; None where there is none. Makes nothing."""
    path = archive_path(connector, java)
    return path if path.is_file() and path.stat().st_size else None


def ensure_class_archive(connector: Sequence[Path], java: Java) -> Path | None:
    """Return the archive for these jars and this Java; make it first if there is none.

    None where this Java cannot make one; the next call does not try again.
    """
    path = archive_path(connector, java)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(path.with_suffix(".lock")):
            if not path.is_file():
                Console(stderr=True).print(
                    "preparing Spark's classes, once (half a minute)", highlight=False
                )
                _make_archive(path, connector, java)
                made = path.parent.glob("*.jsa")
                for old in sorted(made, key=lambda each: each.stat().st_mtime)[:-KEPT]:
                    old.unlink(missing_ok=True)  # a JVM that has mapped it keeps it
    except OSError:
        return None  # disk full, or a folder without write permission: Spark starts without it
    return find_class_archive(connector, java)


def archive_path(connector: Sequence[Path], java: Java) -> Path:
    """Return the path in the cache of the archive for these jars and this Java."""
    spark = importlib.util.find_spec("pyspark")
    fits = [os.fspath(java.path.resolve()), java.version, str(spark and spark.origin)]
    key = "\n".join([*fits, *map(os.fspath, connector)])
    name = f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"
    return default_cache() / "class-archives" / name


def _make_archive(path: Path, connector: Sequence[Path], java: Java) -> None:
    """Make an archive, or an empty file where that fails; the file gets its name only when it is complete."""
    for left in path.parent.glob(f"{path.stem}.part-*"):
        shutil.rmtree(left, ignore_errors=True)  # its maker was killed: the lock is held here
    with tempfile.TemporaryDirectory(prefix=f"{path.stem}.part-", dir=path.parent) as folder:
        made = Path(folder) / path.name
        command: list[str | Path] = [sys.executable, "-m", __name__, made, java.path, *connector]
        if not _run_guarded(command, Path(folder)):
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


def _train(made: Path, java: Path, connector: Sequence[Path]) -> None:
    """Start Spark as the fold does, run a query with state, and make the JVM write its classes at its end."""
    from pipeline.settings import load  # noqa: PLC0415  # Spark takes a second to import
    from streaming.config import StreamSettings  # noqa: PLC0415
    from streaming.session import Session  # noqa: PLC0415
    from streaming.workspace import Workspace  # noqa: PLC0415

    settings = load(
        StreamSettings,
        connector_jars=tuple(connector),
        spark_conf={"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={made}"},
    )
    made.parent.mkdir(parents=True, exist_ok=True)
    with Workspace(made.parent / "checkpoint", stop=threading.Event()) as workspace:
        session = Session(settings, workspace, java)
        try:
            _query(session.spark, workspace.root)
        finally:
            session.close(jvm_deadline_s=DEADLINE_S)


def _query(spark: Any, folder: Path) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = rows.selectExpr("value % 3 AS key").groupBy("key").count()
    writer = counts.writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", os.fspath(folder / "query")).start()
    while query.isActive and (query.lastProgress or {}).get("batchId", 0) < _BATCHES:
        time.sleep(_POLL_S)
    query.stop()


if __name__ == "__main__":
    _train(Path(sys.argv[1]), Path(sys.argv[2]), [Path(each) for each in sys.argv[3:]])
