"""What controllers are asked beside the log: when, and what an answer or a refusal means."""

from __future__ import annotations

from typing import Any

from controller_model.records.metadata_log import QuorumReplica
from kraft_source.service.quorum_sampler import (
    DENIED_RETRY_S,
    INTERVAL_S,
    MAX_AGE_S,
    REFUSED_RETRY_S,
    SNAPSHOT_INTERVAL_S,
    QuorumSampler,
)
from kraft_source.wire.messages import EpochEnd, EpochLeader
from pipeline.runtime import UnreachableError
from tests.support.quorum_in_memory import snapshot_bytes

CAUGHT_UP = {"last_fetch_timestamp": 900, "last_caught_up_timestamp": 950}
UNKNOWN = {"last_fetch_timestamp": -1, "last_caught_up_timestamp": -1}


class Controller:
    """Answers as a connection to a controller does."""

    def __init__(self) -> None:
        self.versions = {"DescribeQuorum": 2, "DescribeCluster": 1, "Fetch": 17}
        self.leader = 3001
        self.cluster: dict[str, Any] = {"error_code": 0, "cluster_id": "A" * 22}
        self.asked: list[str] = []
        self.is_away = False
        self.newest: EpochEnd | None = EpochEnd(30, 4)
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
        if name in {"Fetch", "FetchSnapshot"}:
            return self._of_snapshot(name, values)
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

    def _of_snapshot(self, name: str, values: Any) -> Any:
        (asked,) = values["topics"][0]["partitions"]
        error = 0 if asked["current_leader_epoch"] == 4 else 74
        if name == "Fetch":
            assert (asked["fetch_offset"], asked["partition_max_bytes"]) == (0, 1)
            named = None if self.newest is None else self.newest._asdict()
            partition: dict[str, Any] = {"error_code": error, "snapshot_id": named}
            return {"error_code": 0, "responses": [{"partitions": [partition]}]}
        assert self.newest is not None
        assert asked["snapshot_id"] == self.newest._asdict()
        data = snapshot_bytes(self.newest)
        part = {"size": len(data), "position": 0, "unaligned_records": data[: values["max_bytes"]]}
        return {"error_code": 0, "topics": [{"partitions": [{"error_code": error} | part]}]}


def test_a_leader_is_sampled_in_intervals_and_another_one_asked_again_soon() -> None:
    """What a leader does not know of a replica is not known."""
    controller, now = Controller(), [100.0]
    sampler = QuorumSampler(lambda: now[0], "A" * 22)
    controller.leader = 3002
    sampler.ask(controller, None)  # type: ignore[arg-type]
    before = sampler.sample
    assert before is None
    controller.leader = 3001
    now[0] += INTERVAL_S
    sampler.ask(controller, None)  # type: ignore[arg-type]
    sample = sampler.sample
    assert sample is not None
    assert (sample.at, sample.leader, sample.epoch, sample.high_watermark) == (950, 3001, 4, 70)
    assert sample.voters == (QuorumReplica(3001, 71, 900, 950), QuorumReplica(3002, -1, None, None))
    assert sample.observers == (QuorumReplica(1, 69, 900, 950),)
    now[0] += INTERVAL_S - 0.1
    sampler.ask(controller, None)  # type: ignore[arg-type]
    assert controller.asked == ["DescribeQuorum"] * 2
    now[0] += MAX_AGE_S
    assert sampler.sample is None, "it says nothing of now"


def test_a_refusal_is_not_asked_for_each_second() -> None:
    """Controllers log each; a right that is granted is used soon."""
    controller, now = Controller(), [100.0]
    sampler = QuorumSampler(lambda: now[0], "A" * 22)
    controller.denied = 31
    for _ in range(int(DENIED_RETRY_S)):
        sampler.ask(controller, None)  # type: ignore[arg-type]
        now[0] += INTERVAL_S
    assert controller.asked == ["DescribeQuorum"]
    controller.denied = 0
    sampler.ask(controller, None)  # type: ignore[arg-type]
    assert sampler.sample is not None


def test_the_clusters_id_is_asked_for_until_it_is_told() -> None:
    """A refusal, or a connection that breaks, leaves it unknown."""
    controller, now = Controller(), [0.0]
    del controller.versions["DescribeQuorum"]
    sampler = QuorumSampler(lambda: now[0])
    controller.cluster = {"error_code": 31, "cluster_id": ""}
    for answer in (controller.cluster, {"error_code": 0, "cluster_id": "B" * 22}):
        controller.cluster = answer
        sampler.ask(controller, None)  # type: ignore[arg-type]
        controller.is_away = answer["error_code"] == 31
        now[0] += REFUSED_RETRY_S
        sampler.ask(controller, None)  # type: ignore[arg-type]
        controller.is_away = False
        now[0] += REFUSED_RETRY_S
    assert sampler.cluster_id == "B" * 22
    assert controller.asked == ["DescribeCluster"] * 3


def test_the_newest_snapshot_is_asked_for_by_its_name_and_dated_by_its_header() -> None:
    """It is read once; a leader of another epoch, or one without a snapshot, leaves what is known."""
    controller, now = Controller(), [0.0]
    del controller.versions["DescribeQuorum"]
    sampler = QuorumSampler(lambda: now[0], "A" * 22)

    def ask(epoch: int, after_s: float) -> list[str]:
        now[0] += after_s
        controller.asked.clear()
        sampler.ask(controller, EpochLeader(3001, epoch))  # type: ignore[arg-type]
        return list(controller.asked)

    assert (ask(3, 0), sampler.snapshot) == (["Fetch"], None)
    assert (ask(4, INTERVAL_S), sampler.snapshot) == (["Fetch", "FetchSnapshot"], (30, 30))
    assert ask(4, SNAPSHOT_INTERVAL_S - 1) == []
    assert (ask(4, 1), sampler.snapshot) == (["Fetch"], (30, 30))
    controller.newest = EpochEnd(5_000, 4)  # its first part does not end with it
    assert ask(4, SNAPSHOT_INTERVAL_S) == ["Fetch", "FetchSnapshot"]
    assert sampler.snapshot == (5_000, 5_000)
    controller.newest = None
    assert (ask(4, SNAPSHOT_INTERVAL_S), sampler.snapshot) == (["Fetch"], (5_000, 5_000))
    # A failure closes the connection, so it is not asked for again soon.
    controller.is_away = True
    assert ask(4, SNAPSHOT_INTERVAL_S) == ["Fetch"]
    assert ask(4, SNAPSHOT_INTERVAL_S - 1) == []
