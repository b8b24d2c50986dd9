"""What a batch no longer costs the JVM, and what is started before the first one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kcm.servers.guard import process_table
from pipeline.java import find_java
from pipeline.settings import load
from streaming.config import StreamSettings
from streaming.session import Session
from streaming.workspace import Workspace
from tests.support.processes import command_lines
from tests.support.waiting import wait_until


class _Jvm(NamedTuple):
    jvm: Any
    hadoop: Any
    conf: Any
    listeners: list[str]
    chmod_calls: Path
    pid: int


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Jvm]:
    """Yield a session's JVM; each `chmod` that it starts is noted in a file."""
    folder = tmp_path_factory.mktemp("jvm")
    calls, chmod = folder / "calls", folder / "bin" / "chmod"
    calls.touch()
    chmod.parent.mkdir()
    chmod.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    chmod.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(chmod.parent), prepend=os.pathsep)
        with Workspace(folder / "checkpoint", stop=threading.Event()) as workspace:
            session = Session(load(StreamSettings), workspace, find_java(os.environ).path)
            try:
                context = session.spark.sparkContext
                jvm: Any = context._jvm  # the only way to ask the JVM
                jsc: Any = context._jsc
                bus = jsc.sc().listenerBus()
                listeners = [each.getClass().getSimpleName() for each in bus.listeners()]
                hadoop = jsc.hadoopConfiguration()
                pid = int(jvm.java.lang.ProcessHandle.current().pid())
                yield _Jvm(jvm, hadoop, session.spark.conf, listeners, calls, pid)
            finally:
                session.close()


def test_a_file_is_written_without_a_process(running: _Jvm, tmp_path: Path) -> None:
    """The umask decides its mode, and no checksum lies next to it; Hadoop's own file system starts `chmod`."""
    hadoop_fs = running.jvm.org.apache.hadoop.fs
    where = running.jvm.java.net.URI(tmp_path.as_uri())
    umask = os.umask(0)
    os.umask(umask)
    hadoop_fs.FileSystem.get(where, running.hadoop).create(hadoop_fs.Path(f"{where}/a/b")).close()
    assert not running.chmod_calls.read_text()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o666 & ~umask
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o777 & ~umask
    fresh = hadoop_fs.FileSystem.newInstance(where, running.hadoop)
    fresh.create(hadoop_fs.Path(f"{where}/c")).close()
    assert str(tmp_path / "c") in running.chmod_calls.read_text()


def test_files_are_copied_to_and_from_the_checkpoint_as_before(
    running: _Jvm, tmp_path: Path
) -> None:
    """RocksDBFileManager copies its snapshots so."""
    hadoop_fs = running.jvm.org.apache.hadoop.fs
    (tmp_path / "a").write_bytes(b"abc")
    where = running.jvm.java.net.URI(tmp_path.as_uri())
    files = hadoop_fs.FileSystem.get(where, running.hadoop)
    files.copyFromLocalFile(hadoop_fs.Path(f"{where}/a"), hadoop_fs.Path(f"{where}/b"))
    files.copyToLocalFile(hadoop_fs.Path(f"{where}/b"), hadoop_fs.Path(f"{where}/c"))
    files.rename(hadoop_fs.Path(f"{where}/c"), hadoop_fs.Path(f"{where}/d"))
    assert (tmp_path / "b").read_bytes() == (tmp_path / "d").read_bytes() == b"abc"


def test_threads_without_a_session_generate_no_code_either(running: _Jvm) -> None:
    """A new SQLConf is what they read."""
    setting = "spark.sql.codegen.factoryMode"
    assert running.conf.get(setting) == "NO_CODEGEN"
    settings = running.jvm.org.apache.spark.sql.internal
    entry = getattr(getattr(running.jvm, "org.apache.spark.sql.internal.SQLConf$"), "MODULE$")
    assert settings.SQLConf().getConf(entry.CODEGEN_FACTORY_MODE()).toString() == "NO_CODEGEN"


def test_no_listener_keeps_figures_for_pages_that_are_off(running: _Jvm) -> None:
    """Others stay, such as the receiver of heartbeats."""
    assert running.listeners
    assert not [name for name in running.listeners if name.endswith("AppStatusListener")]


def test_a_python_worker_is_started_without_a_query(running: _Jvm) -> None:
    """Spark forks it from its daemon, and keeps it for the first batch."""

    def workers() -> list[int]:
        parents = {pid: parent for pid, parent, _, _ in process_table()}
        return [pid for pid, parent in parents.items() if parents.get(parent) == running.pid]

    (worker,) = wait_until(workers)
    assert b"pyspark.daemon" in command_lines()[worker]
