"""Another release of the fold: a copy of its packages whose state has another format.

The rule: it is the real program in a process of its own, and so are Spark's Python workers; nothing
is patched in memory, where a worker would not see it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from controller_model.cluster import STATE_VERSION
from streaming.schemas import LAYOUT_VERSION
from tests.component.folding import Stream

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("controller_model", "pipeline", "streaming")
"""What the fold is made of."""

OURS = f"{STATE_VERSION}.{LAYOUT_VERSION}"
NEXT = f"{STATE_VERSION + 1}.{LAYOUT_VERSION}"


def next_release(folder: Path) -> Path:
    """Copy the fold, with a newer state, to the folder; return what PYTHONPATH must hold."""
    for name in PACKAGES:
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.partial")
        )
    path = folder / "controller_model" / "cluster.py"
    text = path.read_text()
    ours = f"STATE_VERSION = {STATE_VERSION}\n"
    assert text.count(ours) == 1
    path.write_text(text.replace(ours, f"STATE_VERSION = {STATE_VERSION + 1}\n"))
    return folder


class ReleasedStream(Stream):
    """A fold whose release can be changed between two starts."""

    release: Path | None = None
    """None: ours."""
    max_offsets_per_trigger: int = 8
    """Few, so that a log that is folded again shows many states on its way."""

    @property
    def environment(self) -> dict[str, str]:
        """The fold's settings, and where its program is."""
        found = super().environment
        found["KCM_MAX_OFFSETS_PER_TRIGGER"] = str(self.max_offsets_per_trigger)
        # The folder that we run in holds our release; without this it would win.
        found["PYTHONSAFEPATH"] = "1"
        if self.release is not None:
            found["PYTHONPATH"] = os.fspath(self.release)
        return found
