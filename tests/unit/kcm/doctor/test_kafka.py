"""The lines of `kcm doctor` about the pipeline's Kafka and the cluster that is shown."""

from __future__ import annotations

import pytest

from kcm.doctor.findings import Level
from kcm.doctor.kafka import same_cluster, shown_cluster


def test_a_pipeline_on_the_watched_kafka_is_a_warning() -> None:
    """Equal ids are a warning; a missing id is not measured."""
    assert same_cluster("a", "b").level is Level.OK
    assert same_cluster("a", "a").level is Level.WARN
    assert same_cluster(None, "a").level is Level.UNKNOWN
    assert same_cluster("a", None).level is Level.UNKNOWN


@pytest.mark.parametrize(
    ("watched", "shown", "level", "words"),
    [
        ("a", {"prod": "a", "stage": "b"}, Level.OK, "as prod"),
        ("b", {"prod": "a"}, Level.FAIL, "ZooKeeper holds cluster b, the exporter shows prod (a)"),
        ("b", {"prod": "a", "stage": None}, Level.UNKNOWN, "does not know"),
        ("b", {}, Level.UNKNOWN, "shows no cluster"),
        (None, {"prod": "a"}, Level.UNKNOWN, "/cluster/id"),
    ],
)
def test_an_exporter_that_shows_another_cluster_fails(
    watched: str | None, shown: dict[str, str | None], level: Level, words: str
) -> None:
    """The ZooKeeper of one cluster with the exporter of another must not pass."""
    finding = shown_cluster(watched, shown)
    assert finding.level is level
    assert words in finding.text
