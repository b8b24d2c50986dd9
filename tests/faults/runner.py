"""Play one cell, and return its outcome.

The rule: a cell begins while the monitor is up to date, and ends when it is up to date again and
everything shown equals ZooKeeper, and the log its history (`history`). What was shown in between is judged afterwards, when all that was
true in between is known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec
from confluent_kafka import KafkaException

from pipeline.runtime import KcmError
from tests.faults.history import Checked
from tests.faults.judge import Verdict, oldest_live, stale_seconds
from tests.faults.sides import Sides


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a cell."""

    part: str
    fault: str
    problem: str
    """Why the monitor did not recover; empty when it did."""
    changes: int
    """Znodes written during the cell."""
    follows_after_s: float | None
    """The time from the start of the fault until all figures were live and fresh, and stayed so."""
    not_live_s: float
    """How long the status was not `live`, or nobody answered."""
    stale_s: float
    """How long a figure under `live` was older than allowed."""
    oldest_s: float
    """The age of the oldest figure under `live`."""
    oldest: str
    wrong: str
    """A figure that was never true; empty when there was none."""
    load: float
    """The machine's load average at the end: the times hold for a machine under such a load."""
    history: Checked | None
    """What came of the history check; None where there was none."""

    @property
    def name(self) -> str:
        """The cell's name."""
        return f"{self.part}: {self.fault}"

    @property
    def ok(self) -> bool:
        """Whether the monitor recovered, showed nothing stale as live, and its log is ZooKeeper's history."""
        return not (self.problem or self.stale_s or self.wrong or self.history_problem)

    @property
    def history_problem(self) -> str:
        """The first difference between ZooKeeper's history and the log; empty when there is none."""
        return "" if self.history is None else "; ".join(self.history.problems[:1])


def play(
    sides: Sides,
    part: str,
    fault: str,
    act: Callable[[], None],
    *,
    afterwards: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run a fault while the monitor is up to date, and judge what it shows until it is so again.

    `afterwards` asserts what else must be true then.
    """
    sides.wait_for_agreement()
    began = time.time()
    problem = ""
    followed_at = None
    history = None
    try:
        act()
        sides.revive()
        sides.changes.go_on()
        sides.followed(began)
        sides.equal()
        # Again: what seemed to follow may not have shown the fault yet.
        followed_at = sides.followed(began)
        afterwards()
        sides.equal()
        history = sides.history.check() if sides.history is not None else None
    except (AssertionError, KafkaException, KcmError, OSError) as error:
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
        history,
    )
