"""Figures of a healthy cluster of three brokers, for the tests of the demo."""

from __future__ import annotations

from kcm.demo.truth import TrueFigures

HEALTHY = TrueFigures(
    controller=0,
    epoch=7,
    elections=3,
    brokers=(0, 1, 2),
    leaders=((0, 9), (1, 9), (2, 9)),
    not_led=(),
    topics=4,
    partitions=27,
    offline=0,
    under_replicated=0,
    imbalance=0,
)
