"""Which revision a build says it is made from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.build_hook import revision_of


def _git(root: Path, *command: str) -> str:
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.com")
    done = subprocess.run([*git, *command], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_build_says_its_commit_and_whether_files_differ_from_it(tmp_path: Path) -> None:
    """A tag does not replace the commit; a file that git does not know makes no difference."""
    (tmp_path / "a").write_text("1")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "commit", "-qm", "Begin")
    _git(tmp_path, "tag", "v1")
    commit = _git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "new").write_text("")
    assert revision_of(tmp_path) == commit
    (tmp_path / "a").write_text("2")
    assert revision_of(tmp_path) == f"{commit}-dirty"


def test_without_git_a_build_says_what_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image's build has the variable alone; without it nothing is known, also within another project's checkout."""
    _git(tmp_path, "init", "-q")
    (tmp_path / "unpacked").mkdir()
    assert revision_of(tmp_path / "unpacked") is None
    monkeypatch.setenv("KCM_REVISION", "abc")
    assert revision_of(tmp_path / "unpacked") == "abc"
