"""min.insync.replicas: which value applies to a partition, and whether it blocks every stop.

The rule: the topic's own value counts, else that of the leader's broker, else the default for all
brokers, else the value in the brokers' own files. ZooKeeper does not hold those files; a setting of
kcm can give their value. Without that setting the value is not known, and nothing is assumed. Source (Kafka 3.9):
kafka.cluster.Partition.effectiveMinIsr, kafka.server.DynamicBrokerConfig.
"""

from collections.abc import Mapping

DEFAULT_BROKER = "<default>"
"""The name under /config/brokers of the defaults for all brokers (ConfigEntityName.Default)."""


def min_isr_of(
    topic: int | None, leader: int | None, brokers: Mapping[str, int], in_files: int | None
) -> int | None:
    """Return min.insync.replicas of a partition with this leader (None or -1: it has none).

    `topic` is the topic's own value, None or 0 without one; `brokers` holds the values of
    /config/brokers by broker id or "<default>"; `in_files` is the value in the brokers' own files.
    Returns None if the value is not known.

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
    """Return the size of the ISR below which acks=all is refused: at most the number of replicas.

    Returns None if it is not known. For a single replica it is always known.

    >>> effective_min_isr(3, 2), effective_min_isr(None, 2), effective_min_isr(None, 1)
    (2, None, 1)
    """
    if min_isr is None:
        return replicas if replicas <= 1 else None
    return min(min_isr, replicas)


def min_isr_blocks(replication_factor: int, min_isr: int | None) -> bool | None:
    """Return whether stopping any one replica makes acks=all fail; False for a single replica.

    Returns None if it is not known.

    >>> [min_isr_blocks(factor, 2) for factor in (1, 2, 3)]
    [False, True, False]
    >>> min_isr_blocks(1, None), min_isr_blocks(2, None)
    (False, None)
    """
    if min_isr is None:
        return None if replication_factor > 1 else False
    return 1 < replication_factor <= min_isr
