"""The worst topics as samples."""

from __future__ import annotations

from controller_model.metrics.metric import (
    Moment,
    TopicTrouble,
    WorstTopics,
)
from controller_model.metrics.topics import WORST
from controller_model.records.completeness import assess
from tests.support.samples import FRESH, T0, cluster_view


def test_only_the_worst_topics_have_series() -> None:
    """Each with its problems; before the first count there is neither a topic nor a time."""
    complete = assess(cluster_view(), FRESH, T0)
    found = WorstTopics(T0, (TopicTrouble("lost", 2, 1, 3),), ((0, 3),), one_rack=2)
    searched = Moment(completeness=complete, behind_ms={}, vacant_ms=None, worst=found)
    reported = {name: list(samples.read(searched)) for name, samples in WORST.items()}
    assert reported == {
        "kafka_topic_offline_partitions": [(("lost",), 2)],
        "kafka_topic_under_min_isr_partitions": [(("lost",), 1)],
        "kafka_topic_under_replicated_partitions": [(("lost",), 3)],
        "kafka_broker_under_replicated_led_partitions": [(("0",), 3)],
        "kafka_cluster_one_rack_partitions": [((), 2)],
        "kafka_cluster_worst_topics_timestamp_seconds": [((), T0 / 1000)],
    }
    before = Moment(completeness=complete, behind_ms={}, vacant_ms=None)
    assert all(not list(samples.read(before)) for samples in WORST.values())
