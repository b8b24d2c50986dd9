"""A simulated cluster as a watcher and its fold see it, and random operations for it.

The rule: the writes are those of the simulated controller, complete and in order. The reports are
what a watcher reads after each transaction.
"""

from __future__ import annotations

import random

from controller_model.fold.projection import SentViews
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.ids import TopicPartition
from controller_model.records.events import ControllerZombie
from controller_model.records.view_facts import cluster_facts, partitions_in
from controller_model.records.views import BrokerView, TopicView
from controller_model.sources.zookeeper.znode_kinds import is_published
from controller_simulator.cluster.operations import (
    DeleteController,
    DeleteTopic,
    ElectPreferred,
    ElectUnclean,
    KillBroker,
    Reassign,
    StartBroker,
    StopBroker,
)
from controller_simulator.cluster.settings import SimulatorSettings
from controller_simulator.zookeeper.transactions import Committed, Created, Removed
from tests.support.histories import Fold, History
from tests.support.scripted_operations import (
    AlterTopicConfig,
    BounceBroker,
    CreatePartitions,
    CreateTopic,
    ElectPreferredByZnode,
    FailLogDir,
    ReassignByZnode,
    ScriptedOperation,
    StallBroker,
)
from tests.support.scripted_simulator import ScriptedSimulator

BROKERS = (0, 1, 2, 3)
TOPICS = ("a", "b", "c")


class Watched:
    """A simulated cluster, the log that a watcher would write of it, and its fold."""

    def __init__(self, simulator: ScriptedSimulator) -> None:
        self.simulator = simulator
        self.history = History()
        self.history.resync()
        self.fold = Fold()
        self.reported = 0
        self.deaf_to = ""
        """Writes below this path are left out, as by a controller that hangs."""

    def report(self, *, beats: int = 0) -> None:
        """Write what is new into the log, with heartbeats after each transaction."""
        commits = self.simulator.commits[self.reported :]
        self.reported = len(self.simulator.commits)
        for commit in commits:
            writes = [write for write in commit.writes if is_published(write.path)]
            with self.history.transaction():
                made = [write.path for write in writes if self._make(write)]
            for path in dict.fromkeys(made):  # a watcher reads the result of a transaction once
                self.history.report(path)
            for _ in range(beats):
                self.history.heartbeat()

    def _make(self, write: Committed) -> bool:
        """Perform a write, unless the controller hangs; return whether it was performed."""
        if self.deaf_to and write.path.startswith(self.deaf_to):
            return False
        if isinstance(write, Removed):
            self.history.delete(write.path, seen=False)
        else:
            owner = write.owner if isinstance(write, Created) else 0
            self.history.set(write.path, write.data, ephemeral_owner=owner, seen=False)
        return True

    def beat(self, count: int) -> list[ControllerZombie]:
        """Let heartbeats pass; return the reported zombies."""
        for _ in range(count):
            self.history.heartbeat()
        reported = self.fold.follow(self.history)
        return [event for event in reported if isinstance(event, ControllerZombie)]


def facts(fold: Fold) -> tuple[list[PartitionFacts], ClusterFacts]:
    """Return the partitions and brokers of a cluster, as a new reader of its views sees them."""
    fold.sent = SentViews()
    fold.state.changed.update(dict.fromkeys(fold.state.topics.names()))
    view = fold.cluster_view()
    fold.state.changed.update(dict.fromkeys(fold.state.topics.names()))
    fold.sent = SentViews()
    views = list(fold.views().values())
    partitions = [p for v in views if isinstance(v, TopicView) for p in partitions_in(v)]
    return partitions, cluster_facts(view, (v for v in views if isinstance(v, BrokerView)))


def operation(draws: random.Random) -> ScriptedOperation:
    """Return any operation or failure."""
    broker, topic = draws.choice(BROKERS), draws.choice(TOPICS)
    some = TopicPartition(topic, draws.randint(0, 2))
    assignment = tuple(
        tuple(draws.sample(BROKERS, draws.randint(1, 3))) for _ in range(draws.randint(1, 3))
    )
    operations: list[ScriptedOperation] = [
            StartBroker(broker), StartBroker(broker), StartBroker(broker), StopBroker(broker),
            KillBroker(broker), BounceBroker(broker), StallBroker(broker, TOPICS),
            CreateTopic(topic, assignment), CreateTopic(topic, assignment),
            CreatePartitions(topic, assignment), DeleteTopic(topic),
            AlterTopicConfig(topic, {"unclean.leader.election.enable": "true"}),
            Reassign(((some, tuple(draws.sample(BROKERS, 2))),)),
            Reassign(((some, None),)), ElectPreferred(), ElectPreferredByZnode((some,)),
            ReassignByZnode(((some, tuple(draws.sample(BROKERS, 2))),)),
            ElectUnclean((some,)), DeleteController(), FailLogDir(broker, (some,)),
    ]  # fmt: skip
    return draws.choice(operations)


def cluster(draws: random.Random) -> Watched:
    """Return four running brokers with two topics."""
    watched = Watched(
        ScriptedSimulator(
            settings=SimulatorSettings(
                alter_partition=draws.random() < 0.7,
                auto_leader_rebalance=draws.random() < 0.5,
                delete_topic=draws.random() < 0.8,
            )
        )
    )
    for broker in BROKERS:
        watched.simulator.perform(StartBroker(broker))
    for topic in TOPICS[:2]:
        assignment = tuple(tuple(draws.sample(BROKERS, 3)) for _ in range(3))
        watched.simulator.perform(CreateTopic(topic, assignment))
    watched.report()
    return watched
