"""Virtual time: planned actions, in the order of their times.

The rule: no other module keeps time, and two actions at one moment run in the order in which they
were planned, so a seed always gives the same run. Each simulated process has a steady clock of its
own, which begins at any value.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

START_MS = 1_700_000_000_000
"""The start time of every simulation."""

_MAX_AHEAD_MS = 10 * 86_400_000
"""How far the steady clocks of two processes may be apart."""


class Clock:
    """The current time, and the planned actions."""

    def __init__(self, seed: int) -> None:
        self.now = START_MS
        self._starts = random.Random(f"{seed} steady clocks")  # noqa: S311  # a play, not a secret
        self._planned: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Plan an action."""
        self.at(self.now + delay_ms, action)

    def at(self, when_ms: int, action: Callable[[], None]) -> None:
        """Plan an action for the current moment or a later one."""
        self._count += 1
        heapq.heappush(self._planned, (max(when_ms, self.now), self._count, action))

    def steady_ahead_ms(self) -> int:
        """Return by how much the steady clock of a process that starts now is ahead of this clock."""
        return self._starts.randint(-_MAX_AHEAD_MS, _MAX_AHEAD_MS)

    def run_for(self, ms: int) -> None:
        """Run everything that is planned within this time."""
        end = self.now + ms
        while self._planned and self._planned[0][0] <= end:
            self.now, _, action = heapq.heappop(self._planned)
            action()
        self.now = end
