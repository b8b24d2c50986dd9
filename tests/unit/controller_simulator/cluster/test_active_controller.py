"""What a term as controller continues from the one before, and how it ends."""

from __future__ import annotations

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.operations import (
    DeleteController,
    ElectPreferred,
    KillBroker,
    Reassign,
    StartBroker,
    StopBroker,
)
from controller_simulator.controller.phases import FAILOVER_STEPS, ElectionStep
from controller_simulator.zookeeper.transactions import (
    Commit,
    CreateZnode,
    SetZnode,
    ZnodeWrite,
    ZooKeeperCode,
)
from controller_simulator.zookeeper.tree import ZnodeTree
from tests.support.scripted_operations import CreateTopic, ElectPreferredByZnode, ReassignByZnode
from tests.support.scripted_simulator import ScriptedSimulator
from tests.support.simulated_cluster import T0, T1, TOPIC, cluster_of, state


def test_a_new_controller_runs_a_pending_preferred_election() -> None:
    """A new controller does what a legacy tool requested from the old one, and deletes the request."""
    cluster = cluster_of(CreateTopic("t", ((1, 2), (2, 1))), StopBroker(1), StartBroker(1))
    for broker in cluster.brokers.values():
        broker.stalled = True
    cluster.perform(ElectPreferredByZnode((T0, T1, TopicPartition("x", 0))))
    assert cluster.tree.find("/admin/preferred_replica_election") is not None
    for broker in cluster.brokers.values():
        broker.stalled = False
    cluster.perform(KillBroker(0))
    assert cluster.tree.find("/admin/preferred_replica_election") is None
    assert state(cluster)[0] == 1


def test_a_controller_with_an_outdated_epoch_writes_nothing() -> None:
    """The epoch was raised by hand: its next write is refused, and it reads /controller again."""
    cluster = cluster_of(TOPIC)
    cluster.tree.write(SetZnode("/controller_epoch", "9"))
    before = len(cluster.commits)
    assert cluster.perform(Reassign(((T0, (2, 1)),))) == "REQUEST_TIMED_OUT"
    assert len(cluster.commits) == before
    assert cluster.controller is not None
    assert cluster.brokers[0].life.is_active


class FencingTree(ZnodeTree):
    """An ensemble in which another client raises the epoch during the first failover."""

    def attempt(self, write: ZnodeWrite, *, session: int = 0) -> Commit | ZooKeeperCode:
        """Raise the epoch when /feature is created, the first write of a failover."""
        answer = super().attempt(write, session=session)
        if isinstance(write, CreateZnode) and write.path == "/feature":
            self.write(SetZnode("/controller_epoch", "9"))
        return answer


def test_a_newer_epoch_stops_a_failover() -> None:
    """The next fenced write is refused; the broker still holds /controller, and its failover is half done."""
    cluster = ScriptedSimulator(tree=FencingTree())
    cluster.perform(StartBroker(0))
    life = cluster.brokers[0].life
    assert life.is_active
    assert FAILOVER_STEPS[life.steps_done] is ElectionStep.RESUME_PREFERRED_ELECTION
    assert cluster.tree.data("/controller_epoch") == "9"


def test_a_failover_that_is_aborted_leaves_no_controller() -> None:
    """Each broker in turn gets an error that Kafka does not handle, and gives up /controller."""
    cluster = cluster_of(
        CreateTopic("t", ((7,),)), ReassignByZnode(((T0, (8, 7)),)), ElectPreferred()
    )
    before = int(cluster.tree.data("/controller_epoch"))
    cluster.perform(DeleteController())
    assert cluster.controller is None
    assert cluster.tree.find("/controller") is None
    assert int(cluster.tree.data("/controller_epoch")) == before + 6
