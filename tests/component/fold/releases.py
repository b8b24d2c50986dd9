"""Another release of fold and exporter: a copy of their packages that writes other formats.

The rule: it is the real program in a process of its own, and so are Spark's Python workers; nothing
is patched in memory, where a worker would not see it. Its state is packed differently, not only
under another number: read as ours, and ours as its, it would be wrong without a word. Its views and
events have a field that this release neither knows nor writes.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from controller_model.state.packing import STATE_VERSION
from streaming.schemas import LAYOUT_VERSION
from tests.component.fold.folding import Stream

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("controller_model", "pipeline", "web", "streaming", "exporter")
"""What fold and exporter are made of."""
NEWS = "of_the_next_release"
"""The field that the next release's records have and ours have not."""

OURS = f"{STATE_VERSION}.{LAYOUT_VERSION}"
NEXT = f"{STATE_VERSION + 1}.{LAYOUT_VERSION}"

_FIELD = f"    {NEWS}: tuple[int, ...] = (1,)\n"
CHANGES = {
    "state/packing.py": (
        (f"STATE_VERSION = {STATE_VERSION}\n", f"STATE_VERSION = {STATE_VERSION + 1}\n"),
    ),
    "state/controller_state.py": (
        # Fields have their place and no name in a packed state, and these are numbers, both.
        (
            "    elections: int = 0\n    id_changes: int = 0\n",
            "    id_changes: int = 0\n    elections: int = 0\n",
        ),
    ),
    "records/views.py": (("    v: int\n    cluster: str\n    as_of: AsOf\n", f"\\g<0>{_FIELD}"),),
    "records/filled.py": (("if name not in others)", f'if name not in {{*others, "{NEWS}"}})'),),
    "records/events.py": (
        ("    position: Position\n    zxid: int | None = None\n", f"\\g<0>{_FIELD}"),
    ),
}
"""By module of controller_model: what stands there, once, and what the next release has instead."""


def next_release(folder: Path) -> Path:
    """Copy the fold, with a newer state, to the folder; return what PYTHONPATH must hold."""
    for name in PACKAGES:
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.partial")
        )
    for name, changes in CHANGES.items():
        path = folder / "controller_model" / name
        text = path.read_text()
        for ours, its in changes:
            text, count = re.subn(re.escape(ours), its, text)
            assert count == 1, (name, ours)
        path.write_text(text)
    return folder


def environment_of(release: Path | None) -> dict[str, str]:
    """Return the environment in which a Python process runs a release; None: this one."""
    # The folder that we run in holds our release; without this it would win.
    found = {"PYTHONSAFEPATH": "1"}
    return found if release is None else found | {"PYTHONPATH": os.fspath(release)}


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
        return found | environment_of(self.release)
