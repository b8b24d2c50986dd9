"""The demo's steps: each accepts only the effect that it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcm.demo.cluster import BROKER_IDS
from kcm.demo.figures import TrueFigures
from kcm.demo.kraft_steps import BEHIND_REPLICAS, KILLED, KRAFT, PARTITIONS, STOPPED
from kcm.demo.kraft_steps import TOPICS as KRAFT_TOPICS
from kcm.demo.steps import DEPOSITIONS, STEPS, TOPICS
from kcm.demo.story import Step

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

EMPTY = replace(HEALTHY, leaders=(), topics=0, partitions=0)
TWO = replace(HEALTHY, brokers=(0, 1), under_replicated=21, imbalance=9, not_led=((2, 9),))
ONE = replace(TWO, controller=1, elections=4, brokers=(1,), offline=6, under_replicated=27)
DEPOSED = replace(ONE, elections=4 + DEPOSITIONS)
BACK = replace(DEPOSED, brokers=(0, 1, 2), offline=0, under_replicated=0)
STALLED = replace(BACK, under_replicated=21)
EFFECTS = (EMPTY, HEALTHY, TWO, ONE, DEPOSED, BACK, STALLED, BACK, HEALTHY)


START = replace(
    HEALTHY,
    controller=3001,
    leaders=((0, 10), (1, 10), (2, 9)),
    topics=len(KRAFT_TOPICS) + 1,
    partitions=PARTITIONS,
    fenced=(),
    elr=0,
    empty_isr=0,
    under_min_isr=0,
    unclean=0,
    voters=3,
    candidacies=0,
)
SUCCEEDED = replace(START, controller=3002, elections=4)
LOST = replace(SUCCEEDED, controller=-1)
FOUND = replace(SUCCEEDED, controller=3003, elections=5)
FENCED = replace(FOUND, brokers=(0, 1), fenced=(STOPPED,), under_replicated=21)
UNFENCED = replace(FOUND, imbalance=9, not_led=((STOPPED, 9),))
ENDED = replace(
    UNFENCED,
    brokers=(0,),
    fenced=(KILLED, STOPPED),
    offline=4,
    empty_isr=4,
    elr=16,
    under_min_isr=12,
    under_replicated=29,
)
DELETED = replace(ENDED, topics=ENDED.topics - 1, partitions=PARTITIONS - 3)
UNCLEAN = replace(
    DELETED,
    brokers=(0, KILLED),
    fenced=(STOPPED,),
    unclean=len(BEHIND_REPLICAS),
    offline=2,
    empty_isr=2,
    elr=2,
    under_min_isr=0,
)
RETURNED = replace(
    UNCLEAN, brokers=BROKER_IDS, fenced=(), offline=0, empty_isr=0, elr=0, under_replicated=0
)
RESTARTED = replace(RETURNED, controller=3001, elections=6)
BALANCED = replace(RESTARTED, imbalance=0, not_led=())
KRAFT_EFFECTS = (
    *(replace(START, leaders=(), topics=0, partitions=0), START, SUCCEEDED, LOST, FOUND, FENCED),
    *(UNFENCED, ENDED, DELETED, UNCLEAN, RETURNED, RESTARTED, BALANCED),
)
CHANGES = [
    *zip(STEPS, EFFECTS, EFFECTS[1:], strict=False),
    *zip(KRAFT.steps, KRAFT_EFFECTS, KRAFT_EFFECTS[1:], strict=False),
]


@pytest.mark.parametrize(
    ("step", "before", "after"), CHANGES, ids=lambda each: getattr(each, "title", "")
)
def test_a_step_expects_its_own_change_and_nothing_else(
    step: Step[Any], before: TrueFigures, after: TrueFigures
) -> None:
    """The figures after the step pass; those before it, in which nothing happened, do not."""
    assert step.expected(before, after)
    assert not step.expected(before, before)


def test_the_figures_of_the_test_cover_every_step() -> None:
    """The figures above cover all steps and the topics that they create."""
    assert len(EFFECTS) == len(STEPS) + 1
    assert len(KRAFT_EFFECTS) == len(KRAFT.steps) + 1
    assert (HEALTHY.topics, HEALTHY.partitions) == (
        len(TOPICS),
        sum(partitions for partitions, _ in TOPICS.values()),
    )
