"""Configurations of topics and brokers, and what is held of the cluster as a whole."""

from typing import TypeVar

import msgspec

from controller_model.facts.facts import (
    BrokerConfigIs,
    BrokerIdsAre,
    ClusterIdIs,
    MigrationIs,
    TopicConfigIs,
)
from controller_model.records.events import AnyEvent
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import count_anomaly

_ValueT = TypeVar("_ValueT")


def apply_broker_config(state: ClusterState, fact: BrokerConfigIs) -> list[AnyEvent]:
    """Apply the configuration of a broker, or of all of them."""
    config = state.control.config
    _put(config.broker_min_isr, fact.broker, fact.min_isr)
    _put(config.broker_unclean, fact.broker, fact.unclean)
    return []


def apply_topic_config(state: ClusterState, fact: TopicConfigIs) -> list[AnyEvent]:
    """Apply a topic's configuration; it may be known before the topic."""
    topic = state.topic(fact.topic)
    state.put_topic(
        msgspec.structs.replace(
            topic,
            min_isr=fact.min_isr,
            unclean=fact.unclean,
            unreadable=tuple(part for part in topic.unreadable if part != fact.stamp.place),
            config_origin=fact.origin,
        )
    )
    return []


def apply_cluster_id(state: ClusterState, fact: ClusterIdIs) -> list[AnyEvent]:
    """Apply the cluster id; another one under the same name is an anomaly."""
    config, stamp = state.control.config, fact.stamp
    old, config.cluster_id = config.cluster_id, fact.cluster_id
    if old in {None, fact.cluster_id}:
        return []
    reason = (
        f"the cluster id changed from {old} to {fact.cluster_id}: "
        "another cluster under the same name"
    )
    return [count_anomaly(state, at=stamp.at, path=stamp.place, reason=reason)]


def apply_broker_ids(state: ClusterState, fact: BrokerIdsAre) -> list[AnyEvent]:
    """Apply how many broker ids Kafka has generated."""
    state.control.config.generated_broker_ids = fact.generated
    return []


def apply_migration(state: ClusterState, fact: MigrationIs) -> list[AnyEvent]:
    """Apply how far a migration to KRaft has come."""
    state.control.config.migration = fact.migration
    return []


def _put(table: dict[str, _ValueT], key: str, value: _ValueT | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
