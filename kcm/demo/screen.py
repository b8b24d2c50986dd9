"""Show the story: a live picture on a terminal, plain lines anywhere else.

Both poll the story's state, several times a second.
"""

from rich.console import Console
from rich.live import Live

from kcm.demo.scene import Scene
from kcm.demo.table import shown_value
from kcm.demo.truth import TrueFigures
from kcm.demo.view import picture
from pipeline.supervised_thread import SupervisedThread

LIVE_REFRESHES_PER_S = 5  # smooth to the eye, and leaves the processors to the servers
PLAIN_POLL_S = 0.25  # changes closer together than this share a line
STOP_DEADLINE_S = 2.0


def live_screen(console: Console, scene: Scene) -> Live:
    """Return the live picture; it is removed with the context, since the table that follows has it all."""
    return Live(
        console=console,
        get_renderable=lambda: picture(scene),
        refresh_per_second=LIVE_REFRESHES_PER_S,
        transient=True,
    )


class PlainScreen:
    """The story's lines, and one for each change of the monitor's main figures."""

    def __init__(self, console: Console, scene: Scene) -> None:
        self._console = console
        self._scene = scene
        self._thread = SupervisedThread("screen", self._print_news, every_s=PLAIN_POLL_S)
        self._printed = 0
        self._shown: TrueFigures | None = None

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._thread.close(STOP_DEADLINE_S)
        self._thread.check()
        self._print_news()

    def _print_news(self) -> None:
        story = self._scene.story
        lines = story.lines[self._printed :]
        self._printed += len(lines)
        shown = self._scene.monitor.observations.figures
        if shown is not None and shown != self._shown:
            self._shown = shown
            lines.append(story.timed(f"  monitor: {one_line(shown)}"))
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def one_line(figures: TrueFigures) -> str:
    """Return the main figures in one line."""
    return (
        f"controller {figures.controller}, epoch {shown_value(figures.epoch)}, "
        f"elections {shown_value(figures.elections)}, brokers {shown_value(figures.brokers)}, "
        f"leaders {shown_value(figures.leaders)}, offline {figures.offline}, "
        f"under-replicated {figures.under_replicated}, imbalance {figures.imbalance}"
    )
