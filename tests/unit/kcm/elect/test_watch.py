"""What is seen of a cluster while elections run, and which of its changes are a surprise."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from controller_model.kafka.ids import TopicPartition
from controller_model.records.views import Counts
from kcm.elect.watch import ClusterSample, ClusterWatch, surprise
from tests.support.api_server import Served
from tests.support.in_process_api import api_of
from tests.support.samples import broker_view, cluster_view, topic_view

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
        ({"controller": 2}, "broker 1, epoch 7, is now broker 2, epoch 7"),
        ({"epoch": 9}, "broker 1, epoch 7, is now broker 1, epoch 9"),
        ({"under_min_isr": None}, "what is known of min.insync.replicas changed"),
    ],
)
def test_a_change_that_elections_do_not_cause_ends_the_run(
    change: dict[str, Any], reported: str
) -> None:
    """This includes a restart between two samples, and one offline partition in place of another."""
    assert reported in str(surprise(CALM, CALM._replace(**change)))


class Counting(Served):
    """An exporter that counts its answers."""

    answers = 0

    def get(self, path: str, *given: Any, **more: Any) -> httpx.Response:
        """Answer."""
        self.answers += 1
        return super().get(path, *given, **more)


def test_partitions_of_many_topics_are_asked_for_together() -> None:
    """What is not led right costs one request, however many topics it is about."""
    served = Counting()
    names = [f"t{number:03}" for number in range(60)]
    wrong = set(names[::10])
    served.write(
        broker_view(0),
        broker_view(1),
        *(topic_view(name, leader=(0, 0 if name in wrong else 1)) for name in names),
        cluster_view(counts=Counts(topics=60, partitions=120, preferred_imbalance=len(wrong))),
    )
    gone = TopicPartition("gone", 0)
    partitions = [*(TopicPartition(name, 1) for name in names), gone]
    led_wrong = {TopicPartition(name, 1) for name in wrong}
    watch = ClusterWatch(api_of(served), "prod")
    assert watch.led_wrong(partitions) == led_wrong
    assert served.answers == 1
    assert watch.not_led(partitions) == led_wrong | {gone}
