"""min.insync.replicas: which value holds for a partition, and whether it leaves no room for a stop.

The rule: the topic's own value counts, else the leader's broker's, else the default of all brokers,
else what the brokers' own files say, which ZooKeeper does not hold and our options assume. Source
(Kafka 3.9): kafka.cluster.Partition.effectiveMinIsr, kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT_BROKER = "<default>"
"""The name under /config/brokers of what holds for every broker (ConfigEntityName.Default)."""


def min_isr_of(
    topic: int | None, leader: int | None, brokers: Mapping[str, int], assumed: int
) -> int:
    """Return min.insync.replicas of a partition with this leader; None or -1: it has none.

    `topic` is the topic's own value, None or 0 without one; `brokers` those of /config/brokers by id
    or "<default>".

    >>> [min_isr_of(None, leader, {"1": 3, "<default>": 2}, 1) for leader in (1, 4, None)]
    [3, 2, 2]
    >>> min_isr_of(4, 1, {"1": 3}, 1)
    4
    """
    if topic:
        return topic
    of_leader = brokers.get(str(leader))
    return brokers.get(DEFAULT_BROKER, assumed) if of_leader is None else of_leader


def min_isr_blocks(replication_factor: int, min_isr: int) -> bool:
    """Return whether no replica can stop without acks=all being refused; a single one apart.

    >>> [min_isr_blocks(factor, 2) for factor in (1, 2, 3)]
    [False, True, False]
    """
    return 1 < replication_factor <= min_isr
