"""Where tests let the demo's story be told: nobody reads it, and the time of each step is noted."""

from __future__ import annotations

import time
from collections.abc import Callable
from io import StringIO

from rich.console import Console

from kcm.demo.comparison import StepOutcome
from kcm.demo.screen import PlainScreen
from kcm.demo.story_state import StoryState


class NotingScreen(PlainScreen):
    """A screen into nothing that notes when each step began, and may hold the story up."""

    def __init__(self, story: StoryState) -> None:
        """Note the steps of this story."""
        super().__init__(Console(file=StringIO()), story)
        self.began: dict[str, float] = {}
        """Title -> Unix time, in the order of the steps."""
        self.after_each: Callable[[], object] = lambda: None
        """Called when a step has come to its end; the next one waits for it."""

    def step(self) -> None:
        """Note when it began."""
        super().step()
        self.began[self._story.title] = time.time()

    def outcome(self, number: int, outcome: StepOutcome) -> None:
        """Hold the story up for as long as it is asked to."""
        super().outcome(number, outcome)
        self.after_each()
