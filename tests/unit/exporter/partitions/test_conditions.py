"""The filters for partitions, against the figures that lead to them."""

from __future__ import annotations

import pytest

from controller_model.insights.cluster_facts import cluster_facts, partitions_in
from controller_model.records.views import BrokerView, ClusterView, TopicView
from exporter.partitions.conditions import JUDGES, Condition
from tests.support.histories import Fold, small_cluster

BROKERS = {"0": "3", "<default>": "2"}


@pytest.mark.parametrize(
    ("brokers", "topic", "blocked"),
    [
        ({}, None, set()),
        ({"<default>": "2"}, None, {1, 3}),
        ({"0": "3"}, None, {0}),
        ({"1": "2"}, None, {1}),
        (BROKERS, None, {0, 1, 3}),
        ({"0": "1", "<default>": "3"}, None, {1, 3, 4}),
        (BROKERS, "3", {0, 1, 3, 4}),
        (BROKERS, "1", set()),
    ],
)
def test_the_filter_and_the_figure_of_blocking_min_isr_agree(
    brokers: dict[str, str], topic: str | None, blocked: set[int]
) -> None:
    """Brokers with values of their own decide where they lead, unless the topic does."""
    replicas = {0: (0, 1, 2), 1: (1, 2), 2: (0,), 3: (2, 0), 4: (0, 1, 2)}
    history = small_cluster(t=replicas)
    history.state("t", 3, leader=-1, isr=(2,), leader_epoch=1)
    history.delete("/brokers/topics/t/partitions/4/state")
    for broker, least in brokers.items():
        config = {"min.insync.replicas": least}
        history.set(f"/config/brokers/{broker}", {"version": 1, "config": config})
    if topic is not None:
        config = {"min.insync.replicas": topic}
        history.set("/config/topics/t", {"version": 1, "config": config})
    fold = Fold()
    fold.follow(history)
    views = list(fold.views().values())
    (cluster,) = (view for view in views if isinstance(view, ClusterView))
    (chunk,) = (view for view in views if isinstance(view, TopicView))
    facts = cluster_facts(cluster, (view for view in views if isinstance(view, BrokerView)))
    found = {
        each.partition
        for each in partitions_in(chunk)
        if JUDGES[Condition.MIN_ISR_BLOCKING](each, facts)
    }
    assert found == blocked
    assert cluster.counts.min_isr_blocks == len(blocked)
