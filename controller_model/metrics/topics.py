"""The figures that take a look through the partitions: the worst topics, who leads them, one rack.

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
        "Offline partitions of each of the 20 topics that are worst off; no series for the others.",
        lambda topic: topic.offline,
    ),
    _worst(
        "kafka_topic_under_min_isr_partitions",
        "Partitions below min.insync.replicas of each of the 20 topics that are worst off.",
        lambda topic: topic.under_min_isr,
    ),
    _worst(
        "kafka_topic_under_replicated_partitions",
        "Under-replicated partitions of each of the 20 topics that are worst off.",
        lambda topic: topic.under_replicated,
    ),
    Metric(
        name="kafka_broker_under_replicated_led_partitions",
        type=MetricType.GAUGE,
        help="Under-replicated partitions that the broker leads (JMX UnderReplicatedPartitions): one "
        "broker far above the others is a leader that its followers cannot follow.",
        labels=("cluster", "broker"),
        unit="",
        read=lambda moment: [((str(broker),), led) for broker, led in moment.worst.led_short],
    ),
    gauge(
        "kafka_cluster_one_rack_partitions",
        "Partitions with all their replicas in one rack, though live brokers are in others: offline "
        "as soon as that rack is; 0 is advisable.",
        lambda moment: moment.worst.one_rack,
    ),
    gauge(
        "kafka_cluster_worst_topics_timestamp_seconds",
        "When the exporter last looked which topics are worst off, which leaders, and what is in one "
        "rack: every few seconds, more rarely with very many partitions.",
        lambda moment: seconds(moment.worst.at),
    ),
)
