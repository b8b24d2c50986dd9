"""What controllers are asked beside the log: when, and what an answer or a refusal means."""

from __future__ import annotations

from typing import Any

from controller_model.records.metadata_log import QuorumReplica
from kraft_source.service.quorum_sampler import (
    DENIED_RETRY_S,
    INTERVAL_S,
    MAX_AGE_S,
    REFUSED_RETRY_S,
    QuorumSampler,
)
from pipeline.runtime import UnreachableError

CAUGHT_UP = {"last_fetch_timestamp": 900, "last_caught_up_timestamp": 950}
UNKNOWN = {"last_fetch_timestamp": -1, "last_caught_up_timestamp": -1}


class Controller:
    """Answers as a connection to a controller does."""

    def __init__(self) -> None:
        self.versions = {"DescribeQuorum": 2, "DescribeCluster": 1}
        self.leader = 3001
        self.cluster: dict[str, Any] = {"error_code": 0, "cluster_id": "A" * 22}
        self.asked: list[str] = []
        self.is_away = False
        self.denied = 0

    def call(self, name: str, values: Any, *, timeout_s: float) -> Any:
        """Return an answer."""
        assert timeout_s <= 2
        self.asked.append(name)
        if self.is_away:
            raise UnreachableError("closed")
        if name == "DescribeCluster":
            assert values == {"endpoint_type": 2}
            return self.cluster
        partition = {
            "error_code": 0 if self.leader == 3001 else 6,
            "leader_id": 3001,
            "leader_epoch": 4,
            "high_watermark": 70,
            "current_voters": [
                {"replica_id": 3001, "log_end_offset": 71, **CAUGHT_UP},
                {"replica_id": 3002, "log_end_offset": -1, **UNKNOWN},
            ],
            "observers": [{"replica_id": 1, "log_end_offset": 69, **CAUGHT_UP}],
        }
        topics = [] if self.denied else [{"partitions": [partition]}]
        return {"error_code": self.denied, "topics": topics}


def test_a_leader_is_sampled_in_intervals_and_another_one_asked_again_soon() -> None:
    """What a leader does not know of a replica is not known."""
    controller, now = Controller(), [100.0]
    sampler = QuorumSampler(lambda: now[0], "A" * 22)
    controller.leader = 3002
    sampler.ask(controller)  # type: ignore[arg-type]
    before = sampler.sample
    assert before is None
    controller.leader = 3001
    now[0] += INTERVAL_S
    sampler.ask(controller)  # type: ignore[arg-type]
    sample = sampler.sample
    assert sample is not None
    assert (sample.at, sample.leader, sample.epoch, sample.high_watermark) == (950, 3001, 4, 70)
    assert sample.voters == (QuorumReplica(3001, 71, 900, 950), QuorumReplica(3002, -1, None, None))
    assert sample.observers == (QuorumReplica(1, 69, 900, 950),)
    now[0] += INTERVAL_S - 0.1
    sampler.ask(controller)  # type: ignore[arg-type]
    assert controller.asked == ["DescribeQuorum"] * 2
    now[0] += MAX_AGE_S
    assert sampler.sample is None, "it says nothing of now"


def test_a_refusal_is_not_asked_for_each_second() -> None:
    """Controllers log each; a right that is granted is used soon."""
    controller, now = Controller(), [100.0]
    sampler = QuorumSampler(lambda: now[0], "A" * 22)
    controller.denied = 31
    for _ in range(int(DENIED_RETRY_S)):
        sampler.ask(controller)  # type: ignore[arg-type]
        now[0] += INTERVAL_S
    assert controller.asked == ["DescribeQuorum"]
    controller.denied = 0
    sampler.ask(controller)  # type: ignore[arg-type]
    assert sampler.sample is not None


def test_the_clusters_id_is_asked_for_until_it_is_told() -> None:
    """A refusal, or a connection that breaks, leaves it unknown."""
    controller, now = Controller(), [0.0]
    del controller.versions["DescribeQuorum"]
    sampler = QuorumSampler(lambda: now[0])
    controller.cluster = {"error_code": 31, "cluster_id": ""}
    for answer in (controller.cluster, {"error_code": 0, "cluster_id": "B" * 22}):
        controller.cluster = answer
        sampler.ask(controller)  # type: ignore[arg-type]
        controller.is_away = answer["error_code"] == 31
        now[0] += REFUSED_RETRY_S
        sampler.ask(controller)  # type: ignore[arg-type]
        controller.is_away = False
        now[0] += REFUSED_RETRY_S
    assert sampler.cluster_id == "B" * 22
    assert controller.asked == ["DescribeCluster"] * 3
