"""Hatchling's hook: puts the revision that a wheel or source distribution is made from into it, as `pipeline/revision.txt`.

The revision is `KCM_REVISION` where it is set (an image's build has no git), else what git says. A wheel that is made from a source distribution
keeps that one's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "pipeline/revision.txt"


def revision_of(root: Path) -> str | None:
    """Return the revision of a tree, with `-dirty` where its files differ from it; None where nothing says it."""
    if given := os.environ.get("KCM_REVISION"):
        return given
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return None
    described = (git, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty")
    done = subprocess.run(described, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603  # found on PATH, with fixed arguments
    return done.stdout.strip() or None


class RevisionHook(BuildHookInterface[BuilderConfig]):
    """Adds the file to what is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file outside of the tree, and let the build take it from there."""
        root = Path(self.root)
        if version == "editable" or (root / NAME).is_file():
            return
        if revision := revision_of(root):
            self._folder = tempfile.mkdtemp()
            made = Path(self._folder, "revision.txt")
            made.write_text(f"{revision}\n", encoding="utf-8")
            build_data["force_include"][str(made)] = NAME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what `initialize` wrote."""
        del version, build_data, artifact_path
        if folder := getattr(self, "_folder", None):
            shutil.rmtree(folder)
