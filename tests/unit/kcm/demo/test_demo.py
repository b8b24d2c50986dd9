"""How the demo ends when it cannot start."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.demo.demo import run_demo


@pytest.fixture
def _signals() -> Iterator[None]:
    """Restore the handler of SIGTERM: a demo replaces it for good."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_signals")
def test_a_missing_java_is_one_line_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard error says what is missing, the exit code is 1, and no folder is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert run_demo(keep=False, fast=True, plain=True) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kcm: Java 17 or newer is needed; found none")
    assert list(tmp_path.glob("kcm-demo-*")) == []
