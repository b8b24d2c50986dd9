"""The progress of a download of jars: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from kcm.servers.progress import JarsProgress


def test_progress_off_a_terminal_is_plain_lines() -> None:
    """A log gets the start and every twentieth step, without control characters."""
    out = io.StringIO()
    console = Console(file=out)
    what = "the jars (56 MB, once)"
    with JarsProgress(30, Path("/cache"), what=what, console=console) as progress:
        for number in range(30):
            progress.read(f"\tfound org.x#m{number};1.0 in public\n")
            progress.read("......\n")
        for number in range(30):
            progress.read(f"\t[SUCCESSFUL ] org.x#m{number};1.0!m{number}.jar (1ms)\n")
    assert out.getvalue().splitlines() == [
        "downloading the jars (56 MB, once) to /cache",
        "jars: 20 of 60 steps, found m19",
        "jars: 40 of 60 steps, downloaded m9",
        "jars: 60 of 60 steps, downloaded m29",
    ]


def test_progress_on_a_terminal_is_a_bar() -> None:
    """A terminal sees how many steps of how many are done."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with JarsProgress(2, Path("/cache"), what="jars", console=console) as progress:
        progress.read("\tfound org.x#m;1.0 in public\n")
    assert "1/4" in out.getvalue()
