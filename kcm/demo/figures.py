"""The figures that are compared, and when each side was first seen to have them.

Both sides of a comparison keep their observations on the same monotonic clock, so the delay is the
difference of two of these times.
"""

import threading
from collections import deque
from dataclasses import dataclass, fields

KEPT = 2000  # changes: many more than one step makes

Counts = tuple[tuple[int, int], ...]
"""(broker, number) by broker; brokers with none are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueFigures:
    """The figures that are compared, of the truth or of the monitor."""

    controller: int
    """The broker that holds /controller, or the leader of a KRaft quorum; -1 when there is none."""
    epoch: int | None
    """The controller epoch, or the epoch of the leader that was elected last."""
    elections: int | None
    """Elections since the demo's first step; None before it."""
    brokers: tuple[int, ...]
    """The live brokers."""
    leaders: Counts
    not_led: Counts
    """By broker: partitions that have it as their preferred replica and are not led by it."""
    topics: int
    partitions: int
    offline: int
    under_replicated: int
    imbalance: int
    """Partitions that are not led by their preferred replica."""

    fenced: tuple[int, ...] | None = None
    """The brokers that are registered and fenced; this and what follows is None outside KRaft."""
    elr: int | None = None
    """Partitions with eligible leader replicas."""
    empty_isr: int | None = None
    under_min_isr: int | None = None
    """Partitions with a leader, and fewer in-sync replicas than min.insync.replicas."""
    unclean: int | None = None
    """Unclean leader elections since the demo's first step."""
    voters: int | None = None
    candidacies: int | None = None
    """Epochs since the demo's first step in which no controller was elected."""


FIGURE_NAMES = tuple(field.name for field in fields(TrueFigures))


def differences(truth: TrueFigures, shown: TrueFigures) -> list[str]:
    """Return the names of the figures that are not equal."""
    return [name for name in FIGURE_NAMES if getattr(truth, name) != getattr(shown, name)]


def shown_value(figures: TrueFigures | None, name: str) -> str:
    """Return a figure as text; a dash where there is none."""
    value = None if figures is None else getattr(figures, name)
    if value is None or isinstance(value, int):
        return "-" if value is None else str(value)
    if name in {"brokers", "fenced"}:
        return ",".join(map(str, value)) or "none"
    return " ".join(f"{broker}:{count}" for broker, count in value) or "none"


def names_of(*sides: TrueFigures | None) -> set[str]:
    """Return the names of the figures that one of the sides has.

    >>> names_of(None)
    set()
    """
    return {n for side in sides if side for n in FIGURE_NAMES if getattr(side, n) is not None}


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
            found = (s.at for s in reversed(self._seen) if s.figures == figures and s.at <= before)
            return next(found, None)
