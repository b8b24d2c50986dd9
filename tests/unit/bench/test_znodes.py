"""Clusters made of znodes: the writes, their order, and the leaders afterwards."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError
from kazoo.protocol.states import ZnodeStat

from bench.znodes import Size, Written, ZnodeCluster
from controller_model.kafka.ids import TopicPartition
from pipeline.runtime import EnvironmentProblemError


class _Done:
    """A request that has been answered."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def ready(self) -> bool:
        return True

    def get(self) -> Any:
        return self._value


class _Transaction:
    def __init__(self, znodes: _Znodes) -> None:
        self._znodes = znodes
        self._results: list[Any] = []

    def create(self, path: str, value: bytes, *, ephemeral: bool) -> None:
        known = path in self._znodes.values
        self._results.append(NodeExistsError() if known else path)
        parent = path.rpartition("/")[0]
        assert parent in {"", *self._znodes.values}, f"{path} before {parent}"
        assert parent not in self._znodes.ephemeral
        self._znodes.values[path] = value
        self._znodes.versions[path] = 0
        if ephemeral:
            self._znodes.ephemeral.add(path)

    def commit_async(self) -> _Done:
        return _Done(self._results)


class _Znodes:
    """The calls of a ZooKeeper client, in memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.versions: dict[str, int] = {}
        self.ephemeral: set[str] = set()

    def transaction(self) -> _Transaction:
        return _Transaction(self)

    def set(self, path: str, value: bytes) -> ZnodeStat:
        assert path in self.values
        self.values[path] = value
        self.versions[path] += 1
        version = self.versions[path]
        return ZnodeStat(1, 2, 0, 5_000 + version, version, 0, 0, 0, len(value), 0, 1)

    def set_async(self, path: str, value: bytes) -> _Done:
        return _Done(self.set(path, value))

    def state(self, topic: str, partition: int) -> dict[str, Any]:
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        return cast("dict[str, Any]", json.loads(self.values[path]))


def _made(size: Size, **options: Any) -> tuple[ZnodeCluster, _Znodes]:
    znodes = _Znodes()
    cluster = ZnodeCluster(cast("KazooClient", znodes), size, **options)
    assert cluster.make() == len(znodes.values)
    return cluster, znodes


def test_every_partition_has_a_state_that_fits_its_assignment() -> None:
    """The leader and the ISR are among the replicas; the brokers and the controller are ephemeral."""
    _, znodes = _made(Size(2, 3))
    assignment = json.loads(znodes.values["/brokers/topics/topic-1"])["partitions"]
    assert assignment == {"0": [1, 2, 3], "1": [1, 2, 3], "2": [1, 2, 3]}
    assert znodes.state("topic-1", 2) == {
        "controller_epoch": 1,
        "leader": 1,
        "version": 1,
        "leader_epoch": 0,
        "isr": [1, 2, 3],
    }
    assert znodes.ephemeral == {"/controller", *(f"/brokers/ids/{id_}" for id_ in (1, 2, 3))}


def test_partitions_that_do_not_move_are_on_separate_brokers() -> None:
    """So a broker leads exactly the partitions whose leaders have moved to it."""
    cluster, znodes = _made(Size(1, 4), moves=lambda number: number < 2)
    leaders = [znodes.state("topic-0", partition)["leader"] for partition in range(4)]
    assert leaders == [1, 1, 4, 4]
    assert "/brokers/ids/4" in znodes.ephemeral
    assert cluster.leader(3) == 4


def test_a_leader_moves_along_the_replicas() -> None:
    """Each move has a new leader epoch; after three moves the leader is the first one again."""
    cluster, znodes = _made(Size(1, 1))
    assert cluster.move(0) == Written(5.001, 1)
    assert znodes.state("topic-0", 0)["leader"] == cluster.leader(0) == 2
    assert cluster.move(0) == Written(5.002, 2)
    cluster.move(0)
    state = znodes.state("topic-0", 0)
    assert (state["leader"], state["leader_epoch"]) == (1, 3)


def test_leaders_moved_together_are_reported_by_partition() -> None:
    """Each has the time and the version of its own reply; the others do not move."""
    cluster, znodes = _made(Size(2, 2))
    written = cluster.move_all([3, 0], rate_per_s=1_000)
    assert written == {
        TopicPartition("topic-1", 1): Written(5.001, 1),
        TopicPartition("topic-0", 0): Written(5.001, 1),
    }
    assert [znodes.state(*cluster.id_of(number))["leader"] for number in range(4)] == [2, 1, 1, 2]


def test_an_existing_cluster_is_an_error() -> None:
    """A transaction's failure is one of its results and must not be taken for success."""
    znodes = _Znodes()
    ZnodeCluster(cast("KazooClient", znodes), Size(1, 1)).make()
    with pytest.raises(EnvironmentProblemError, match="NodeExists"):
        ZnodeCluster(cast("KazooClient", znodes), Size(1, 1)).make()
