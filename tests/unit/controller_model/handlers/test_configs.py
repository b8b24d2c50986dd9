"""Configurations of topics and brokers count as Kafka reads them, or not at all."""

from __future__ import annotations

import pytest

from controller_model.records.events import (
    Anomaly,
)
from controller_simulator.zookeeper.payload_writers import (
    encode_config,
)
from tests.support.histories import (
    begun,
    only,
)


def test_min_isr_comes_from_topic_broker_default_or_the_assumed_setting() -> None:
    """Kafka's order of sources, bounded by the number of replicas."""
    history, fold = begun(t={0: (0, 1, 2)})
    history.state("t", 0, leader=0, isr=[0])
    fold.follow(history)
    assert (fold.counts().under_min_isr, fold.counts().at_min_isr) == (0, 1)

    def figures(path: str, least: int) -> tuple[int | None, int | None]:
        config = {"min.insync.replicas": str(least)}
        history.set(path, {"version": 1, "config": config})
        fold.follow(history)
        return fold.counts().under_min_isr, fold.counts().at_min_isr

    assert figures("/config/brokers/<default>", 2) == (1, 0)
    assert figures("/config/brokers/0", 1) == (0, 1)
    assert figures("/config/topics/t", 9) == (1, 0)
    history.state("t", 0, leader=0, isr=[0, 1, 2])
    fold.follow(history)
    assert (fold.counts().under_min_isr, fold.counts().at_min_isr) == (0, 1)
    history.delete("/config/topics/t")
    fold.follow(history)
    assert fold.counts().at_min_isr == 0


@pytest.mark.parametrize(("text", "value"), [("true", True), (" FALSE ", False)])
def test_unclean_elections_may_be_allowed_by_topic_broker_and_default(
    text: str, value: bool
) -> None:
    """Read as Kafka's ConfigDef reads a boolean; the value ends with the configuration."""
    history, fold = begun()
    paths = ("/config/topics/t", "/config/brokers/1", "/config/brokers/<default>")
    for path in paths:
        history.set(path, encode_config({"unclean.leader.election.enable": text}))
    fold.follow(history)
    topic = fold.state.topics.get("t")
    assert topic is not None
    assert topic.unclean is value
    assert fold.cluster_view().config.broker_unclean == {"1": value, "<default>": value}
    history.set(paths[0], encode_config({"min.insync.replicas": " +2 "}))
    history.set(paths[1], encode_config({}))
    history.delete(paths[2])
    fold.follow(history)
    topic = fold.state.topics.get("t")
    assert topic is not None
    assert (topic.unclean, topic.min_isr) == (None, 2)
    assert fold.cluster_view().config.broker_unclean == {}
    history.delete(paths[0])
    fold.follow(history)
    topic = fold.state.topics.get("t")
    assert topic is not None
    assert (topic.unclean, topic.min_isr) == (None, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("unclean.leader.election.enable", "yes"), ("unclean.leader.election.enable", ""),
        ("min.insync.replicas", "0"), ("min.insync.replicas", "-1"), ("min.insync.replicas", "2.0"),
        ("min.insync.replicas", "2147483648"), ("min.insync.replicas", "9" * 5000),
    ],
)  # fmt: skip
def test_a_value_that_kafka_refuses_keeps_the_last_good_one(key: str, value: str) -> None:
    """Neither of the two settings changes if one of them is unreadable."""
    good = {"unclean.leader.election.enable": "true", "min.insync.replicas": "2147483647"}
    history, fold = begun()
    history.set("/config/topics/t", encode_config(good))
    history.set("/config/topics/t", encode_config({**good, key: value}))
    assert only(fold.follow(history), Anomaly).reason.count(key) == 1
    topic = fold.state.topics.get("t")
    assert topic is not None
    assert (topic.unclean, topic.min_isr) == (True, 2**31 - 1)


@pytest.mark.parametrize(
    ("key", "ends"),
    [
        ("min.insync.replicas", "not a number above 0"),
        ("unclean.leader.election.enable", "not true or false"),
    ],
)
def test_a_refused_setting_is_reported_with_its_beginning(key: str, ends: str) -> None:
    """Forty characters of it, in one line: a configuration may hold anything."""
    history, fold = begun()
    history.set("/config/topics/t", encode_config({key: "x" * 41}))
    assert only(fold.follow(history), Anomaly).reason == (
        f"unreadable, the last good value stays: {key} is '{'x' * 40}', {ends}"
    )
