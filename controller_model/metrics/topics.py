"""The figures that need a pass over all partitions: the worst topics, who leads them, one rack.

A topic has series only while it is among the worst, and the series show when that was
counted; the sums over all topics are the cluster's own figures.
"""

from collections.abc import Callable, Iterable

from controller_model.metrics.metric import (
    Moment,
    Sample,
    Samples,
    Table,
    TopicTrouble,
    figure,
    seconds,
)


def _each_topic(text: str, of: Callable[[TopicTrouble], int | None]) -> Samples[Moment]:
    def read(moment: Moment) -> Iterable[Sample]:
        figures = ((each.topic, of(each)) for each in moment.worst.topics)
        return [((topic,), value) for topic, value in figures if value is not None]

    return Samples(text, ("topic",), read)


WORST: Table[Moment] = {
    "kafka_topic_offline_partitions": _each_topic(
        "Number of offline partitions of a topic; present only for the 20 worst topics.",
        lambda topic: topic.offline,
    ),
    "kafka_topic_under_min_isr_partitions": _each_topic(
        "Number of partitions of a topic below min.insync.replicas; present only for the 20 worst "
        "topics, and absent where that is not known.",
        lambda topic: topic.under_min_isr,
    ),
    "kafka_topic_under_replicated_partitions": _each_topic(
        "Number of under-replicated partitions of a topic; present only for the 20 worst topics.",
        lambda topic: topic.under_replicated,
    ),
    "kafka_broker_under_replicated_led_partitions": Samples(
        "Number of under-replicated partitions that the broker leads (JMX "
        "UnderReplicatedPartitions); absent for a broker that is gone.",
        ("broker",),
        lambda moment: [((str(broker),), led) for broker, led in moment.worst.led_short],
    ),
    "kafka_cluster_one_rack_partitions": figure(
        "Number of partitions with all their replicas in one rack while live brokers are in "
        "others; absent while that cannot be counted.",
        lambda moment: moment.worst.one_rack,
    ),
    "kafka_cluster_worst_topics_timestamp_seconds": figure(
        "Unix time in seconds when the figures of the worst topics, of led partitions and of racks "
        "were computed; absent before the first time.",
        lambda moment: seconds(moment.worst.at),
    ),
}
