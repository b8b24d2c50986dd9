"""Signals about the topics that are worst off.

The rule: a topic has a series only while it is among the worst of its cluster.
"""

from __future__ import annotations

from dashboards.signals.signal import DrillStep, Signal, age, highest

TOPIC_OFFLINE = Signal(
    expr=highest("kafka_topic_offline_partitions", "topic"),
    description="Offline partitions of each of the 20 topics that are worst off; empty in a healthy "
    "cluster.",
    legend="{{topic}}",
    moved_by=DrillStep.GHOST,
    appears=True,  # A topic is among the worst, or has no series.
)
TOPIC_UNDER_MIN_ISR = Signal(
    expr=highest("kafka_topic_under_min_isr_partitions", "topic"),
    description="Their partitions below min.insync.replicas.",
    legend="{{topic}}",
    moved_by=DrillStep.GHOST,
    appears=True,  # A topic is among the worst, or has no series.
)
TOPIC_UNDER_REPLICATED = Signal(
    expr=highest("kafka_topic_under_replicated_partitions", "topic"),
    description="Their under-replicated partitions.",
    legend="{{topic}}",
    moved_by=DrillStep.GHOST,
    appears=True,  # A topic is among the worst, or has no series.
)
WORST_TOPICS_AGE = Signal(
    expr=age("kafka_cluster_worst_topics_timestamp_seconds"),
    unit="s",
    description="How old the list of the worst topics is: seconds, more with very many partitions in "
    "trouble.",
    legend="ago",
    moved_by=DrillStep.GHOST,
)
