"""Signals about the worst topics of each cluster.

The rule: a topic has a series only while it is among the worst of its cluster.
"""

import functools

from dashboards.signals.signal import DrillStep, Signal, age, highest

_of_worst_topics = functools.partial(Signal, legend="{{topic}}", moved_by=DrillStep.GHOST)

TOPIC_OFFLINE = _of_worst_topics(
    expr=highest("kafka_topic_offline_partitions", "topic"),
    description="Offline partitions of each of the 20 worst topics; empty in a healthy cluster.",
)
TOPIC_UNDER_MIN_ISR = _of_worst_topics(
    expr=highest("kafka_topic_under_min_isr_partitions", "topic"),
    description="Their partitions below min.insync.replicas.",
)
TOPIC_UNDER_REPLICATED = _of_worst_topics(
    expr=highest("kafka_topic_under_replicated_partitions", "topic"),
    description="Their under-replicated partitions.",
)
WORST_TOPICS_AGE = Signal(
    expr=age("kafka_cluster_worst_topics_timestamp_seconds"),
    unit="s",
    description="Age of the list of the worst topics; seconds, and more with very many unhealthy "
    "partitions.",
    legend="ago",
    moved_by=DrillStep.GHOST,
)
