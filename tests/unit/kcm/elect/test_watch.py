"""Which changes of a cluster are a surprise while elections run."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.kafka.ids import TopicPartition
from kcm.elect.watch import ClusterSample, surprise

CALM = ClusterSample(
    status="live",
    controller=1,
    epoch=7,
    registrations={1: "40", 2: "41"},
    offline=1,
    offline_named=frozenset({TopicPartition("t", 0)}),
    under_min_isr=2,
    imbalance=5,
)


@pytest.mark.parametrize(
    "change",
    [
        {"imbalance": 0},
        {"registrations": {1: "40", 2: "41", 3: "9"}},
        {"offline": 0, "offline_named": frozenset()},
        {"under_min_isr": 0},
    ],
)
def test_an_improvement_of_the_cluster_does_not_end_the_run(change: dict[str, Any]) -> None:
    """Examples are a broker that starts and a partition that is online again."""
    assert surprise(CALM, CALM._replace(**change)) is None
    unknown = CALM._replace(under_min_isr=None)
    assert surprise(unknown, unknown._replace(imbalance=0)) is None


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"under_min_isr": 400}, "under min.insync.replicas: 400 are, 2 were"),
        ({"registrations": {1: "40", 2: "99"}}, "broker 2 was gone and is back"),
        ({"registrations": {1: "98", 2: "99"}}, "brokers 1, 2 were gone and are back"),
        ({"offline_named": frozenset({TopicPartition("u", 3)})}, "others came back: u-3"),
        ({"offline": 2}, "partitions went offline: 2 are, 1 were"),
        ({"under_min_isr": None}, "what is known of min.insync.replicas changed"),
    ],
)
def test_a_change_that_elections_do_not_cause_ends_the_run(
    change: dict[str, Any], reported: str
) -> None:
    """This includes a restart between two samples, and one offline partition in place of another."""
    assert reported in str(surprise(CALM, CALM._replace(**change)))
