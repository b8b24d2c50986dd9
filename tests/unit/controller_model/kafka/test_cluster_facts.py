"""What insights are computed from: partitions and brokers, read from views."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.kafka.cluster_facts import PartitionFacts
from controller_model.records.view_facts import cluster_facts, partitions_in
from controller_model.records.views import BrokerView, ClusterView, TopicView
from tests.support.histories import Fold, small_cluster
from tests.support.partition_facts import ALL, part, up


def test_facts_are_read_from_views() -> None:
    """Brokers, racks, ends, configurations and partitions, as the views hold them."""
    history = small_cluster(t={0: (0, 1, 2), 1: (1, 2), 2: (2, 0)})
    history.broker(3, rack="r1")
    history.broker_gone(2)
    history.topic("t", {0: (0, 1, 2), 1: (1, 2), 2: (2, 0)}, adding={0: (0,)}, removing={1: (2,)})
    history.delete("/brokers/topics/t/partitions/2/state")
    history.state("t", 0, leader=0, isr=(0, 1), leader_epoch=7, controller_epoch=1)
    history.set("/config/brokers/1", {"version": 1, "config": {"min.insync.replicas": "2"}})
    unclean = "unclean.leader.election.enable"
    history.set(
        "/config/topics/t",
        {"version": 1, "config": {"min.insync.replicas": "3", unclean: "true"}},
    )
    history.set("/config/brokers/<default>", {"version": 1, "config": {unclean: "true"}})
    fold = Fold(min_isr=4)
    fold.follow(history)
    views = list(fold.views().values())
    (view,) = (view for view in views if isinstance(view, ClusterView))
    cluster = cluster_facts(view, (view for view in views if isinstance(view, BrokerView)))
    assert cluster.live == {0, 1, 3}
    assert (cluster.controller, cluster.controller_epoch) == (0, 1)
    assert cluster.racks == {0: None, 1: None, 2: None, 3: "r1"}
    assert list(cluster.gone_since) == [2]
    assert cluster.in_rack("r1") == {3}
    assert cluster.in_rack("r2") == frozenset()
    assert (cluster.broker_min_isr, cluster.min_isr_assumed) == ({"1": 2}, 4)
    assert cluster.broker_unclean == {"<default>": True}
    (topic,) = (view for view in views if isinstance(view, TopicView))
    assert list(partitions_in(topic)) == [
        PartitionFacts(
            topic="t", partition=0, replicas=(0, 1, 2), leader=0, isr=(0, 1), leader_epoch=7,
            controller_epoch=1, adding=(0,), min_isr=3, unclean=True,
        ),
        PartitionFacts(
            topic="t", partition=1, replicas=(1, 2), leader=1, isr=(1, 2), controller_epoch=1,
            removing=(2,), min_isr=3, unclean=True,
        ),
        PartitionFacts(topic="t", partition=2, replicas=(2, 0), min_isr=3, unclean=True),
    ]  # fmt: skip


def test_min_isr_comes_from_the_topic_then_the_leaders_broker_then_the_default() -> None:
    """Kafka's order of sources, and at most the number of replicas."""
    cluster = up(1, 2, broker_min_isr={"1": 2}, min_isr_assumed=3)
    assert cluster.min_isr_of(part(min_isr=1)) == 1
    assert cluster.min_isr_of(part()) == 2
    assert cluster.min_isr_of(part(), leader=2) == 3
    assert cluster.min_isr_of(part(replicas=(1, 2)), leader=2) == 2
    defaults = up(broker_min_isr={"<default>": 1}, min_isr_assumed=3)
    assert defaults.min_isr_of(part()) == 1


def test_min_isr_blocks_by_the_leaders_own_value() -> None:
    """A broker's own value counts where the broker leads, and only for partitions that Kafka counts."""
    cluster = up(1, 2, broker_min_isr={"1": 3, "<default>": 2})
    assert cluster.min_isr_blocks(part())
    assert not cluster.min_isr_blocks(part(leader=2))
    assert not cluster.min_isr_blocks(part(leader=None))
    assert not cluster.min_isr_blocks(part(deleting=True))
    assert not cluster.min_isr_blocks(part(min_isr=2))
    assert cluster.min_isr_blocks(part(leader=2, replicas=(2, 3)))
    assert cluster.min_isr_blocks(part(leader=-1, replicas=(2, 3)))
    assert not cluster.min_isr_blocks(part(replicas=(1,)))


def test_unclean_comes_from_the_topic_then_the_controllers_broker_then_the_default() -> None:
    """The controller elects: its own configuration counts, not the leader's."""
    assert not ALL.unclean_of(part())
    default = {"<default>": True}
    assert up(1, broker_unclean=default).unclean_of(part())
    assert not up(1, broker_unclean=default).unclean_of(part(unclean=False))
    brokers = {"1": True, "2": False, "<default>": True}
    assert up(1, controller=1, broker_unclean=brokers).unclean_of(part())
    assert not up(1, controller=2, broker_unclean=brokers).unclean_of(part())
    assert up(1, controller=3, broker_unclean=brokers).unclean_of(part())
    assert up(1, controller=2, broker_unclean=brokers).unclean_of(part(unclean=True))


def test_offline_and_under_min_isr_are_kafkas() -> None:
    """Without a state, or in a topic being deleted, a partition counts as neither."""
    cluster = up(1, min_isr_assumed=2)
    assert cluster.is_offline(part(leader=-1))
    assert cluster.is_offline(part(leader=2))
    assert not cluster.is_offline(part())
    assert not cluster.is_offline(part(leader=None))
    assert not cluster.is_offline(part(leader=-1, deleting=True))
    assert cluster.is_under_min_isr(part(isr=(1,)))
    assert not cluster.is_under_min_isr(part(isr=(1, 2)))
    assert not cluster.is_under_min_isr(part(isr=(1,), leader=2))
    assert not cluster.is_under_min_isr(part(isr=(1,), deleting=True))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"leader": 2}, False),
        ({"leader": -1}, False),
        ({"leader": 2, "adding": (1,), "isr": (2, 3)}, True),
        ({"leader": 1, "adding": (1,)}, False),
        ({"replicas": ()}, True),
    ],
)
def test_the_gauge_leaves_out_a_preferred_replica_that_is_still_added(
    fields: dict[str, Any], expected: bool
) -> None:
    """hasPreferredLeader: left out until in the ISR, and then counted even if it leads."""
    assert part(**fields).has_preferred_leader is expected


def test_where_topic_configurations_may_not_be_read_no_min_isr_is_known() -> None:
    """Except that of one replica: there it is 1 at most."""
    cluster = up(1, 2, hidden=frozenset({"topic_configs"}), min_isr_assumed=2)
    assert cluster.min_isr_of(part()) is cluster.min_isr_blocks(part()) is None
    assert cluster.min_isr_of(part(replicas=(1,))) == 1
