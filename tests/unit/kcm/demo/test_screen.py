"""The demo on a console without a terminal: the story's lines, and the monitor's figures."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from kcm.demo.scene import Scene
from kcm.demo.screen import PlainScreen, live_screen
from tests.unit.kcm.demo.figures import HEALTHY


def test_all_lines_are_printed_once_and_in_order(described: Scene) -> None:
    """Lines recorded before the context closes are printed, with the figures shown last."""
    out = io.StringIO()
    story, monitor = described.story, described.monitor
    story.steps = 9
    with PlainScreen(Console(file=out, width=200), described):
        story.begin("a broker is killed")
        monitor.observations.add(1.0, replace(HEALTHY, offline=6))
        monitor.observations.add(2.0, HEALTHY)
    step, figures = out.getvalue().splitlines()
    assert step.endswith("s] step 1/9: a broker is killed")
    assert figures.endswith(
        "s]   monitor: controller 0, epoch 7, elections 3, brokers 0,1,2, leaders 0:9 1:9 2:9, "
        "offline 0, under-replicated 0, imbalance 0"
    )


def test_a_live_picture_leaves_nothing_behind(described: Scene) -> None:
    """The picture is drawn while the context is open, and removed at its end."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, height=50)
    with live_screen(console, described) as live:
        live.refresh()
    assert "starting real servers" in out.getvalue()
    assert out.getvalue().endswith(("\x1b[2K", "\x1b[?25h"))
