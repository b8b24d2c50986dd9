"""The release's commit is found by its exact subject; where it is not there, the reason says which case it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.released import SUBJECT, NoReleaseError, find_commit

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, as somebody; return what it prints."""
    somebody = ("-c", "user.name=n", "-c", "user.email=e@localhost", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *somebody, *arguments],  # noqa: S607 -- git is where the user has it
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def commit(folder: Path, *paragraphs: str) -> str:
    """Make a commit; return its hash."""
    git(folder, "commit", "-q", "--allow-empty", "-m", "\n\n".join(paragraphs))
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A repository with a commit in which nothing is released."""
    folder = tmp_path / "history"
    folder.mkdir()
    git(folder, "init", "-q")
    commit(folder, "Begin")
    return folder


def reason_in(folder: Path, named: str | None = None) -> str:
    """Return why there is no release in a folder."""
    with pytest.raises(NoReleaseError) as raised:
        find_commit(folder, named)
    return str(raised.value)


def test_the_newest_commit_of_exactly_this_subject_is_the_release(history: Path) -> None:
    """Subjects that hold more, and texts below another subject, are not it."""
    commit(history, SUBJECT)
    released = commit(history, SUBJECT, "Once more.")
    for other in (f"{SUBJECT}.1", f"Revert {SUBJECT}", SUBJECT.lower()):
        commit(history, other)
    commit(history, "Note the release", SUBJECT)
    assert find_commit(history) == released


def test_a_commit_that_is_named_is_taken_instead(history: Path) -> None:
    """Whatever its subject; a name of nothing is a reason."""
    commit(history, SUBJECT)
    assert find_commit(history, "HEAD~1") == git(history, "rev-parse", "HEAD~1")
    assert "names nothing, which is no commit" in reason_in(history, "nothing")


def test_a_history_without_the_release_says_whether_it_is_shallow(
    history: Path, tmp_path: Path
) -> None:
    """A shallow clone may lack it although it was released."""
    assert "not released yet" in reason_in(history)
    commit(history, SUBJECT)
    commit(history, "Go on")
    git(tmp_path, "clone", "-q", "--depth=1", history.as_uri(), "shallow")
    assert "git fetch --unshallow" in reason_in(tmp_path / "shallow")


def test_a_source_archive_has_no_history(history: Path, tmp_path: Path) -> None:
    """Also if it lies within another repository, whose history is not its own."""
    commit(history, SUBJECT)
    for archive in (tmp_path / "archive", history / "archive"):
        archive.mkdir()
        assert "not the root of a git repository" in reason_in(archive)


def test_without_git_the_reason_says_so(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be said about history then."""
    monkeypatch.setenv("PATH", "")
    assert reason_in(history) == "git is not installed"
