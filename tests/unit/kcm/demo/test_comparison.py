"""The demo's comparison: equal counts only while neither side changes, and the delay is measured."""

from __future__ import annotations

import time
from dataclasses import replace

from kcm.demo.comparison import Comparison, StepOutcome
from kcm.demo.observations import Observations
from kcm.demo.truth import TrueFigures

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
LONG_AGO_S = 100.0


class _Side:
    """A side of the comparison whose figures the test sets."""

    def __init__(self, *seen: tuple[float, TrueFigures], status: str = "live") -> None:
        self.observations = Observations()
        self.status = status
        for ago_s, figures in seen:
            self.observations.add(time.monotonic() - ago_s, figures)


def _settle(truth: _Side, monitor: _Side, kafka: TrueFigures | None = KAFKA) -> StepOutcome:
    comparison = Comparison(
        truth=truth.observations,
        shown=monitor.observations,
        kafka=lambda: kafka,
        status=lambda: monitor.status,
        check=lambda: None,
        quiet_s=1.0,
        deadline_s=0.0,
    )
    return comparison.settle("done", lambda now: now.controller == 0)


def test_equal_and_stable_figures_pass() -> None:
    """Equal figures that no longer change pass; the delay is the time between the two sides."""
    outcome = _settle(_Side((LONG_AGO_S, FIGURES)), _Side((LONG_AGO_S - 2, FIGURES)))
    assert outcome.ok
    assert outcome.delay_ms is not None
    assert 1900 < outcome.delay_ms < 2100


def test_one_different_figure_is_named() -> None:
    """A monitor with one different figure at the deadline is DIFFERENT in that figure."""
    outcome = _settle(_Side((9, FIGURES)), _Side((9, replace(FIGURES, elections=2))))
    assert outcome.problem == "DIFFERENT: elections"
    assert outcome.delay_ms is None


def test_figures_that_have_just_changed_are_not_quiet() -> None:
    """Equal figures do not count while one side has just changed."""
    assert "quiet" in _settle(_Side((9, FIGURES)), _Side((0.1, FIGURES))).problem


def test_a_truth_without_the_expected_change_is_a_failure() -> None:
    """A truth that is not what the step is about fails, even if the monitor shows the same."""
    vacant = replace(FIGURES, controller=-1)
    assert "did not come to" in _settle(_Side((9, vacant)), _Side((8, vacant))).problem


def test_figures_of_the_brokers_must_match_zookeeper() -> None:
    """Brokers that contradict ZooKeeper, or do not answer, are a failure."""
    sides = (_Side((9, FIGURES)), _Side((8, FIGURES)))
    late = replace(KAFKA, under_replicated=2)
    problem = "brokers say otherwise than ZooKeeper: under_replicated"
    assert _settle(*sides, late).problem == problem
    assert "no broker answered" in _settle(*sides, None).problem


def test_figures_with_an_incomplete_status_fail() -> None:
    """Correct figures that the monitor itself reports as not live are a failure."""
    outcome = _settle(_Side((9, FIGURES)), _Side((8, FIGURES), status="incomplete"))
    assert "incomplete" in outcome.problem


def test_a_flap_that_the_monitor_merged_does_not_hide_its_delay() -> None:
    """When the truth left its figures and returned meanwhile, its first arrival counts."""
    truth = _Side((20, FIGURES), (12, FLAPPED), (11.5, FIGURES))
    outcome = _settle(truth, _Side((17, FIGURES)))
    assert outcome.delay_ms is not None
    assert 2900 < outcome.delay_ms < 3100
