"""Spark's JVM starts where the machine's own name has no address, as where an image is built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.java import find_java
from tests.component.chart.chart import can_confine

ROOT = Path(__file__).resolve().parents[3]
NAME = "kcm-host-without-an-address"
START = """
import sys, threading
from pathlib import Path
from pipeline.settings import load
from streaming.config import StreamSettings
from streaming.session import Session
from streaming.workspace import Workspace
with Workspace(Path(sys.argv[1]), stop=threading.Event()) as workspace:
    session = Session(load(StreamSettings), workspace, Path(sys.argv[2]))
    print(session.spark.range(5).count())
    session.close()
"""


@pytest.mark.full
@pytest.mark.skipif(not can_confine(), reason="no namespace of our own may be made here (unshare)")
def test_spark_starts_where_the_machines_name_has_no_address(tmp_path: Path) -> None:
    """In local mode nothing needs it: Java's getLocalHost, which fails there, is not asked."""
    java = find_java(os.environ).path
    command = (sys.executable, "-c", START, str(tmp_path / "checkpoint"), str(java))
    inside = ("unshare", "--uts", "sh", "-c", f'hostname {NAME}; exec "$@"', "sh", *command)
    kept = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    done = subprocess.run(
        inside, cwd=ROOT, env=kept, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.strip() == "5", done.stderr
