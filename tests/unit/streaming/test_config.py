"""The options of the fold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.runtime import UsageError
from pipeline.settings import load
from streaming.config import StreamSettings


def test_jars_are_split_at_commas_and_colons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which people write lists of paths do."""
    monkeypatch.setenv("KCM_CONNECTOR_JARS", f"/a.jar,/b.jar{os.pathsep}/c.jar")
    assert load(StreamSettings).connector_jars == (Path("/a.jar"), Path("/b.jar"), Path("/c.jar"))


def test_a_bad_setting_is_one_line() -> None:
    """It names the option and what would do."""
    with pytest.raises(UsageError) as caught:
        load(StreamSettings, driver_memory="much", poll_delay_ms=0)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert any(line.startswith("option --driver-memory") for line in lines)
