"""Play one cell, and say what came of it.

The rule: a cell begins with a world that follows, and ends when it follows again and everything that is shown equals
ZooKeeper; what was shown meanwhile is judged afterwards, when all that was true meanwhile is known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec

from pipeline.runtime import KcmError
from tests.faults.judge import Verdict, oldest_live, stale_seconds
from tests.faults.sides import Sides


class Outcome(msgspec.Struct, frozen=True):
    """What came of a cell."""

    part: str
    fault: str
    problem: str
    """Why the world did not come back; empty when it did."""
    changes: int
    """Znodes written meanwhile."""
    follows_after_s: float | None
    """From the fault's beginning until all was live and young, and stayed so."""
    not_live_s: float
    """How long the status was another than `live`, or nobody answered."""
    stale_s: float
    """How long a figure under `live` was older than allowed."""
    oldest_s: float
    """How old the oldest figure under `live` was."""
    oldest: str
    wrong: str
    """A figure that was never true; empty when there was none."""
    load: float
    """The machine's load average at the end: times are of a machine that has as much to do."""

    @property
    def name(self) -> str:
        """The cell's name."""
        return f"{self.part}: {self.fault}"

    @property
    def ok(self) -> bool:
        """Whether all came back and nothing stale was shown as live."""
        return not (self.problem or self.stale_s or self.wrong)


def play(sides: Sides, part: str, fault: str, act: Callable[[], None]) -> Outcome:
    """Let something happen to a world that follows, and judge what was shown until it follows again."""
    sides.settle()
    began = time.time()
    problem = ""
    followed_at = None
    try:
        act()
        sides.revive()
        sides.changes.go_on()
        followed_at = sides.followed(began)
        sides.equal()
    except (AssertionError, KcmError, OSError) as error:
        problem = " ".join(str(error).split())
    sides.truth.settled()
    verdicts = sides.verdicts(began)
    worst = oldest_live(verdicts) or Verdict(0, 0, "", 0, "", "")
    return Outcome(
        part,
        fault,
        problem,
        sides.truth.changes(began, time.time()),
        None if followed_at is None else followed_at - began,
        sum(v.lasted_s for v in verdicts if not v.live),
        stale_seconds(verdicts),
        worst.old_s,
        worst.oldest,
        next((v.wrong for v in verdicts if v.wrong), ""),
        os.getloadavg()[0],
    )
