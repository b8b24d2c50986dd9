"""A random run for a simulated cluster: operations and races drawn with given dice.

The rule: nothing here is random by itself. The same dice give the same run:
`random.Random(seed).choice`, Hypothesis, or a list of answers. Most operations fit the current
state of the cluster; some do not, since operators make mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.operations import (
    DeleteController,
    DeleteTopic,
    ElectPreferred,
    ElectUnclean,
    KillBroker,
    Reassign,
    Replicas,
    StartBroker,
    StopBroker,
)
from controller_simulator.cluster.settings import Choices
from tests.support.scripted_operations import (
    AlterTopicConfig,
    BounceBroker,
    CreatePartitions,
    CreateTopic,
    ElectPreferredByZnode,
    ExpireSession,
    FailLogDir,
    ReassignByZnode,
    ScriptedOperation,
    StallBroker,
)
from tests.support.scripted_simulator import ScriptedSimulator

Dice = Callable[[Sequence[Any]], Any]
"""Returns one of its arguments' items; there is at least one."""

UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"
FACTORS = (1, 2, 3)
"""Replication factors, and numbers of partitions: with small ones more happens."""


class RandomChoices(Choices):
    """The dice decide races."""

    def __init__(self, dice: Dice) -> None:
        """Take the dice."""
        super().__init__()
        self._dice = dice

    def first(self, candidates: tuple[int, ...]) -> int:
        """Return any of them."""
        winner: int = self._dice(candidates)
        return winner

    def joins(
        self, partition: TopicPartition, isr: tuple[int, ...], candidates: tuple[int, ...]
    ) -> int:
        """Return any of them."""
        del partition, isr
        return self.first(candidates)


class RandomOperations:
    """Draws operations for clusters of these brokers and topics."""

    def __init__(
        self,
        dice: Dice,
        *,
        brokers: Sequence[int] = (0, 1, 2, 3),
        topics: Sequence[str] = ("a", "b", "c"),
    ) -> None:
        """Take the dice; there must be at least three brokers."""
        self._dice = dice
        self._brokers = tuple(brokers)
        self._topics = tuple(topics)
        self._kinds: dict[Callable[[ScriptedSimulator], ScriptedOperation], int] = {
            self._start: 3,
            self._end: 2,
            self._stall: 1,
            self._expire: 1,
            self._create: 2,
            self._grow: 1,
            self._delete: 1,
            self._alter: 1,
            self._reassign: 2,
            self._elect: 2,
            self._ask_by_znode: 1,
            self._fail_log_dir: 1,
            lambda _: DeleteController(): 1,
        }

    def draw(self, cluster: ScriptedSimulator) -> ScriptedOperation:
        """Return the next operation."""
        bag = [kind for kind, often in self._kinds.items() for _ in range(often)]
        kind: Callable[[ScriptedSimulator], ScriptedOperation] = self._dice(bag)
        return kind(cluster)

    def _start(self, cluster: ScriptedSimulator) -> ScriptedOperation:
        down = [broker for broker in self._brokers if broker not in cluster.live]
        return StartBroker(self._dice(down or self._brokers))

    def _live(self, cluster: ScriptedSimulator) -> int:
        broker: int = self._dice(cluster.live or self._brokers)
        return broker

    def _end(self, cluster: ScriptedSimulator) -> ScriptedOperation:
        kind = self._dice([StopBroker, KillBroker, BounceBroker])
        operation: ScriptedOperation = kind(self._live(cluster))
        return operation

    def _stall(self, cluster: ScriptedSimulator) -> ScriptedOperation:
        return StallBroker(self._live(cluster), self._topics)

    def _expire(self, cluster: ScriptedSimulator) -> ScriptedOperation:
        return ExpireSession(self._dice([None, *cluster.live]))

    def _replicas(self, factor: int) -> Replicas:
        left = list(self._brokers)
        chosen: list[int] = []
        for _ in range(factor):
            chosen.append(self._dice(left))
            left.remove(chosen[-1])
        return tuple(chosen)

    def _create(self, _cluster: ScriptedSimulator) -> ScriptedOperation:
        factor = self._dice(FACTORS)
        assignment = tuple(self._replicas(factor) for _ in range(self._dice(FACTORS)))
        config = self._dice([{}, {"min.insync.replicas": "2"}, {UNCLEAN_LEADER_ELECTION: "true"}])
        return CreateTopic(self._dice(self._topics), assignment, config)

    def _grow(self, _cluster: ScriptedSimulator) -> ScriptedOperation:
        return CreatePartitions(self._dice(self._topics), (self._replicas(self._dice(FACTORS)),))

    def _delete(self, _cluster: ScriptedSimulator) -> ScriptedOperation:
        return DeleteTopic(self._dice(self._topics))

    def _alter(self, _cluster: ScriptedSimulator) -> ScriptedOperation:
        unclean = self._dice(["true", "false"])
        return AlterTopicConfig(self._dice(self._topics), {UNCLEAN_LEADER_ELECTION: unclean})

    def _partition(self, cluster: ScriptedSimulator) -> TopicPartition:
        there = partitions_of(cluster) or [TopicPartition(self._topics[0], 0)]
        partition: TopicPartition = self._dice(there)
        return partition

    def _reassign(self, cluster: ScriptedSimulator) -> ScriptedOperation:
        target = self._dice([None, self._replicas(self._dice(FACTORS))])
        return Reassign(((self._partition(cluster), target),))

    def _elect(self, cluster: ScriptedSimulator) -> ScriptedOperation:
        kind = self._dice([ElectPreferred, ElectUnclean])
        operation: ScriptedOperation = kind(self._dice([(), (self._partition(cluster),)]))
        return operation

    def _ask_by_znode(self, cluster: ScriptedSimulator) -> ScriptedOperation:
        partition = self._partition(cluster)
        if self._dice([True, False]):
            return ElectPreferredByZnode((partition,))
        return ReassignByZnode(((partition, self._replicas(self._dice(FACTORS))),))

    def _fail_log_dir(self, cluster: ScriptedSimulator) -> ScriptedOperation:
        return FailLogDir(self._live(cluster), (self._partition(cluster),))


def partitions_of(cluster: ScriptedSimulator) -> list[TopicPartition]:
    """Return the partitions that have a container in ZooKeeper."""
    return [
        TopicPartition(topic, int(name))
        for topic in cluster.tree.children("/brokers/topics")
        for name in cluster.tree.children(f"/brokers/topics/{topic}/partitions")
    ]
