"""What the story has come to: one object that the story fills and the screens read.

Screens only read it, so a screen that is slow, or none at all, changes nothing in the story.
"""

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kcm.demo.cluster import WatchedCluster
from kcm.demo.comparison import StepOutcome
from kcm.demo.monitor import Monitor
from kcm.demo.truth import TrueFigures


@dataclass(slots=True)
class Component:
    """Something that is being started: ready after so many seconds, or not yet (None)."""

    name: str
    began: float = field(default_factory=time.monotonic)
    ready_s: float | None = None


@dataclass(slots=True)
class StoryState:
    """Everything that a screen shows. Times are seconds of the monotonic clock."""

    began: float = field(default_factory=time.monotonic)
    components: list[Component] = field(default_factory=list)
    cluster: WatchedCluster | None = None
    monitor: Monitor | None = None
    steps: int = 0
    step: int = 0
    """The number of the step that is under way, from 1 on; 0 before the first."""
    title: str = "starting real servers"
    outcomes: list[StepOutcome] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """All of it in words, as it came."""

    @property
    def truth(self) -> TrueFigures | None:
        """ZooKeeper's truth now; None when it has not been read."""
        latest = self.cluster.truth.observations.latest if self.cluster else None
        return latest.figures if latest else None

    @property
    def shown(self) -> TrueFigures | None:
        """What the monitor shows now; None when it shows nothing."""
        latest = self.monitor.observations.latest if self.monitor else None
        return latest.figures if latest else None

    @property
    def events(self) -> list[Mapping[str, Any]]:
        """The monitor's last events, the newest first."""
        return self.monitor.events if self.monitor else []

    @property
    def delay_words(self) -> str:
        """The end-to-end delay so far."""
        delays_ms = [o.delay_ms for o in self.outcomes if o.delay_ms is not None]
        if not delays_ms:
            return "not measured yet"
        return f"{delays_ms[-1]:.0f} ms (p50 {statistics.median(delays_ms):.0f} ms)"

    def timed(self, line: str) -> str:
        """Return a line with for how long the demo has run in front of it."""
        return f"[{time.monotonic() - self.began:6.1f} s] {line}"

    def starting(self, name: str) -> Component:
        """Note that something is being started."""
        component = Component(name)
        self.components.append(component)
        self.lines.append(self.timed(f"starting {name}"))
        return component

    def ready(self, component: Component) -> None:
        """Note that it is ready."""
        component.ready_s = time.monotonic() - component.began
        self.lines.append(self.timed(f"{component.name} ready after {component.ready_s:.1f} s"))

    def begin(self, title: str) -> None:
        """Note that the next step begins."""
        self.step += 1
        self.title = title
        self.lines.append(self.timed(f"step {self.step}/{self.steps}: {title}"))

    def end(self, outcome: StepOutcome) -> None:
        """Note what the step that is under way came to."""
        self.outcomes.append(outcome)
        delay = "" if outcome.delay_ms is None else f", shown after {outcome.delay_ms:.0f} ms"
        words = f"every figure equal{delay}" if outcome.ok else outcome.problem
        self.lines.append(
            self.timed(f"step {self.step}/{self.steps} done: {outcome.done}: {words}")
        )
