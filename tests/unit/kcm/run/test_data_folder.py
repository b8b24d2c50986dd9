"""The folder of `kcm up`: where it is, and that one process uses it at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kcm.run.up import default_folder, locked
from pipeline.runtime import ConflictError, EnvironmentProblemError


def test_data_of_a_cluster_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default folder follows XDG_STATE_HOME and ends with the cluster's name."""
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_folder("prod") == Path("/state/kcm/prod")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_folder("prod") == Path("/home/me/.local/state/kcm/prod")


def test_one_folder_serves_one_process_at_a_time(tmp_path: Path) -> None:
    """A second lock of the same folder is refused, with the holder's pid, until the first is released."""
    folder = tmp_path / "data"
    with (
        locked(folder),
        pytest.raises(ConflictError, match=f"process {os.getpid()}.*{folder}"),
        locked(folder),
    ):
        pass
    with locked(folder) as again:
        assert again == folder


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A path that leads through a file is one line that proposes --data."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(EnvironmentProblemError, match=r"file/data.*--data"),
        locked(tmp_path / "file" / "data"),
    ):
        pass
