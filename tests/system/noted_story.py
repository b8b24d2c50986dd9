"""The demo's story as tests play it: it records the time of each step, and can be delayed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kcm.demo.cluster import ZooKeeperCluster
from kcm.demo.run import DemoRun, Progress, StepOutcome
from kcm.demo.story import Story

ZooKeeperRun = DemoRun[ZooKeeperCluster]
"""The run of the story of a cluster with ZooKeeper."""


class NotedStory(Progress):
    """A story that records when each step began, and can wait after each."""

    def __init__(self, story: Story[Any]) -> None:
        """Begin without a recorded step."""
        super().__init__(steps=1 + len(story.steps), sources=story.sources)
        self.step_began: dict[str, float] = {}
        """Title -> Unix time, in the order of the steps."""
        self.after_each: Callable[[], object] = lambda: None
        """Called at the end of a step; the next one waits for it."""
        self.shown_at_its_end: dict[str, Any] = {}
        """The cluster as the API showed it after a successful story."""

    def begin(self, title: str) -> None:
        """Record when the step began."""
        super().begin(title)
        self.step_began[title] = time.time()

    def end(self, outcome: StepOutcome) -> None:
        """Wait until `after_each` returns."""
        super().end(outcome)
        self.after_each()
