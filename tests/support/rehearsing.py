"""Rehearsals of steps given as text, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.ids import TopicPartition
from rehearsal.failover import LastFailover
from rehearsal.rehearse import rehearse
from rehearsal.report import PartitionNames, Rehearsal, RehearsedStep
from rehearsal.steps import read_step
from tests.support.partition_facts import up


def rehearsed(
    *steps: str,
    partitions: Iterable[PartitionFacts] = (),
    facts: ClusterFacts | None = None,
    last_failover: LastFailover | None = None,
    is_zombie: bool = False,
    **fields: Any,
) -> Rehearsal:
    """Return a rehearsal on brokers 1, 2, 3, with the first as controller, unless other facts are given."""
    usual = {"controller": 1, "controller_epoch": 7}
    cluster = up(1, 2, 3, **usual | fields) if facts is None else facts
    return rehearse(
        cluster,
        partitions,
        [read_step(step) for step in steps],
        last_failover=last_failover,
        is_zombie=is_zombie,
    )


def one(*steps: str, **given: Any) -> RehearsedStep:
    """Return the effect of the last of these steps."""
    return rehearsed(*steps, **given).steps[-1]


def names(some: PartitionNames) -> tuple[TopicPartition, ...]:
    """Return the partitions of a report's list, which must be complete."""
    assert some.count == len(some.partitions)
    return tuple(TopicPartition(each.topic, each.partition) for each in some.partitions)


def moved(step: RehearsedStep) -> dict[int, int]:
    """Return how many leaders each broker gets."""
    return {each.broker: each.partition_count for each in step.leaders_moved}
