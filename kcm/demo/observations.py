"""What was seen when: the changes of figures, each with the moment at which it was first seen.

Both sides of a comparison keep one, on the same monotonic clock, so the delay between them is a
difference of two of its times.
"""

import threading
from collections import deque
from dataclasses import dataclass

from kcm.demo.truth import TrueFigures

KEPT = 2000  # changes: many more than one step of a story brings


@dataclass(frozen=True, slots=True)
class Observation:
    """Figures, and since when they have been seen (seconds of the monotonic clock)."""

    at: float
    figures: TrueFigures


class Observations:
    """The last changes of somebody's figures; one thread adds, any thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: deque[Observation] = deque(maxlen=KEPT)

    @property
    def latest(self) -> Observation | None:
        """The figures that are seen now, and since when; None before the first."""
        with self._lock:
            return self._seen[-1] if self._seen else None

    def add(self, at: float, figures: TrueFigures) -> None:
        """Take note of what is seen; the same as before changes nothing."""
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
