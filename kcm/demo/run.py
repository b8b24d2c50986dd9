"""One run of the demo: start everything, do each step, and compare the monitor with the truth after it.

The rule: figures are compared while the truth does not change, and then every figure must be equal.
Quiet means that neither side has changed for a while, that the truth is what the step was to bring
about, and that Kafka itself reports the same. All processes start at once, because
Spark, the slowest, takes as long when it starts alone. While something is awaited, a server or a
part that dies is reported at once, with the end of its log.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Self

from confluent_kafka import KafkaException
from kazoo.exceptions import KazooException

from kcm.demo.figures import Observation, TrueFigures, differences
from kcm.demo.monitor import Monitor
from kcm.demo.story import ClusterT, Step, Story
from kcm.run.pipeline_processes import READY_DEADLINE_S, Pipeline
from kcm.servers.jars import Jars
from kcm.servers.prometheus import Prometheus
from kcm.servers.supervisor import Supervisor

CLUSTER_NAME = "demo"
BASELINE_TITLE = "the cluster as it starts, without topics"
NOT_QUIET = "the cluster did not become quiet"
STALL_QUIET_S = 0.4  # while a broker hangs, its clients wait
STEP_DEADLINE_S = 45.0
START_POLL_S = 0.1  # how often starting processes are asked whether they are ready
POLL_S = 0.05  # how often both sides are compared, and all processes checked between steps


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


@dataclass(slots=True)
class Progress:
    """How far the demo is, for the screens; times are seconds of the monotonic clock."""

    steps: int
    """How many there are, with the baseline."""
    sources: str
    """Where the truth is read."""
    began: float = field(default_factory=time.monotonic)
    step: int = 0
    """The number of the current step, from 1; 0 before the first."""
    title: str = "starting real servers"
    outcomes: list[StepOutcome] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """All that happened so far, in words, in its order."""

    @classmethod
    def of(cls, story: Story[ClusterT]) -> Self:
        """Return the progress of a story that has not begun."""
        return cls(steps=1 + len(story.steps), sources=story.sources)

    def timed(self, line: str) -> str:
        """Return a line with the demo's running time in front of it."""
        return f"[{time.monotonic() - self.began:6.1f} s] {line}"

    def begin(self, title: str) -> None:
        """Record that the next step begins."""
        self.step += 1
        self.title = title
        self.lines.append(self.timed(f"step {self.step}/{self.steps}: {title}"))

    def end(self, outcome: StepOutcome) -> None:
        """Record the outcome of the current step."""
        self.outcomes.append(outcome)
        delay = "" if outcome.delay_ms is None else f", shown after {outcome.delay_ms:.0f} ms"
        result = outcome.problem or f"every figure equal{delay}"
        line = f"step {self.step}/{self.steps} done: {outcome.done}: {result}"
        self.lines.append(self.timed(line))


