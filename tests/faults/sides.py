"""The two sides of a cell: the truth, which changes all the time, and what is shown of it.

The rule: each is read by its own thread, which no fault of the servers between them stops. The truth is ZooKeeper
(`truth`), or the files of a KRaft cluster's controllers (`metadata_truth`).
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Protocol, Self

from kcm.demo.figures import TrueFigures, differences
from tests.faults.history import Checked
from tests.faults.judge import Verdict, judge
from tests.faults.shown import EVERY_S, Sampler
from tests.faults.truth import Known
from tests.support.waiting import wait_until

SETTLED_DEADLINE_S = 300.0
"""How long a test waits for what `python -m tests.faults` measures: an overloaded machine takes minutes to start a JVM."""
YOUNG_S = 1.5
"""How old a figure may be while there is no fault."""
GOOD_FOR_S = 2.0
"""How long all figures must be live and fresh before that counts as recovered."""


class ReadTruth(Protocol):
    """What is true, and since when."""

    def start(self) -> None:
        """Start to read."""

    def close(self) -> None:
        """Stop reading."""

    def settled(self) -> None:
        """Wait until everything has been read."""

    def known(self) -> Known:
        """Return all values since the start, by path."""
        ...

    def figures(self) -> TrueFigures:
        """Count what is true now."""
        ...

    def changes(self, since: float, until: float) -> int:
        """Return how many values were written between two times."""
        ...


class Changing(Protocol):
    """What changes the cluster all the time."""

    def start(self) -> None:
        """Start."""

    def close(self) -> None:
        """Stop."""

    def go_on(self) -> None:
        """Wait for a change after now."""

    def held(self) -> AbstractContextManager[None]:
        """Change nothing within the block."""
        ...


class Past(Protocol):
    """What the cluster and the log hold of the past."""

    def check(self) -> Checked:
        """Compare what is new since the last check."""
        ...


class Sides:
    """The truth, the changes to it, and what an exporter shows."""

    def __init__(
        self, truth: ReadTruth, changes: Changing, exporter_url: str, cluster: str
    ) -> None:
        """Describe them; nothing is connected yet."""
        self.truth = truth
        self.changes = changes
        self.sampler = Sampler(exporter_url, cluster)
        self.history: Past | None = None
        """The environment sets it."""
        self.said: list[str] = []
        """The output of `kcm up` during the test."""

    def __enter__(self) -> Self:
        """Start to read, to write and to sample."""
        self.truth.start()
        self.changes.start()
        self.sampler.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop the test's own clients."""
        self.sampler.close()
        self.changes.close()
        self.truth.close()

    def revive(self) -> None:
        """Start what nothing else starts."""

    def different(self) -> list[str]:
        """Return what is shown and differs from the truth; no changes are written meanwhile."""
        time.sleep(EVERY_S)
        self.truth.settled()
        true = self.truth.figures()
        shown = self.sampler.figures()
        if shown is None:
            return ["nothing is shown"]
        wrong = [
            f"{name}: {getattr(shown, name)}, not {getattr(true, name)}"
            for name in differences(true, shown)
            if name != "elections" and getattr(true, name) is not None  # None: this truth lacks it
        ]
        sample = self.sampler.sample()
        (verdict,) = judge([sample], self.truth.known())
        if not sample.live:
            wrong.append(f"status {sample.status}")
        if verdict.wrong or verdict.oldest:
            wrong.append(f"partition or broker {verdict.wrong or verdict.oldest}")
        return wrong

    def wait_for_agreement(self, deadline_s: float = SETTLED_DEADLINE_S) -> None:
        """Wait until what is shown is up to date, and equals the truth once nothing is written."""
        self.followed(time.time(), deadline_s)
        self.equal(deadline_s)

    def equal(self, deadline_s: float = SETTLED_DEADLINE_S) -> None:
        """Stop the changes until everything shown equals the truth."""
        with self.changes.held():
            wait_until(self.different, lambda wrong: not wrong, deadline_s=deadline_s)

    def followed(self, since: float, deadline_s: float = SETTLED_DEADLINE_S) -> float:
        """Wait until everything has been live and fresh for a moment; return when that began."""
        deadline = time.monotonic() + deadline_s
        good_since: float | None = None
        seen = ""
        while good_since is None or time.time() - good_since < GOOD_FOR_S:
            assert time.monotonic() < deadline, f"does not follow within {deadline_s:g} s: {seen}"
            time.sleep(EVERY_S)
            for verdict in self.verdicts(since):
                since = verdict.at + verdict.lasted_s / 2  # each is looked at once
                if verdict.live and verdict.old_s <= YOUNG_S and not verdict.wrong:
                    good_since = good_since or verdict.at
                else:
                    good_since = None
                    seen = (
                        f"{verdict.status}, {verdict.old_s:.1f} s {verdict.oldest} {verdict.wrong}"
                    )
        return good_since

    def verdicts(self, since: float) -> list[Verdict]:
        """Return the verdicts on the samples from a time on."""
        return judge(self.sampler.since(since), self.truth.known())
