"""One release of this tree, which the tests of its files share."""

from __future__ import annotations

import contextlib
import io
import tarfile
from pathlib import Path

import pytest

from pipeline.build import DISTRIBUTION
from tools.release.__main__ import main


class Built:
    """A release as its command made it."""

    def __init__(self, folder: Path, said: str) -> None:
        self.folder = folder
        self.said = said
        """What the command printed."""

    def one(self, pattern: str) -> Path:
        """Return the only file of that form."""
        (path,) = self.folder.glob(pattern)
        return path

    def unpacked(self, name: str, into: Path) -> Path:
        """Unpack an archive; return its folder."""
        with tarfile.open(self.one(f"{DISTRIBUTION}-{name}-*.tar.gz")) as archive:
            archive.extractall(into, filter="data")
        (folder,) = into.iterdir()
        return folder


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The release of this tree, whose changes are not released yet; images take minutes and have tests of their own."""
    folder = tmp_path_factory.mktemp("release")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = main(["--output", str(folder), "--unreleased", "--without", "images"])
    assert code == 0, said.getvalue()
    return Built(folder, said.getvalue())