class DemoRun(Generic[ClusterT]):
    """The cluster and the pipeline of one demo; leaving the context closes the demo's own clients."""

    def __init__(
        self,
        story: Story[ClusterT],
        supervisor: Supervisor,
        jars: Jars,
        data_dir: Path,
        progress: Progress,
        *,
        fast: bool = False,
    ) -> None:
        self.supervisor = supervisor
        self.progress = progress
        self.cluster = story.cluster(supervisor, jars, data_dir)
        settings = dict(self.cluster.settings(CLUSTER_NAME))
        self.pipeline = Pipeline(
            supervisor=supervisor,
            jars=jars,
            data_dir=data_dir / "pipeline",
            cluster=CLUSTER_NAME,
            zookeeper=settings.pop("zookeeper", None),
            options=settings,
        )
        self.monitor = Monitor(self.pipeline.exporter_url, CLUSTER_NAME)
        self.prometheus: Prometheus | None = None
        self._steps = story.steps
        self._data_dir = data_dir
        self._quiet_s = 0.4 if fast else 1.0
        self._pause_s = 0.0 if fast else 3.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Disconnect the demo's own clients; the supervisor stops the processes."""
        self.monitor.close()
        self.cluster.close()

    def start(self, *, prometheus: bool = False) -> None:
        """Start everything and wait until the monitor shows the cluster, verified and live.

        Raises KcmError when something does not start.
        """
        cluster, progress = self.cluster, self.progress
        ready, waiting = cluster.start()
        self.pipeline.start()
        if self.pipeline.broker is not None:
            waiting["the pipeline's own Kafka"] = self.pipeline.broker
        waiting["watcher, Spark, exporter"] = self.pipeline.processes["stream"]
        if prometheus:
            targets = {"kcm": self.pipeline.metrics_addresses}
            folder = self._data_dir / "prometheus"
            self.prometheus = Prometheus(self.supervisor, folder, targets=targets)
            self.prometheus.start(wait=False)
            waiting["Prometheus"] = self.prometheus
        progress.lines.append(progress.timed(f"{ready} ready; starting {', '.join(waiting)}"))
        cluster.truth.start()
        self.monitor.start()
        deadline = time.monotonic() + READY_DEADLINE_S
        while waiting:
            self.supervisor.check()
            for name, process in list(waiting.items()):
                seen = process.seen()
                if seen is None:
                    progress.lines.append(progress.timed(f"{name} ready"))
                    del waiting[name]
                elif time.monotonic() >= deadline:
                    raise process.not_ready(name, READY_DEADLINE_S, seen)
            time.sleep(START_POLL_S)

    def run_steps(self) -> None:
        """Run the baseline and then all steps; end early when a step could not be done at all."""
        self.progress.begin(BASELINE_TITLE)
        outcome = self._compare_baseline()
        self.progress.end(outcome)
        self._pause()
        for step in self._steps:
            if outcome.truth is None:
                return
            self.progress.begin(step.title)
            outcome = self._run_step(step, outcome.truth)
            self.progress.end(outcome)
            if not step.stalls:
                self._pause()

    def _compare_baseline(self) -> StepOutcome:
        """Compare the cluster before anything is done to it, and count elections from there."""
        brokers = self.cluster.broker_ids
        first = self.compare("", lambda now: now.brokers == brokers)
        if first.truth is not None:
            self.cluster.truth.begin()
            self.monitor.begin()
        outcome = self.compare(
            "nothing yet", lambda now: now.brokers == brokers and now.elections == 0
        )
        # These figures have been true for long, so there is no delay to measure.
        return replace(outcome, delay_ms=None)

    def _run_step(self, step: Step[ClusterT], before: TrueFigures) -> StepOutcome:
        try:
            done = step.act(self.cluster, before)
        except (KafkaException, KazooException, TimeoutError) as error:
            return StepOutcome(done=step.title, problem=f"it could not be done: {error}")
        return self.compare(
            done,
            lambda now: step.expected(before, now),
            status=step.status,
            stalls=step.stalls,
        )

    def _pause(self) -> None:
        """Wait for the viewer, and detect processes that die meanwhile."""
        until = time.monotonic() + self._pause_s
        while time.monotonic() < until:
            self.supervisor.check()
            time.sleep(POLL_S)

    def compare(
        self,
        done: str,
        expected: Callable[[TrueFigures], bool],
        *,
        status: str = "live",
        stalls: bool = False,
        deadline_s: float = STEP_DEADLINE_S,
    ) -> StepOutcome:
        """Wait until all is quiet and equal, and return the outcome, equal or not.

        `status` is what the monitor has to say of its figures.
        With `stalls`, a broker that may be asked is known not to answer, so none is asked.
        """
        truths, shows = self.cluster.truth.observations, self.monitor.observations
        deadline = time.monotonic() + deadline_s
        while True:
            self.supervisor.check()
            self.cluster.check()
            truth, shown = truths.latest, shows.latest
            problem = self._problem(truth, shown, expected, status=status, stalls=stalls)
            if not problem and (truth, shown) != (truths.latest, shows.latest):
                problem = NOT_QUIET
            if not problem or time.monotonic() >= deadline:
                break
            time.sleep(POLL_S)
        delay_ms = None
        if shown is not None and not problem:
            # The truth may have left these figures and returned since (an ISR that flaps) without a
            # change of the monitor's figures. What it showed was then the truth's earlier arrival
            # at them.
            became = truths.became(shown.figures, before=shown.at)
            delay_ms = 0.0 if became is None else (shown.at - became) * 1000
        return StepOutcome(
            done=done,
            truth=truth.figures if truth else None,
            shown=shown.figures if shown else None,
            delay_ms=delay_ms,
            problem=problem,
        )

    def _problem(
        self,
        truth: Observation | None,
        shown: Observation | None,
        expected: Callable[[TrueFigures], bool],
        *,
        status: str,
        stalls: bool,
    ) -> str:
        """Return what is still wrong; empty when all is equal and quiet."""
        if truth is None:
            return "the truth could not be read"
        if not expected(truth.figures):
            return "the cluster did not come to what this step is about"
        said = self.monitor.status
        if shown is None:
            return f"the monitor shows nothing: {said}"
        if different := differences(truth.figures, shown.figures):
            told = "" if said == status else f" (the monitor says that its figures are {said})"
            return f"DIFFERENT: {', '.join(different)}{told}"
        if said != status:
            return f"the monitor says that its figures are not {status}: {said}"
        return self._why_not_final(truth, shown, stalls=stalls)

    def _why_not_final(self, truth: Observation, shown: Observation, *, stalls: bool) -> str:
        """Return why equal figures may still change, or how Kafka contradicts them; empty: they are final."""
        if time.monotonic() - max(truth.at, shown.at) < (
            STALL_QUIET_S if stalls else self._quiet_s
        ):
            return NOT_QUIET
        if stalls:
            return ""
        return self.cluster.contradiction(truth.figures, self.monitor.scrape)
