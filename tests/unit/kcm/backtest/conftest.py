"""Fixtures of the back-test tests: programs in place of Prometheus's that keep what they are given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

KEEPS_TEXTS = """#!/bin/sh
# promtool tsdb create-blocks-from openmetrics TEXT BLOCKS
test "$1 $2 $3" = "tsdb create-blocks-from openmetrics" || exit 9
cp "$4" "$5/$(ls "$5" | wc -l | tr -d ' ')"
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `promtool`, whose blocks are the texts that it got, by number, and of `prometheus`."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in (("promtool", KEEPS_TEXTS), ("prometheus", "#!/bin/sh\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    """The folder of blocks, still empty."""
    folder = tmp_path / "blocks"
    folder.mkdir()
    return folder
