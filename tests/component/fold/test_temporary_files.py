"""What Spark's JVM keeps of files that it is to delete at its end."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from pipeline.java import find_java
from pipeline.settings import load
from streaming.config import StreamSettings
from streaming.session import Session
from streaming.workspace import Workspace


@pytest.mark.full
def test_delete_on_exit_entries_of_batches_are_removed(tmp_path: Path) -> None:
    """Files that are noted for its end are forgotten, and more can be noted afterwards."""
    with Workspace(tmp_path / "checkpoint", stop=threading.Event()) as workspace:
        session = Session(load(StreamSettings), workspace, find_java(os.environ).path)
        try:
            jvm: Any = session.spark.sparkContext._jvm  # the only way to ask the JVM
            hook = jvm.java.lang.Class.forName("java.io.DeleteOnExitHook")
            files = hook.getDeclaredField("files")
            files.setAccessible(True)
            for number in range(5):
                jvm.java.io.File(f"/none/{number}.sock").deleteOnExit()
            assert files.get(None).size() >= 5
            session.forget_temporary_files()
            assert files.get(None).size() == 0
            jvm.java.io.File("/none/6.sock").deleteOnExit()
            assert list(files.get(None)) == ["/none/6.sock"]
        finally:
            session.close()
