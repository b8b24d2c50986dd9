"""The figures that take a walk through the partitions: the worst topics, who leads them, one rack.

The rule: a topic has series only while it is among the worst, and the series say of when they are;
the sums over all topics are the cluster's own figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller_model.metrics.metric import (
    Metric,
    MetricType,
    Moment,
    Sample,
    TopicTrouble,
    gauge,
    seconds,
)


def _worst(name: str, text: str, figure: Callable[[TopicTrouble], int]) -> Metric[Moment]:
    def read(moment: Moment) -> Iterable[Sample]:
        return [((each.topic,), figure(each)) for each in moment.worst.topics]

    return Metric(
        name=name,
        type=MetricType.GAUGE,
        help=text,
        labels=("cluster", "topic"),
        unit="",
        read=read,
    )


WORST: tuple[Metric[Moment], ...] = (
    _worst(
        "kafka_topic_offline_partitions",
        "Number of offline partitions of a topic; present for the 20 topics that are worst off.",
        lambda topic: topic.offline,
    ),
    _worst(
        "kafka_topic_under_min_isr_partitions",
        "Number of partitions of a topic below min.insync.replicas; present for the 20 topics "
        "that are worst off.",
        lambda topic: topic.under_min_isr,
    ),
    _worst(
        "kafka_topic_under_replicated_partitions",
        "Number of under-replicated partitions of a topic; present for the 20 topics that are "
        "worst off.",
        lambda topic: topic.under_replicated,
    ),
    Metric(
        name="kafka_broker_under_replicated_led_partitions",
        type=MetricType.GAUGE,
        help="Number of under-replicated partitions that the broker leads (JMX "
        "UnderReplicatedPartitions); absent for a broker that is gone.",
        labels=("cluster", "broker"),
        unit="",
        read=lambda moment: [((str(broker),), led) for broker, led in moment.worst.led_short],
    ),
    gauge(
        "kafka_cluster_one_rack_partitions",
        "Number of partitions with all their replicas in one rack while live brokers are in "
        "others; absent while that cannot be counted.",
        lambda moment: moment.worst.one_rack,
    ),
    gauge(
        "kafka_cluster_worst_topics_timestamp_seconds",
        "Unix time in seconds as of which the figures of the worst topics, of led partitions and "
        "of racks hold; absent before the first.",
        lambda moment: seconds(moment.worst.at),
    ),
)
