"""The demo's comparison: a difference is a failure, is named, and is shown; the rest is run by tests/system."""

from __future__ import annotations

import io
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from kcm.demo.cluster import ZooKeeperCluster
from kcm.demo.demo import run_demo
from kcm.demo.figures import TrueFigures
from kcm.demo.kraft_steps import KRAFT
from kcm.demo.run import DemoRun, Progress, StepOutcome
from kcm.demo.screen import FULL_WIDTH, ending, outcome_table
from kcm.demo.steps import ZOOKEEPER
from kcm.run.exporter_client import STATUS
from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor

FIGURES = TrueFigures(
    controller=0,
    epoch=7,
    elections=3,
    brokers=(0, 1),
    leaders=((0, 2),),
    not_led=(),
    topics=1,
    partitions=2,
    offline=0,
    under_replicated=0,
    imbalance=0,
)
FLAPPED = replace(FIGURES, under_replicated=1)
KAFKA = replace(FIGURES, epoch=None, elections=None)
GOOD = StepOutcome(done="broker 2 killed", truth=FIGURES, shown=FIGURES, delay_ms=312.4)
BAD = StepOutcome(
    done="/controller deleted 3 times in a row",
    truth=FIGURES,
    shown=replace(FIGURES, elections=2),
    problem="DIFFERENT: elections",
)


def progress(steps: int, *outcomes: StepOutcome) -> Progress:
    """Return how far a demo of so many steps is."""
    return Progress(steps=steps, sources="ZooKeeper and Kafka", outcomes=list(outcomes))


Seen = tuple[float, TrueFigures]
"""How long ago figures were first seen, in seconds, and the figures."""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[DemoRun[ZooKeeperCluster]]:
    """A run of which nothing is started."""
    jars = Jars(connector=[Path("/a.jar")], broker=[Path("/b.jar")])
    with (
        Supervisor(tmp_path, kill_on_exit=True) as owner,
        DemoRun(ZOOKEEPER, owner, jars, tmp_path, Progress.of(ZOOKEEPER)) as made,
    ):
        yield made


def compare(
    run: DemoRun[ZooKeeperCluster],
    truth: list[Seen],
    shown: list[Seen],
    kafka: TrueFigures | None = KAFKA,
    *,
    status: str = "live",
) -> StepOutcome:
    """Return the outcome of a comparison of figures that no longer change."""
    for side, seen in ((run.cluster.truth, truth), (run.monitor, shown)):
        for ago_s, figures in seen:
            side.observations.add(time.monotonic() - ago_s, figures)
    run.monitor._problem = ""
    run.monitor.scrape = {(STATUS, status): 1.0}
    run.cluster.kafka.read = lambda: kafka  # type: ignore[method-assign]  # no broker runs
    return run.compare("done", lambda now: now.controller == 0, deadline_s=0.0)


def test_equal_and_stable_figures_pass(run: DemoRun[ZooKeeperCluster]) -> None:
    """The delay is the time between the two sides, from the truth's first arrival at the figures."""
    truth = [(20.0, FIGURES), (12.0, FLAPPED), (11.5, FIGURES)]
    outcome = compare(run, truth, [(17.0, FIGURES)])
    assert outcome.problem == ""
    assert outcome.delay_ms is not None
    assert 2900 < outcome.delay_ms < 3100


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        ([(9.0, replace(FIGURES, elections=2))], "DIFFERENT: elections"),
        ([(0.0, FIGURES)], "the cluster did not become quiet"),
        ([], "the monitor shows nothing: live"),
    ],
)
def test_a_monitor_that_differs_fails(
    run: DemoRun[ZooKeeperCluster], shown: list[Seen], problem: str
) -> None:
    """So does one that has just changed, and one that shows nothing."""
    outcome = compare(run, [(9.0, FIGURES)], shown)
    assert outcome.problem == problem
    assert outcome.delay_ms is None


