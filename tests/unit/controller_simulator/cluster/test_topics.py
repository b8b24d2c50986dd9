"""Topics that are created, extended and deleted."""

from __future__ import annotations

from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_simulator.cluster.operations import (
    DeleteController,
    DeleteTopic,
    ElectPreferred,
    KillBroker,
)
from controller_simulator.zookeeper.payload_writers import encode_topic
from controller_simulator.zookeeper.transactions import CreateZnode, DeleteZnode, SetZnode
from tests.support.scripted_operations import CreateTopic
from tests.support.simulated_cluster import TOPIC, cluster_of, state


def test_deletion_can_be_forbidden() -> None:
    """Requests are refused; those that are written by hand are deleted, by a new controller too."""
    cluster = cluster_of(TOPIC, delete_topic=False)
    assert cluster.perform(DeleteTopic("t")) == "TOPIC_DELETION_DISABLED"
    for operation in (ElectPreferred(), DeleteController()):
        cluster.tree.write(CreateZnode("/admin/delete_topics/t"))
        cluster.perform(operation)
        assert cluster.tree.find("/admin/delete_topics/t") is None
        assert cluster.tree.find("/brokers/topics/t") is not None


def test_partitions_added_to_a_topic_under_deletion_are_removed_again() -> None:
    """The controller writes the assignment again, with only those partitions that have a container."""
    cluster = cluster_of(TOPIC, KillBroker(2), DeleteTopic("t"))
    before = cluster.tree.data("/brokers/topics/t")
    assignments = dict(enumerate(map(ReplicaAssignment, ((0, 1), (1, 2), (0, 1)))))
    more = encode_topic(assignments, topic_id="000000000000000000001A")
    cluster.tree.write(SetZnode("/brokers/topics/t", more.decode()))
    cluster.run_until_quiet()
    assert cluster.tree.data("/brokers/topics/t") == before
    assert cluster.tree.at("/brokers/topics/t").version == 2


def test_a_topic_that_vanishes_comes_back_with_the_next_controller_only() -> None:
    """After its znodes are deleted by hand, the controller keeps its partitions' states, as Kafka does.

    So a new topic of that name gets no leaders before another controller has read it.
    """
    cluster = cluster_of(CreateTopic("t", ((1,),)))
    for path in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
        cluster.tree.write(DeleteZnode(f"/brokers/topics/t{path}"))
    cluster.run_until_quiet()
    assert cluster.perform(CreateTopic("t", ((2,),))) is None
    assert cluster.tree.find("/brokers/topics/t/partitions") is None
    cluster.perform(DeleteController())
    assert state(cluster) == (2, [2], 0, 0)
