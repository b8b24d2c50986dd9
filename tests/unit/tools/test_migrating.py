"""The page for users of kafka_exporter names each of its metrics, with correct facts about each."""

from __future__ import annotations

import re
from pathlib import Path

from controller_model.metrics.catalogue import CATALOGUE
from exporter.scrape.partition_series import BROKERS, PARTITION_METRICS, TOPIC_PARTITIONS

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "migrating-from-kafka-exporter.md"

KAFKA_EXPORTER = frozenset(
    f"kafka_{name}"
    for name in [
        "brokers",
        "broker_info",
        "topic_partitions",
        "topic_partition_current_offset",
        "topic_partition_oldest_offset",
        "topic_partition_leader",
        "topic_partition_replicas",
        "topic_partition_in_sync_replica",
        "topic_partition_leader_is_preferred",
        "topic_partition_under_replicated_partition",
        "consumergroup_current_offset",
        "consumergroup_current_offset_sum",
        "consumergroup_lag",
        "consumergroup_lag_sum",
        "consumergroup_members",
        "consumergroupzookeeper_lag_zookeeper",
        "exporter_build_info",
    ]
)
"""All metrics that kafka_exporter serves (kafka_exporter.go, setup)."""


def rows() -> dict[str, str]:
    """Return the page's entry for each metric, by its name."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            _, theirs, here, _, _ = line.split("|")
            for name in re.findall(r"`(kafka_\w+)", theirs):
                found[name] = here.strip()
    return found


def test_each_metric_of_kafka_exporter_has_its_row() -> None:
    """A user who migrates a dashboard finds every name that is on it."""
    assert rows().keys() == KAFKA_EXPORTER


def test_equal_metrics_are_served_at_the_documented_path() -> None:
    """A metric without a counterpart is not served under that name."""
    by_partition = {each.name for each in (BROKERS, TOPIC_PARTITIONS, *PARTITION_METRICS)}
    always = {each.name for each in CATALOGUE}
    for name, here in rows().items():
        expected = {
            "the same, at `/metrics/partitions`": name in by_partition,
            "the same, at `/metrics`": name in always,
            "none": name not in always | by_partition,
        }
        assert expected[here], name
