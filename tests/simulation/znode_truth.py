"""ZooKeeper's truth about controllers, registrations and leaders, by zxid, by which `kcm elect` is judged.

The rule: it follows only the ensemble's history. An unreadable payload changes nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from controller_model.kafka.ids import TopicPartition
from tests.simulation.oracle import was_so
from tests.simulation.zookeeper import Ensemble, Op_

_IDS, _TOPICS, _DELETING = "/brokers/ids/", "/brokers/topics/", "/admin/delete_topics/"


class ZnodeTruth:
    """Facts by zxid, of the current history."""

    def __init__(self, zk: Ensemble) -> None:
        self._zk = zk
        self._begin()

    def _begin(self) -> None:
        self.era = self._zk.era
        self._applied = 0
        self._facts: dict[Any, Any] = {}
        self._past: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
        self._leaders: dict[TopicPartition, int] = {}
        self._preferred: dict[TopicPartition, int] = {}
        self._live: dict[int, str] = {}
        self._deleting: set[str] = set()
        self._controller, self._epoch = -1, -1
        if self.era:  # what a backup restored is not a transaction
            for path, znode in self._zk.tree.nodes.items():
                self._apply(path, znode.data, znode.czxid)
            self._applied = len(self._zk.history)
        self._note(0)

    def catch_up(self) -> None:
        """Take in what has happened since the last call."""
        if self.era != self._zk.era:
            self._begin()
        for transaction in self._zk.history[self._applied :]:
            for step in transaction.steps:
                self._step(step)
            self._note(transaction.zxid)
        self._applied = len(self._zk.history)

    def was(self, fact: Any, is_meant: Callable[[Any], bool], first: int, last: int) -> bool:
        """Return whether `is_meant` held for a fact at some zxid from `first` to `last`."""
        values = [(zxid, is_meant(value)) for zxid, value in self._past[fact]]
        return was_so(values, True, first, last)

    def _note(self, zxid: int) -> None:
        """Record what differs from before."""
        offline = sum(
            leader not in self._live
            for each, leader in self._leaders.items()
            if each.topic not in self._deleting and each in self._preferred
        )
        facts: dict[Any, Any] = {
            "controller": self._controller,
            "epoch": self._epoch,
            "offline": offline,
            **self._live,
            **{each: leader == self._preferred.get(each) for each, leader in self._leaders.items()},
        }
        for name in facts.keys() | self._facts.keys():
            if facts.get(name) != self._facts.get(name) or not self._past[name]:
                self._past[name].append((zxid, facts.get(name)))
        self._facts = facts

    def _step(self, step: Op_) -> None:
        if step.znode is None:
            self._forget(step.path)
        else:
            self._apply(step.path, step.znode.data, step.znode.czxid)

    def _apply(self, path: str, data: bytes, czxid: int) -> None:
        if path.startswith(_IDS):
            self._live[int(path.removeprefix(_IDS))] = str(czxid)
        elif path.startswith(_DELETING):
            self._deleting.add(path.removeprefix(_DELETING))
        else:
            try:
                self._take_payload(path, json.loads(data))
            except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
                return

    def _take_payload(self, path: str, body: Any) -> None:
        match path.split("/")[1:]:
            case ["controller"]:
                self._controller = body["brokerid"]
            case ["controller_epoch"]:
                self._epoch = int(body)
            case ["brokers", "topics", topic]:
                for partition, replicas in body["partitions"].items():
                    self._preferred[TopicPartition(topic, int(partition))] = replicas[0]
            case ["brokers", "topics", topic, "partitions", partition, "state"]:
                self._leaders[TopicPartition(topic, int(partition))] = body["leader"]

    def _forget(self, path: str) -> None:
        match path.split("/")[1:]:
            case ["controller"]:
                self._controller = -1
            case ["brokers", "ids", broker]:
                self._live.pop(int(broker), None)
            case ["admin", "delete_topics", topic]:
                self._deleting.discard(topic)
            case ["brokers", "topics", topic]:
                gone = [each for each in self._preferred if each.topic == topic]
                for each in gone:
                    del self._preferred[each]
            case ["brokers", "topics", topic, "partitions", partition, "state"]:
                self._leaders.pop(TopicPartition(topic, int(partition)), None)
