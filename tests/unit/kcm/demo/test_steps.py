"""The demo's steps: each accepts only the effect that it is about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcm.demo.figures import TrueFigures
from kcm.demo.steps import DEPOSITIONS, STEPS, TOPICS, Step

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

BY_TITLE = {step.title: step for step in STEPS}
EMPTY = replace(HEALTHY, leaders=(), topics=0, partitions=0)
TWO = replace(HEALTHY, brokers=(0, 1), under_replicated=21, imbalance=9, not_led=((2, 9),))
ONE = replace(TWO, controller=1, elections=4, brokers=(1,), offline=6, under_replicated=27)
DEPOSED = replace(ONE, elections=4 + DEPOSITIONS)
BACK = replace(DEPOSED, brokers=(0, 1, 2), offline=0, under_replicated=0)
STALLED = replace(BACK, under_replicated=21)
EFFECTS = (EMPTY, HEALTHY, TWO, ONE, DEPOSED, BACK, STALLED, BACK, HEALTHY)


@pytest.mark.parametrize(
    ("step", "before", "after"),
    list(zip(STEPS, EFFECTS, EFFECTS[1:], strict=False)),
    ids=BY_TITLE,
)
def test_a_step_expects_its_own_change_and_nothing_else(
    step: Step, before: TrueFigures, after: TrueFigures
) -> None:
    """The figures after the step pass; those before it, in which nothing happened, do not."""
    assert step.expected(before, after)
    assert not step.expected(before, before)


def test_the_figures_of_the_test_cover_every_step() -> None:
    """The figures above cover all steps and the topics that it creates."""
    assert len(EFFECTS) == len(STEPS) + 1
    assert (HEALTHY.topics, HEALTHY.partitions) == (
        len(TOPICS),
        sum(partitions for partitions, _ in TOPICS.values()),
    )
