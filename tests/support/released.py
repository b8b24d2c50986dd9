"""The release that an upgrade begins with: its commit in this repository's history, and its code from a wheel.

The rule: it is built from history, so nothing is downloaded and a test runs what was released. The
commit is the newest one whose subject is exactly `Release 0.1.0`. KCM_TEST_RELEASE names another
commit (`main`, a tag, a hash) to be taken instead: for the work on a release that does not exist yet.

Its dependencies are those of the environment that the tests run in: other versions, perhaps, than the
ones that it was released with.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

from kcm.servers.jars import default_cache, file_lock

REPOSITORY = Path(__file__).resolve().parents[2]
SUBJECT = "Release 0.1.0"
VARIABLE = "KCM_TEST_RELEASE"
EXTRAS = ("", "watch", "stream", "export")
"""What the parts need, of what the wheel may require."""


class NoReleaseError(Exception):
    """There is no released code here; the message says why."""


class Release(NamedTuple):
    """Released code, ready to run."""

    commit: str
    folder: Path
    """What its wheel holds."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a Python process, and each that it starts, runs this code."""
        return {"PYTHONPATH": os.fspath(self.folder), "PYTHONSAFEPATH": "1"}


def release_or_skip() -> Release:
    """Return the release to upgrade from; skip the test, with the reason, where there is none."""
    try:
        commit = find_commit(REPOSITORY, os.environ.get(VARIABLE))
    except NoReleaseError as reason:
        pytest.skip(f"no release to upgrade from: {reason}")
    release = Release(commit, _installed(REPOSITORY, commit))
    if missing := sorted(_missing(release.folder)):
        pytest.skip(f"the release {commit} needs what is not installed: {', '.join(missing)}")
    return release


def find_commit(repository: Path, named: str | None = None) -> str:
    """Return the hash of the release's commit, or of the commit that is named; NoReleaseError if there is none."""
    try:
        top = _git(repository, "rev-parse", "--show-toplevel")
    except FileNotFoundError:
        raise NoReleaseError("git is not installed") from None
    # A source archive may lie in a folder of another repository.
    if top.returncode or not Path(top.stdout.strip()).samefile(repository):
        said = f": {top.stderr.strip()}" if top.returncode else ", as a source archive is not"
        raise NoReleaseError(f"{repository} is not the root of a git repository{said}")
    if named:
        found = _git(repository, "rev-parse", "--verify", "--quiet", f"{named}^{{commit}}")
        if found.returncode:
            raise NoReleaseError(f"{VARIABLE} names {named}, which is no commit of this repository")
        return found.stdout.strip()
    for line in _git(repository, "log", "--format=%H %s").stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if subject == SUBJECT:
            return commit
    if _git(repository, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        raise NoReleaseError(
            f'this is a shallow clone without the commit "{SUBJECT}": run git fetch --unshallow'
        )
    raise NoReleaseError(f'it is not released yet: no commit\'s subject is "{SUBJECT}"')


def _git(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", repository, *arguments],  # noqa: S607 -- git is where the user has it
        capture_output=True,
        text=True,
        check=False,
    )


def _installed(repository: Path, commit: str) -> Path:
    """Return the folder that holds the commit's code as its wheel does; build it unless it is in the cache."""
    folder = default_cache() / "releases" / commit
    folder.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix=f"{commit}.", dir=folder.parent) as temporary:
                _build(repository, commit, Path(temporary))
                (Path(temporary) / "installed").rename(folder)
    return folder


def _build(repository: Path, commit: str, folder: Path) -> None:
    """Check out the commit below the folder, make its wheel there, and unpack that into `installed`."""
    subprocess.run(
        ["git", "-C", repository, "archive", "--format=tar", "-o", folder / "tar", commit],  # noqa: S607 -- the same
        check=True,
    )
    with tarfile.open(folder / "tar") as tar:
        tar.extractall(folder / "source", filter="data")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=folder / "source",
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "installed")  # noqa: S202 -- it was built here


def _missing(folder: Path) -> Iterator[str]:
    """Yield what the parts require and this environment has in no version."""
    (metadata,) = folder.glob("*.dist-info")
    for line in importlib.metadata.Distribution.at(metadata).requires or ():
        needed = Requirement(line)
        if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in EXTRAS):
            try:
                importlib.metadata.version(needed.name)
            except importlib.metadata.PackageNotFoundError:
                yield line
