"""A simulated cluster as a watcher and its fold see it, and random operations for it.

The rule: the writes are those of the simulated controller, complete and in order. The reports are
what a watcher reads after each transaction.
"""

from __future__ import annotations

import random

from controller_model.fold.projection import SentViews
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.records.events import ControllerZombie
from controller_model.records.view_facts import cluster_facts, partitions_in
from controller_model.records.views import BrokerView, TopicView
from controller_model.sources.zookeeper.znode_kinds import is_published
from controller_simulator.cluster.operations import (
    StartBroker,
)
from controller_simulator.cluster.settings import SimulatorSettings
from controller_simulator.zookeeper.transactions import Committed, Created, Removed
from tests.support.histories import Fold, History
from tests.support.random_operations import RandomOperations
from tests.support.scripted_operations import (
    CreateTopic,
    ScriptedOperation,
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


def operation(draws: random.Random, watched: Watched) -> ScriptedOperation:
    """Return any operation or failure."""
    return RandomOperations(draws.choice, brokers=BROKERS, topics=TOPICS).draw(watched.simulator)


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
