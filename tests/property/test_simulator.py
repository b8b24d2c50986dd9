"""Properties of simulated clusters, and of a fold that follows one over a lossy connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controller_model.records.changes import ChangeKind, ZnodeChange
from controller_simulator.cluster.settings import SimulatorSettings
from controller_simulator.zookeeper.tree import ZnodeTree
from tests.support.histories import Fold, replaced
from tests.support.random_operations import (
    RandomChoices,
    RandomOperations,
    partitions_of,
)
from tests.support.scripted_simulator import ScriptedSimulator
from tests.support.znode_log import ZnodeLog

SETTINGS = st.builds(
    SimulatorSettings,
    alter_partition=st.booleans(),
    auto_leader_rebalance=st.booleans(),
    unclean_leader_election=st.booleans(),
    delete_topic=st.sampled_from([True, True, True, False]),
)


def brute_force(tree: ZnodeTree) -> dict[str, int]:
    """Return the figures, counted from the raw JSON that ZooKeeper holds."""
    live = {int(broker) for broker in tree.children("/brokers/ids")}
    deleting = set(tree.children("/admin/delete_topics"))
    figures = dict.fromkeys(("partitions", "offline", "under_replicated", "reassigning"), 0)
    for topic in tree.children("/brokers/topics"):
        content = json.loads(tree.data(f"/brokers/topics/{topic}"))
        for partition, replicas in content["partitions"].items():
            figures["partitions"] += 1
            adding = content["adding_replicas"].get(partition, [])
            removing = content["removing_replicas"].get(partition, [])
            figures["reassigning"] += bool(adding or removing)
            state = tree.find(f"/brokers/topics/{topic}/partitions/{partition}/state")
            if state is None or topic in deleting:
                continue
            written = json.loads(state.data)
            figures["offline"] += written["leader"] not in live
            figures["under_replicated"] += len(replicas) - len(adding) > len(written["isr"])
    return figures


class FollowedCluster(RuleBasedStateMachine):
    """A simulated cluster with two folds: one gets every change, one those of a lossy connection."""

    @initialize(settings=SETTINGS, data=st.data())
    def begin(self, settings: SimulatorSettings, data: st.DataObject) -> None:
        """Begin with an empty ensemble and a baseline."""
        chance = RandomChoices(lambda options: data.draw(st.sampled_from(options)))
        self.cluster = ScriptedSimulator(settings=settings, choices=chance)
        self.log = ZnodeLog("prod")
        self.exact, self.lossy = Fold(), Fold()
        baseline = self.log.resync()
        self.exact.feed(baseline)
        self.lossy.feed(baseline)
        self.seen = 0
        self.resyncs = 1  # the baseline
        self.sent = len(baseline)
        self.undelivered: list[ZnodeChange] = []

    @rule(data=st.data())
    def live(self, data: st.DataObject) -> None:
        """Run a random operation; the exact fold gets its changes at once."""

        def dice(options: Sequence[Any]) -> Any:
            return data.draw(st.sampled_from(options))

        self.cluster.choices = RandomChoices(dice)
        operation = RandomOperations(dice).draw(self.cluster)
        hypothesis.note(str(operation))
        self.cluster.perform(operation)
        news = self.log.follow(self.cluster.commits[self.seen :])
        self.seen = len(self.cluster.commits)
        self.exact.feed(news)
        self.undelivered += news

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        """Deliver the remaining changes: merged, late, twice, and some old ones again."""
        kept = self._merged(self.undelivered, data)
        late = self._late(kept, data)
        old = data.draw(st.lists(st.sampled_from(self.log.changes), max_size=3))
        again = [change for change in old if change.kind in {ChangeKind.SET, ChangeKind.DELETED}]
        self.undelivered = []
        batch = [self._numbered(change) for change in [*kept, *late, *again]]
        self.lossy.feed(batch)
        hypothesis.note(f"delivered {len(batch)}")
        before = self.lossy.facts()
        assert self.lossy.feed(batch) == []  # redelivery changes nothing
        assert self.lossy.facts() == before

    @rule()
    def reconnect(self) -> None:
        """Lose everything that was not delivered, with its places in the log; then resync."""
        self.sent += len(self.undelivered)
        self.undelivered = []
        self.resyncs += 1
        again = ZnodeLog("prod")
        again.tree = self.log.tree
        marks = {ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED}
        for change in again.resync():
            number = self.resyncs if change.kind in marks else None
            self.lossy.feed([self._numbered(replaced(change, resync=number))])

    def _merged(self, changes: Sequence[ZnodeChange], data: st.DataObject) -> list[ZnodeChange]:
        """Return changes without some that a later one of the same path has overtaken."""
        last = {change.path: change for change in changes}
        lost = data.draw(st.sets(st.integers(0, max(0, len(changes) - 1))))
        return [
            change
            for place, change in enumerate(changes)
            if change is last[change.path] or place not in lost
        ]

    def _late(self, changes: list[ZnodeChange], data: st.DataObject) -> list[ZnodeChange]:
        """Take out some last values; a read at the end finds them, in any order."""
        last = {change.path: change for change in changes}
        paths = data.draw(st.permutations(sorted(last)))[: data.draw(st.integers(0, 5))]
        late = [replaced(last[path], read_zxid=self.log.tree.zxid) for path in paths]
        for path in paths:
            changes.remove(last[path])
        return late

    def _numbered(self, change: ZnodeChange) -> ZnodeChange:
        self.sent += 1
        return replaced(change, seq=self.sent)

    # --- what always holds ----------------------------------------------------------------

    @invariant()
    def a_lossy_connection_hides_no_facts(self) -> None:
        """Once all is delivered, both folds hold the same, and so does one that only resyncs."""
        if not hasattr(self, "cluster") or self.undelivered:
            return
        assert self.lossy.facts() == self.exact.facts()
        fresh = ZnodeLog("prod")
        fresh.tree = self.log.tree
        resynced = Fold()
        resynced.feed(fresh.resync())
        assert resynced.facts() == self.exact.facts()

    @invariant()
    def totals_equal_brute_force(self) -> None:
        """The exact fold's counts equal a count over ZooKeeper's znodes."""
        if hasattr(self, "cluster"):
            counts = self.exact.counts()
            expected = brute_force(self.cluster.tree)
            assert {name: getattr(counts, name) for name in expected} == expected

    @invariant()
    def every_leader_is_live_and_in_sync(self) -> None:
        """While there is a working controller, no leader is dead or out of the ISR."""
        if not hasattr(self, "cluster") or self.cluster.controller is None:
            return
        for state in _states(self.cluster):
            if state["leader"] >= 0:
                assert state["leader"] in self.cluster.live
                assert state["leader"] in state["isr"]

    @invariant()
    def an_unclean_leader_is_alone(self) -> None:
        """A partition that recovers from an unclean election has its leader only in the ISR."""
        if hasattr(self, "cluster"):
            for state in _states(self.cluster):
                if state.get("leader_recovery_state") == 1:
                    assert len(state["isr"]) == 1


def _states(cluster: ScriptedSimulator) -> Iterable[dict[str, Any]]:
    deleting = cluster.tree.children("/admin/delete_topics")
    for topic, partition in partitions_of(cluster):
        znode = cluster.tree.find(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if znode is not None and topic not in deleting:
            yield json.loads(znode.data)


TestFollowedCluster = FollowedCluster.TestCase
TestFollowedCluster.settings = hypothesis.settings(max_examples=60, stateful_step_count=30)
