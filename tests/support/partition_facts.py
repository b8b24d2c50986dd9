"""Partitions and clusters as plain facts, for tests of insights."""

from __future__ import annotations

from typing import Any

from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.ids import TopicPartition


def part(number: int = 0, **fields: Any) -> PartitionFacts:
    """Return a partition of t on brokers 1, 2, 3, led by 1, all in sync, with these fields changed."""
    usual: dict[str, Any] = {"topic": "t", "replicas": (1, 2, 3), "leader": 1, "isr": (1, 2, 3)}
    return PartitionFacts(partition=number, **(usual | fields))


def up(*live: int, **fields: Any) -> ClusterFacts:
    """Return a cluster of these live brokers, whose files have Kafka's min.insync.replicas of 1."""
    return ClusterFacts(live=frozenset(live), **{"min_isr_assumed": 1, **fields})


T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


ALL = up(1, 2, 3)
