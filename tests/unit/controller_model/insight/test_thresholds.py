"""The one table of thresholds: at its limit each comparison gives what PromQL gives."""

from __future__ import annotations

import pytest

from controller_model.insight.thresholds import THRESHOLDS, Compare, Severity, Threshold


@pytest.mark.parametrize(
    ("compare", "below", "at", "above"),
    [
        (Compare.ABOVE, False, False, True),
        (Compare.AT_LEAST, False, True, True),
        (Compare.EQUAL, False, True, False),
        (Compare.BELOW, True, False, False),
        (None, True, True, True),
    ],
)
def test_a_figure_is_compared_as_promql_does(
    compare: Compare | None, *, below: bool, at: bool, above: bool
) -> None:
    """Just below the limit, at it, and above it; an unknown figure never meets it."""
    threshold = Threshold(Severity.WARNING, compare, 3)
    assert [threshold.is_met(value) for value in (2, 3, 4)] == [below, at, above]
    assert not threshold.is_met(None)
    assert threshold.condition == ("" if compare is None else f"{compare} 3")


@pytest.mark.parametrize(
    ("for_s", "text"), [(0, "0s"), (30, "30s"), (90, "90s"), (300, "5m"), (3600, "1h"), (5400, "90m")]
)  # fmt: skip
def test_a_time_is_written_as_prometheus_reads_it(for_s: int, text: str) -> None:
    """In the largest unit that gives a whole number."""
    assert Threshold(Severity.WARNING, for_s=for_s).for_text == text


def test_the_alert_with_the_longer_hold_is_critical() -> None:
    """Where two alerts share a figure, the later one is critical and the earlier one a warning."""
    for sooner, later in (("KcmBehind", "KcmBehindForLong"), ("KafkaBrokerGone", "KafkaBrokerGoneAtMinIsr")):  # fmt: skip
        first, then = THRESHOLDS[sooner], THRESHOLDS[later]
        assert first.for_s < then.for_s
        assert (first.severity, then.severity) == (Severity.WARNING, Severity.CRITICAL)


@pytest.mark.parametrize("name", [n for n, each in THRESHOLDS.items() if each.compare])
def test_a_figure_of_zero_meets_only_a_lower_bound(name: str) -> None:
    """Each figure is 0 while nothing is wrong: an alert that is met by it fires for ever."""
    threshold = THRESHOLDS[name]
    assert threshold.is_met(0) is (threshold.compare is Compare.BELOW)
