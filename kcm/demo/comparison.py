"""Hold what the monitor shows against the truth, once the cluster is quiet.

The rule: figures are compared where the truth stands still, and there every one must be equal.
Quiet means that neither side has changed for a while, that the truth is what the step was to bring
about, and that Kafka's brokers say the same as ZooKeeper.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kcm.demo.truth import agree, differences

if TYPE_CHECKING:
    from kcm.demo.observations import Observation, Observations
    from kcm.demo.truth import TrueFigures

POLL_S = 0.01  # how often both sides are compared
KAFKA_POLL_S = 0.1  # how often Kafka is asked again whether it agrees with ZooKeeper
LIVE = "live"  # the monitor's own word for figures that it stands for

Expectation = Callable[["TrueFigures"], bool]


class Shows(Protocol):
    """Somebody who shows figures: ZooKeeper's truth, or the monitor."""

    @property
    def observations(self) -> Observations:
        """What is seen there."""


class ShowsStatus(Shows, Protocol):
    """The monitor, which also says what its figures are worth."""

    @property
    def status(self) -> str:
        """`live`, or what is wrong."""


class ReadsFigures(Protocol):
    """Kafka's brokers, which answer requests."""

    def read(self) -> TrueFigures | None:
        """Return what they answer; None when none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """What one step came to."""

    done: str
    """What was done to the cluster."""
    truth: TrueFigures | None = None
    shown: TrueFigures | None = None
    delay_ms: float | None = None
    """From the truth coming to these figures to the monitor showing them; None: not measured."""
    problem: str = ""
    """Why the step failed; empty when it went well."""

    @property
    def ok(self) -> bool:
        """Whether the step went well."""
        return not self.problem


class Comparison:
    """The two sides of all comparisons, and how long each may take."""

    def __init__(
        self,
        truth: Shows,
        kafka: ReadsFigures,
        monitor: ShowsStatus,
        *,
        quiet_s: float,
        deadline_s: float,
        check: Callable[[], None],
    ) -> None:
        """Compare with these; `check` raises when a server or a part has died on its own."""
        self._truth = truth
        self._kafka = kafka
        self._monitor = monitor
        self._quiet_s = quiet_s
        self._deadline_s = deadline_s
        self._check = check

    def settle(
        self,
        done: str,
        expected: Expectation,
        *,
        quiet_s: float | None = None,
        ask_kafka: bool = True,
    ) -> StepOutcome:
        """Wait until all is quiet and equal, and return what it came to, equal or not.

        None for `quiet_s` takes the usual time. `ask_kafka=False` is for a moment at which a broker
        that may be asked is known not to answer.
        """
        quiet_s = self._quiet_s if quiet_s is None else quiet_s
        deadline = time.monotonic() + self._deadline_s
        next_question = 0.0
        while True:
            self._check()
            truth, shown = self._truth.observations.latest, self._monitor.observations.latest
            problem = self._problem(truth, shown, expected, quiet_s)
            now = time.monotonic()
            if not problem and ask_kafka and now >= next_question:
                problem = self._kafka_problem(truth)
                next_question = now + KAFKA_POLL_S
                still = (self._truth.observations.latest, self._monitor.observations.latest)
                if not problem and still == (truth, shown):
                    return self._outcome(done, truth, shown, "")
            elif not problem and not ask_kafka:
                return self._outcome(done, truth, shown, "")
            if now >= deadline:
                return self._outcome(
                    done, truth, shown, problem or "the cluster did not become quiet"
                )
            time.sleep(POLL_S)

    def _problem(
        self,
        truth: Observation | None,
        shown: Observation | None,
        expected: Expectation,
        quiet_s: float,
    ) -> str:
        """Return what is still wrong; empty when all is equal and quiet."""
        if truth is None:
            return "ZooKeeper could not be read"
        if not expected(truth.figures):
            return "the cluster did not come to what this step is about"
        if shown is None:
            return f"the monitor shows nothing: {self._monitor.status}"
        if different := differences(truth.figures, shown.figures):
            return f"DIFFERENT: {', '.join(different)}"
        if self._monitor.status != LIVE:
            return f"the monitor says that its figures are not live: {self._monitor.status}"
        changed = max(truth.at, shown.at)
        return "" if time.monotonic() - changed >= quiet_s else "the cluster did not become quiet"

    def _kafka_problem(self, truth: Observation | None) -> str:
        """Return how Kafka's brokers contradict ZooKeeper; empty when they do not."""
        kafka = self._kafka.read()
        if kafka is None or truth is None:
            return "no broker answered a metadata request"
        if agree(truth.figures, kafka):
            return ""
        return (
            f"brokers say otherwise than ZooKeeper: {', '.join(differences(truth.figures, kafka))}"
        )

    def _outcome(
        self, done: str, truth: Observation | None, shown: Observation | None, problem: str
    ) -> StepOutcome:
        delay_ms = None
        if truth is not None and shown is not None and not problem:
            # The truth may have left these figures and come back since (an ISR that flaps), without
            # the monitor having changed: what it showed was the truth's earlier arrival at them.
            became = self._truth.observations.became(shown.figures, before=shown.at)
            delay_ms = 0.0 if became is None else (shown.at - became) * 1000
        return StepOutcome(
            done=done,
            truth=truth.figures if truth else None,
            shown=shown.figures if shown else None,
            delay_ms=delay_ms,
            problem=problem,
        )
