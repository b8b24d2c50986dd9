"""The state of the story: one object that the story writes and the screens read.

Screens only read it, so a slow screen, or none, does not change the story.
"""

import statistics
import time
from dataclasses import dataclass, field

from kcm.demo.comparison import StepOutcome


@dataclass(slots=True)
class Component:
    """A component that is being started: the seconds it took to be ready, or None before that."""

    name: str
    began: float = field(default_factory=time.monotonic)
    ready_s: float | None = None


@dataclass(slots=True)
class StoryState:
    """How far the story is. Times are seconds of the monotonic clock."""

    began: float = field(default_factory=time.monotonic)
    components: list[Component] = field(default_factory=list)
    steps: int = 0
    step: int = 0
    """The number of the current step, from 1; 0 before the first."""
    title: str = "starting real servers"
    outcomes: list[StepOutcome] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """All that happened so far, in words, in its order."""

    @property
    def delay_words(self) -> str:
        """The end-to-end delay so far, as text."""
        delays_ms = [o.delay_ms for o in self.outcomes if o.delay_ms is not None]
        if not delays_ms:
            return "not measured yet"
        return f"{delays_ms[-1]:.0f} ms (p50 {statistics.median(delays_ms):.0f} ms)"

    def timed(self, line: str) -> str:
        """Return a line with the demo's running time in front of it."""
        return f"[{time.monotonic() - self.began:6.1f} s] {line}"

    def starting(self, name: str) -> Component:
        """Record that a component is being started."""
        component = Component(name)
        self.components.append(component)
        self.lines.append(self.timed(f"starting {name}"))
        return component

    def ready(self, component: Component) -> None:
        """Record that a component is ready."""
        component.ready_s = time.monotonic() - component.began
        self.lines.append(self.timed(f"{component.name} ready after {component.ready_s:.1f} s"))

    def begin(self, title: str) -> None:
        """Record that the next step begins."""
        self.step += 1
        self.title = title
        self.lines.append(self.timed(f"step {self.step}/{self.steps}: {title}"))

    def end(self, outcome: StepOutcome) -> None:
        """Record the outcome of the current step."""
        self.outcomes.append(outcome)
        delay = "" if outcome.delay_ms is None else f", shown after {outcome.delay_ms:.0f} ms"
        words = f"every figure equal{delay}" if outcome.ok else outcome.problem
        self.lines.append(
            self.timed(f"step {self.step}/{self.steps} done: {outcome.done}: {words}")
        )
