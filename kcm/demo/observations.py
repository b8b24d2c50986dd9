"""What was seen when: changes of figures, each with the moment at which it was first seen.

Each side of a comparison keeps one on the same monotonic clock, so the delay is the difference of
two of these times.
"""

import threading
from collections import deque
from dataclasses import dataclass

from kcm.demo.truth import TrueFigures

KEPT = 2000  # changes: many more than one step of the story makes


@dataclass(frozen=True, slots=True)
class Observation:
    """Figures, and since when they have been seen (seconds of the monotonic clock)."""

    at: float
    figures: TrueFigures


class Observations:
    """The last changes of one side's figures; one thread adds, any thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: deque[Observation] = deque(maxlen=KEPT)

    @property
    def latest(self) -> Observation | None:
        """The figures that are seen now, and since when; None before the first."""
        with self._lock:
            return self._seen[-1] if self._seen else None

    @property
    def figures(self) -> TrueFigures | None:
        """The figures that are seen now; None before the first."""
        latest = self.latest
        return latest.figures if latest else None

    def add(self, at: float, figures: TrueFigures) -> None:
        """Record figures; equal figures change nothing."""
        with self._lock:
            if not self._seen or self._seen[-1].figures != figures:
                self._seen.append(Observation(at, figures))

    def became(self, figures: TrueFigures, *, before: float) -> float | None:
        """Return when these figures last began to be seen before a moment; None if never."""
        with self._lock:
            return next(
                (s.at for s in reversed(self._seen) if s.figures == figures and s.at <= before),
                None,
            )
