"""min.insync.replicas: which value holds for a partition, and whether it leaves no room for a stop.

The rule: the topic's own value counts, else the leader's broker's, else the default of all brokers,
else what the brokers' own files say, which ZooKeeper does not hold and a setting of ours may say.
Without that setting it is not known: nothing is assumed. Source (Kafka 3.9):
kafka.cluster.Partition.effectiveMinIsr, kafka.server.DynamicBrokerConfig.
"""

from collections.abc import Mapping

DEFAULT_BROKER = "<default>"
"""The name under /config/brokers of what holds for every broker (ConfigEntityName.Default)."""


def min_isr_of(
    topic: int | None, leader: int | None, brokers: Mapping[str, int], in_files: int | None
) -> int | None:
    """Return min.insync.replicas of a partition with this leader (None or -1: it has none).

    `topic` is the topic's own value, None or 0 without one; `brokers` those of /config/brokers by id
    or "<default>"; `in_files` the brokers' own files'. None: it is not known.

    >>> [min_isr_of(None, leader, {"1": 3, "<default>": 2}, 1) for leader in (1, 4, None)]
    [3, 2, 2]
    >>> [min_isr_of(topic, None, {}, None) for topic in (2, None)]
    [2, None]
    >>> min_isr_of(4, 1, {"1": 3}, 1)
    4
    """
    if topic:
        return topic
    of_leader = brokers.get(str(leader))
    return brokers.get(DEFAULT_BROKER, in_files) if of_leader is None else of_leader


def effective_min_isr(min_isr: int | None, replicas: int) -> int | None:
    """Return below which ISR size acks=all is refused: never more than there are replicas.

    None where it is not known, which it always is of a single replica.

    >>> effective_min_isr(3, 2), effective_min_isr(None, 2), effective_min_isr(None, 1)
    (2, None, 1)
    """
    if min_isr is None:
        return replicas if replicas <= 1 else None
    return min(min_isr, replicas)


def min_isr_blocks(replication_factor: int, min_isr: int | None) -> bool | None:
    """Return whether no replica can stop without acks=all being refused; a single one apart.

    None: it is not known.

    >>> [min_isr_blocks(factor, 2) for factor in (1, 2, 3)]
    [False, True, False]
    >>> min_isr_blocks(1, None), min_isr_blocks(2, None)
    (False, None)
    """
    if min_isr is None:
        return None if replication_factor > 1 else False
    return 1 < replication_factor <= min_isr
