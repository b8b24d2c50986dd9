"""Whether a real cluster is quiet, as its ZooKeeper shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from controller_model.kafka.ids import NO_LEADER, TopicPartition
from kcm.servers.kafka import ZooKeeperModeBroker

state_path = "/brokers/topics/{}/partitions/{}/state".format


class ClusterAtRest:
    """What a cluster has to do yet, by what ZooKeeper holds and which brokers run."""

    _zk: KazooClient
    _brokers: dict[int, ZooKeeperModeBroker]
    _lost: dict[int, set[TopicPartition]]
    _rebalances: bool

    def _unrest(self, *, frozen: int | None = None) -> str | None:
        """Return what is still under way, while this broker is frozen; None when the cluster rests."""
        live = {int(broker) for broker in self._zk.get_children("/brokers/ids")}
        running = {id_ for id_, server in self._brokers.items() if server.running} - {frozen}
        if live != running:
            return f"{sorted(running)} run, {sorted(live)} are registered"
        if live and self._zk.exists("/controller") is None:
            return "no controller"
        for topic in self._zk.get_children("/brokers/topics"):
            problem = next(self._unrest_of(topic, live), None)
            if problem is not None:
                return problem
        if self._rebalances and (left := self._imbalanced()):
            return f"{left} are to be rebalanced"
        path = "/admin/preferred_replica_election"
        return None if self._zk.exists(path) is None else f"{path} is there"

    def _unrest_of(self, topic: str, live: set[int]) -> Iterator[str]:
        """Yield what is still under way in a topic."""
        content = self._json(f"/brokers/topics/{topic}")
        deleting = self._zk.exists(f"/admin/delete_topics/{topic}") is not None
        halted = False
        for number, replicas in content["partitions"].items():
            partition = TopicPartition(topic, int(number))
            here = {b for b in live if partition not in self._lost.get(b, ())}
            halted = halted or not set(replicas) <= here
            if not deleting:
                adding = content.get("adding_replicas", {}).get(number, [])
                removing = content.get("removing_replicas", {}).get(number, [])
                target = set(replicas) - set(removing) if adding or removing else None
                yield from self._unrest_of_partition(partition, set(replicas), here, target)
        if deleting and not halted:  # deletion rests while a replica is dead
            yield f"{topic} is being deleted"

    def _unrest_of_partition(
        self, partition: TopicPartition, replicas: set[int], live: set[int], target: set[int] | None
    ) -> Iterator[str]:
        """Yield what is under way in a partition whose reassignment, if any, has this target."""
        name = f"{partition.topic}-{partition.partition}"
        try:
            state = self._json(state_path(*partition))
        except NoNodeError:
            if replicas & live:
                yield f"{name} has no state"
            return
        leader, isr = state["leader"], set(state["isr"])
        if leader == NO_LEADER:
            if isr & live:
                yield f"{name}: {sorted(isr & live)} could lead"
        elif leader not in live:
            yield f"{name}: {leader} is dead"
        elif not isr >= replicas & live:
            yield f"{name}: ISR {sorted(isr)} of {sorted(replicas)}"
        elif target is not None and target <= live:
            yield f"{name} is being reassigned"

    def _json(self, path: str) -> Any:
        return json.loads(self._zk.get(path)[0])

    def _imbalanced(self) -> list[str]:
        live = {int(broker) for broker in self._zk.get_children("/brokers/ids")}
        found = []
        deleting = self._zk.get_children("/admin/delete_topics")
        for topic in set(self._zk.get_children("/brokers/topics")) - set(deleting):
            for partition, replicas in self._json(f"/brokers/topics/{topic}")["partitions"].items():
                state = self._json(state_path(topic, partition))
                if (
                    state["leader"] != replicas[0]
                    and replicas[0] in live
                    and replicas[0] in state["isr"]
                ):
                    found.append(f"{topic}-{partition}")
        return found
