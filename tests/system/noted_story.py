"""The demo's story as tests play it: the time of each step is noted, and it may be held up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kcm.demo.comparison import StepOutcome
from kcm.demo.story_state import StoryState


class NotedStory(StoryState):
    """A story that notes when each step began, and may wait after each."""

    def __init__(self) -> None:
        """Note nothing yet."""
        super().__init__()
        self.step_began: dict[str, float] = {}
        """Title -> Unix time, in the order of the steps."""
        self.after_each: Callable[[], object] = lambda: None
        """Called when a step has come to its end; the next one waits for it."""
        self.shown_at_its_end: dict[str, Any] = {}
        """The cluster as the API showed it when the story had ended well."""

    def begin(self, title: str) -> None:
        """Note when the step began."""
        super().begin(title)
        self.step_began[title] = time.time()

    def end(self, outcome: StepOutcome) -> None:
        """Hold the story up for as long as it is asked to."""
        super().end(outcome)
        self.after_each()
