"""The filters for partitions, compared with the figures that link to them."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.records.view_facts import cluster_facts, partitions_in
from controller_model.records.views import BrokerView, ClusterView, TopicView
from exporter.partitions.conditions import JUDGES, Condition
from tests.support.api_server import Served
from tests.support.histories import Fold, small_cluster
from tests.support.samples import as_of, cluster_view, log_view
from tests.support.sick_cluster import COUNTS, ids

PROD = "/api/v1/clusters/prod"
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
def test_the_min_isr_blocking_filter_agrees_with_its_count(
    brokers: dict[str, str], topic: str | None, blocked: set[int]
) -> None:
    """A broker's own value counts for the partitions that it leads, unless the topic has one."""
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


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Condition.OFFLINE, {1}),
        (Condition.UNDER_REPLICATED, {1, 3, 5}),
        (Condition.UNDER_MIN_ISR, {3, 5}),
        (Condition.AT_MIN_ISR, {0, 2, 6, 7}),
        (Condition.NOT_PREFERRED, {1, 2, 5}),
        (Condition.ELECTABLE, {2}),
        (Condition.REASSIGNING, {0}),
        (Condition.WITHOUT_STATE, {4}),
        (Condition.SINGLE_REPLICA, {6}),
        (Condition.MIN_ISR_BLOCKING, {0, 1, 2, 3, 4, 5, 7}),
        (Condition.ON_GONE_BROKERS, {5, 7}),
        (Condition.ONE_RACK, {7}),
    ],
)
def test_a_filter_finds_exactly_the_partitions_with_its_condition(
    served: Served, condition: Condition, expected: set[int]
) -> None:
    """In a topic with one problem per partition, exactly the partitions with the condition are listed."""
    found = served.json(f"{PROD}/partitions", filter=condition.value, topic="sick")["partitions"]
    assert {each["partition"] for each in found} == expected
    assert all(condition in each["conditions"] for each in found)


def test_a_topic_being_deleted_meets_only_the_condition_deleting(served: Served) -> None:
    """Its partitions meet the condition `deleting` and no other."""
    found = served.json(f"{PROD}/partitions", filter="deleting")["partitions"]
    assert ids(found) == ["gone-0", "gone-1"]
    assert all(each["conditions"] == ["deleting"] for each in found)


def test_several_filters_are_combined_with_and(served: Served) -> None:
    """A partition must meet several filters, a part of the name and a broker."""
    path = f"{PROD}/partitions"
    both = served.json(path, filter=["not-preferred", "under-replicated"])["partitions"]
    assert ids(both) == ["sick-1", "sick-5"]
    assert ids(served.json(path, contains="ic", broker=2)["partitions"]) == ["sick-5", "sick-7"]
    assert served.json(path, topic="unknown")["partitions"] == []


def test_a_condition_that_is_not_known_is_listed_apart(served: Served) -> None:
    """By a min.insync.replicas that is nowhere set, or by znodes that the watcher may not read."""

    def unknown_of(topic: str) -> list[set[str]]:
        found = served.json(f"{PROD}/partitions", topic=topic)["partitions"]
        assert all(set(each["unknown"]).isdisjoint(each["conditions"]) for each in found)
        return [set(each["unknown"]) for each in found]

    by_min_isr = {"under-min-isr", "at-min-isr", "min-isr-blocking"}
    counted: Any = {"counts": COUNTS, "brokers_known": (0, 1, 2), "min_isr_assumed": None}
    served.write(cluster_view(at=as_of(2), **counted))
    assert unknown_of("well") == [by_min_isr, by_min_isr]
    assert unknown_of("sick") == [set()] * 8
    (of_well,) = served.json(f"{PROD}/topics", contains="well")["topics"]
    assert of_well["conditions"] == dict.fromkeys(by_min_isr)
    log = log_view(denied=("/brokers/ids",))
    served.write(cluster_view(at=as_of(3), log=log, **counted))
    by_live_brokers = {"electable", "on-gone-brokers", "one-rack"}
    led, leaderless, *_ = unknown_of("sick")
    assert led == by_live_brokers | {"offline", "under-min-isr", "at-min-isr"}
    assert leaderless == by_live_brokers
