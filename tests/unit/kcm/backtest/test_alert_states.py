"""Tests of when an alert fires, given the moments at which its expression has a result."""

from __future__ import annotations

import pytest

from kcm.backtest.evaluation import Firing, firings

MOMENTS = range(0, 200, 10)


@pytest.mark.parametrize(
    ("active", "hold_ms", "keep_ms", "expected"),
    [
        (set(), 0, 0, []),
        ({10, 20}, 0, 0, [Firing(10, 10, 30)]),
        ({10, 20}, 10, 0, [Firing(10, 20, 30)]),
        ({10, 20}, 20, 0, []),
        ({10, 30, 40}, 10, 0, [Firing(30, 40, 50)]),
        ({10, 30, 50}, 0, 20, [Firing(10, 10, 80)]),
        ({10, 50}, 0, 20, [Firing(10, 10, 40), Firing(50, 50, 80)]),
        ({10}, 10, 100, []),
        ({180, 190}, 10, 0, [Firing(180, 190, None)]),
        ({170}, 0, 1000, [Firing(170, 170, None)]),
    ],
    ids=str,
)
def test_for_and_keep_firing_for_delay_the_begin_and_the_end_of_an_alert(
    active: set[int], hold_ms: int, keep_ms: int, expected: list[Firing]
) -> None:
    """An alert is pending for `for`, kept for `keep_firing_for`, and a gap while pending restarts it."""
    assert list(firings(MOMENTS, active, hold_ms=hold_ms, keep_ms=keep_ms)) == expected
