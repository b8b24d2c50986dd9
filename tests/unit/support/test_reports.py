"""A failing test is reported with its assertion, whatever is collected meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

FAILING = """
import gc


class Unclosed:
    def __init__(self):
        self.itself = self

    def __del__(self):
        raise ResourceWarning("unclosed")


def leave_one(phase, info):
    if phase == "stop":
        Unclosed()


def test_that_fails():
    gc.callbacks.append(leave_one)
    gc.set_threshold(50)
    assert 1 + 1 == 3
"""


def test_a_finalizer_that_raises_hides_no_failure(tmp_path: Path) -> None:
    """Its traceback is written while that of the test is; the session goes on, and shows the assertion."""
    path = tmp_path / "test_failing.py"
    path.write_text(FAILING)
    options = ["-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--rootdir={tmp_path}", str(path)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "assert (1 + 1) == 3" in done.stdout
    assert "1 failed" in done.stdout
