"""Compare what the monitor shows with the truth, once the cluster is quiet.

The rule: figures are compared while the truth does not change, and then every figure must be equal.
Quiet means that neither side has changed for a while, that the truth is what the step was to bring
about, and that Kafka's brokers report the same as ZooKeeper.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from kcm.demo.observations import Observation, Observations
from kcm.demo.truth import TrueFigures, differences

POLL_S = 0.05  # how often both sides are compared
LIVE = "live"  # the monitor's status of figures that are complete and up to date
NOT_QUIET = "the cluster did not become quiet"

Expectation = Callable[[TrueFigures], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """The result of one step."""

    done: str
    """What was done to the cluster."""
    truth: TrueFigures | None = None
    shown: TrueFigures | None = None
    delay_ms: float | None = None
    """From when the truth reached these figures until the monitor showed them; None: not measured."""
    problem: str = ""
    """Why the step failed; empty when it succeeded."""

    @property
    def ok(self) -> bool:
        """Whether the step succeeded."""
        return not self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The two sides of all comparisons, and how long each may take."""

    truth: Observations
    shown: Observations
    kafka: Callable[[], TrueFigures | None]
    """Returns what the brokers answer; None when none answers."""
    status: Callable[[], str]
    """Returns the monitor's status of its figures."""
    check: Callable[[], None]
    """Raises when a server or a part has died on its own."""
    quiet_s: float
    deadline_s: float

    def settle(
        self,
        done: str,
        expected: Expectation,
        *,
        quiet_s: float | None = None,
        ask_kafka: bool = True,
    ) -> StepOutcome:
        """Wait until all is quiet and equal, and return the outcome, equal or not.

        None for `quiet_s` takes the usual time. `ask_kafka=False` is for steps after which a broker
        that may be asked is known not to answer.
        """
        quiet_s = self.quiet_s if quiet_s is None else quiet_s
        deadline = time.monotonic() + self.deadline_s
        while True:
            self.check()
            truth, shown = self.truth.latest, self.shown.latest
            problem = self._problem(truth, shown, expected, quiet_s)
            if ask_kafka and truth is not None and not problem:
                problem = self._kafka_problem(truth.figures)
                if (truth, shown) != (self.truth.latest, self.shown.latest):
                    problem = problem or NOT_QUIET
            if not problem or time.monotonic() >= deadline:
                return self._outcome(done, truth, shown, problem)
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
            return f"the monitor shows nothing: {self.status()}"
        if different := differences(truth.figures, shown.figures):
            return f"DIFFERENT: {', '.join(different)}"
        if (status := self.status()) != LIVE:
            return f"the monitor says that its figures are not live: {status}"
        changed = max(truth.at, shown.at)
        return "" if time.monotonic() - changed >= quiet_s else NOT_QUIET

    def _kafka_problem(self, truth: TrueFigures) -> str:
        """Return how the answer of Kafka's brokers contradicts ZooKeeper; empty when it does not."""
        kafka = self.kafka()
        if kafka is None:
            return "no broker answered a metadata request"
        known = replace(kafka, epoch=truth.epoch, elections=truth.elections)  # brokers know neither
        different = ", ".join(differences(truth, known))
        return f"brokers say otherwise than ZooKeeper: {different}" if different else ""

    def _outcome(
        self, done: str, truth: Observation | None, shown: Observation | None, problem: str
    ) -> StepOutcome:
        delay_ms = None
        if truth is not None and shown is not None and not problem:
            # The truth may have left these figures and returned since (an ISR that flaps) without a
            # change of the monitor's figures. What it showed was then the truth's earlier arrival
            # at them.
            became = self.truth.became(shown.figures, before=shown.at)
            delay_ms = 0.0 if became is None else (shown.at - became) * 1000
        return StepOutcome(
            done=done,
            truth=truth.figures if truth else None,
            shown=shown.figures if shown else None,
            delay_ms=delay_ms,
            problem=problem,
        )