def test_a_truth_without_the_expected_change_fails(run: DemoRun[ZooKeeperCluster]) -> None:
    """Also where the monitor shows the same."""
    vacant = replace(FIGURES, controller=-1)
    assert "did not come to" in compare(run, [(9.0, vacant)], [(8.0, vacant)]).problem


@pytest.mark.parametrize("kafka", [replace(KAFKA, under_replicated=2), None])
def test_brokers_must_report_the_same_as_zookeeper(
    run: DemoRun[ZooKeeperCluster], kafka: TrueFigures | None
) -> None:
    """Brokers that contradict ZooKeeper, or do not answer, are a failure."""
    problem = compare(run, [(9.0, FIGURES)], [(8.0, FIGURES)], kafka).problem
    assert problem in {
        "brokers say otherwise than ZooKeeper: under_replicated",
        "no broker answered a metadata request",
    }


def test_figures_that_are_not_live_fail(run: DemoRun[ZooKeeperCluster]) -> None:
    """Correct figures that the monitor itself reports as incomplete prove nothing."""
    outcome = compare(run, [(9.0, FIGURES)], [(8.0, FIGURES)], status="incomplete")
    assert outcome.problem.endswith("not live: incomplete")
    late = compare(run, [(9.0, FIGURES)], [(8.0, FLAPPED)], status="behind")
    assert (
        late.problem == "DIFFERENT: under_replicated (the monitor says that its figures are behind)"
    )


@pytest.mark.parametrize(
    ("width", "equal"), [(FULL_WIDTH, "controller 0  epoch 7"), (80, "the same")]
)
def test_the_table_shows_a_difference_on_both_sides(width: int, equal: str) -> None:
    """On 80 columns equal figures are written once, a difference twice, and nothing is cut."""
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(outcome_table(progress(2, GOOD, BAD), width=width))
    text = captured.get()
    assert equal in text
    assert text.count("elections 2") == 1
    assert "DIFFERENT" in text
    assert " ok " in text


def test_figures_of_kraft_fit_into_the_table() -> None:
    """At the least width with both sides, no line of them is cut."""
    figures = replace(
        FIGURES,
        brokers=(0, 1, 2),
        leaders=((0, 10), (1, 10), (2, 10)),
        not_led=((0, 10), (1, 10), (2, 10)),
        fenced=(1, 2),
        elr=16,
        empty_isr=16,
        under_min_isr=16,
        unclean=16,
        voters=3,
        candidacies=10,
    )
    outcome = StepOutcome(done="broker 1 killed", truth=figures, shown=figures, delay_ms=1312.4)
    console = Console(file=io.StringIO(), width=FULL_WIDTH)
    with console.capture() as captured:
        told = Progress.of(KRAFT)
        told.outcomes.append(outcome)
        console.print(outcome_table(told, width=FULL_WIDTH))
    text = captured.get()
    assert "…" not in text
    assert text.count("with ELR 16  unclean 16  voters 3") == 2


def test_one_failed_or_missing_step_fails_the_demo() -> None:
    """The last line names the step and the problem; of a good run it has the delays."""
    line, ok = ending(progress(2, GOOD, BAD))
    assert (line.startswith("demo FAILED: step 2 "), ok) == (True, False)
    assert ending(progress(9, GOOD)) == (
        "demo FAILED: only 1 of 9 steps were done",
        False,
    )
    assert ending(progress(1, GOOD)) == (
        "demo ended well: 1 steps, every figure equal, shown after p50 312 ms, at most 312 ms",
        True,
    )


@pytest.fixture
def _signals() -> Iterator[None]:
    """Restore the handler of SIGTERM: a demo replaces it for good."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize("kraft", [False, True])
def test_a_missing_java_is_one_line_and_leaves_no_folder(
    *,
    kraft: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Standard error says what is missing, the exit code is 1, and no folder is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert run_demo(kraft=kraft, keep=False, fast=True, plain=True) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kcm: Java 17 or newer is needed; found none")
    assert list(tmp_path.glob("kcm-demo-*")) == []
