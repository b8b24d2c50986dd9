"""One order of clusters, the worst first, for the live page, `kcm status` and the dashboard *Fleet*."""

from __future__ import annotations

from typing import Any

from controller_model.insight.worst_first import trouble
from dashboards.signals.controller import CONTROLLER_ID
from dashboards.signals.fleet import _WEIGHTS
from dashboards.signals.partitions import OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED
from dashboards.signals.pipeline import FOLLOWED
from dashboards.signals.signal import Signal

WELL: dict[str, Any] = {
    "is_followed": True,
    "controller": 1,
    "offline": 0,
    "under_min_isr": 0,
    "under_replicated": 0,
}
TROUBLES: tuple[tuple[dict[str, Any], Signal], ...] = (
    ({"is_followed": False}, FOLLOWED),
    ({"controller": -1}, CONTROLLER_ID),
    ({"offline": 1}, OFFLINE),
    ({"under_min_isr": 1}, UNDER_MIN_ISR),
    ({"under_replicated": 1}, UNDER_REPLICATED),
)
"""The worst first, and the dashboard's signal of each."""


def test_a_worse_problem_outweighs_all_lesser_ones_together() -> None:
    """And of the same problem, more partitions are worse; what is not known counts as none."""
    for at, (worse, _) in enumerate(TROUBLES):
        lesser = {name: value for each, _ in TROUBLES[at + 1 :] for name, value in each.items()}
        assert trouble(**WELL | worse) < trouble(**WELL | lesser)
    assert trouble(**WELL | {"offline": 2}) < trouble(**WELL | {"offline": 1})
    assert trouble(**WELL | {"under_min_isr": None}) == trouble(**WELL)


def test_the_dashboard_orders_clusters_alike() -> None:
    """Its weights fall in the same order, after clusters that are no longer served at all."""
    weights = {expr: weight for weight, expr in _WEIGHTS}
    of_signals = [
        max(weight for expr, weight in weights.items() if f"({signal.expr}) " in expr)
        for _, signal in TROUBLES
    ]
    assert of_signals == sorted(of_signals, reverse=True)
    assert max(weights.values()) > of_signals[0]
