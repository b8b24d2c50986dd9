"""Where the story is shown: a live picture on a terminal, plain lines anywhere else.

Both read the story's state by themselves; the story only announces what must not be missed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol, Self

from rich.live import Live

from kcm.demo.table import shown_value
from kcm.demo.view import picture

if TYPE_CHECKING:
    from rich.console import Console

    from kcm.demo.comparison import StepOutcome
    from kcm.demo.story_state import StoryState
    from kcm.demo.truth import TrueFigures

LIVE_REFRESHES_PER_S = 5  # follows by eye, and leaves the processors to the servers
PLAIN_POLL_S = 0.25  # changes closer together than this share a line
STOP_DEADLINE_S = 2.0


class Screen(Protocol):
    """A place that shows the story, open as long as the context is."""

    def __enter__(self) -> Self:
        """Begin to show the state."""

    def __exit__(self, *_error: object) -> None:
        """Stop showing it."""

    def step(self) -> None:
        """Show that the step that the state names begins."""

    def outcome(self, number: int, outcome: StepOutcome) -> None:
        """Show what a step came to."""


class LiveScreen:
    """The picture, drawn again several times a second."""

    def __init__(self, console: Console, story: StoryState) -> None:
        """Draw on this console."""
        self._live = Live(
            console=console,
            get_renderable=lambda: picture(story),
            refresh_per_second=LIVE_REFRESHES_PER_S,
            transient=True,
        )

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Take the picture away: the table that follows says it all."""
        self._live.stop()

    def step(self) -> None:
        """Draw at once."""
        self._live.refresh()

    def outcome(self, _number: int, _outcome: StepOutcome) -> None:
        """Draw at once."""
        self._live.refresh()


class PlainScreen:
    """One line per server, step, and change of the monitor's main figures."""

    def __init__(self, console: Console, story: StoryState) -> None:
        """Write to this console."""
        self._console = console
        self._story = story
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._printed: TrueFigures | None = None
        self._lines: set[str] = set()

    def __enter__(self) -> Self:
        """Begin to follow the story."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Print what has changed last, and end."""
        self._stop.set()
        self._thread.join(STOP_DEADLINE_S)
        self._print_news()

    def step(self) -> None:
        """Print that a step begins."""
        self._print_news()
        self._say(f"step {self._story.step}/{self._story.steps}: {self._story.title}")

    def outcome(self, number: int, outcome: StepOutcome) -> None:
        """Show what a step came to."""
        self._print_news()
        delay = "" if outcome.delay_ms is None else f", shown after {outcome.delay_ms:.0f} ms"
        verdict = f"every figure equal{delay}" if outcome.ok else outcome.problem
        self._say(f"step {number}/{self._story.steps} done: {outcome.done}: {verdict}")

    def _run(self) -> None:
        while not self._stop.wait(PLAIN_POLL_S):
            self._print_news()

    def _print_news(self) -> None:
        """Print what is new in the story since the last time."""
        with self._lock:
            for component in list(self._story.components):
                self._once(f"starting {component.name}")
                if component.ready_s is not None:
                    self._once(f"{component.name} ready after {component.ready_s:.1f} s")
            shown = self._story.shown
            if shown is not None and shown != self._printed:
                self._printed = shown
                self._say(f"  monitor: {one_line(shown)}")

    def _once(self, line: str) -> None:
        if line not in self._lines:
            self._lines.add(line)
            self._say(line)

    def _say(self, line: str) -> None:
        text = f"[{self._story.elapsed_s:6.1f} s] {line}"
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def one_line(figures: TrueFigures) -> str:
    """Return the main figures in one line."""
    return (
        f"controller {figures.controller}, epoch {shown_value(figures.epoch)}, "
        f"elections {shown_value(figures.elections)}, brokers {shown_value(figures.brokers)}, "
        f"leaders {shown_value(figures.leaders)}, offline {figures.offline}, "
        f"under-replicated {figures.under_replicated}, imbalance {figures.imbalance}"
    )
