"""Each metric has samples with meaning for a KRaft cluster, or none at all: what does not exist there is no 0."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from controller_model.metrics.catalogue import BROKER_METRICS, CATALOGUE, CLUSTER_METRICS
from controller_model.metrics.metric import Metric
from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from controller_model.records.views import BrokerView, ClusterView
from tests.support.kraft_cluster import KraftCluster, KraftFold, Watcher
from tests.support.metric_samples import of_broker, of_cluster
from tests.support.samples import cluster_view

WITHOUT_MEANING = {
    # What the controller must do: in KRaft its decision is the record.
    "kafka_controller_failover",
    "kafka_controller_failover_since_timestamp_seconds",
    "kafka_controller_last_failover_seconds",
    "kafka_controller_pending_leader_writes",
    "kafka_controller_pending_writes",
    "kafka_controller_oldest_pending_write_timestamp_seconds",
    "kafka_controller_pending_writes_since_timestamp_seconds",
    "kafka_controller_health",
    "kafka_cluster_partitions_without_state",
    "kafka_cluster_deleting_topics",
    "kafka_cluster_oldest_deletion_timestamp_seconds",
    # Nobody but the active controller can write.
    "kafka_controller_stale_writes_total",
    "kafka_cluster_foreign_writes",
    # Requests and notifications are znodes.
    "kafka_cluster_preferred_election_pending",
    "kafka_cluster_reassignment_request_pending",
    "kafka_cluster_oldest_request_timestamp_seconds",
    "kafka_cluster_pending_notifications",
    # ZooKeeper's session, znodes and paths; a cluster that is in KRaft does not migrate to it.
    "kafka_controller_migrating_to_kraft",
    "kcm_cluster_watcher_connected",
    "kcm_cluster_watcher_session_since_timestamp_seconds",
    "kcm_cluster_last_change_mtime_timestamp_seconds",
    "kcm_cluster_znodes",
    "kcm_cluster_denied_paths",
    "kcm_cluster_stale_changes_total",
    "kcm_cluster_missed_updates_total",
    # KRaft ignores leader.imbalance.per.broker.percentage.
    "kafka_cluster_imbalance_threshold_ratio",
}
"""Issue 38, item 3, and "no meaning in KRaft" of the figures in the design of KRaft's source."""

ONLY_AT_TIMES = {
    "kafka_controller_vacant_since_timestamp_seconds",
    "kafka_cluster_oldest_reassignment_timestamp_seconds",
    "kafka_cluster_incident_closed_timestamp_seconds",
    "kafka_cluster_incident_last_timestamp_seconds",
    "kafka_cluster_incident_last_duration_seconds",
    "kafka_cluster_incident_last_brokers_lost",
    "kafka_cluster_incident_last_controller_elections",
    "kafka_cluster_incident_last_leaders_moved",
    "kafka_cluster_incident_last_offline_partitions",
    "kafka_cluster_recommendation_made_timestamp_seconds",
    "kcm_cluster_divergent_since_timestamp_seconds",
    "kcm_cluster_incomplete_since_timestamp_seconds",
    "kafka_quorum_unreachable_since_timestamp_seconds",
    "kafka_quorum_unknown_records_total",
}
"""Figures that this cluster does not have now, and would have with what they are about."""


def a_sample(cluster: KraftCluster, **fields: object) -> QuorumSample:
    """Return an answer to DescribeQuorum: voter 3001 lacks 5 records, broker 2 lacks 2, of broker 3 nothing is known."""
    end, now = cluster.end, cluster.now
    voters = (QuorumReplica(3000, end, now, now), QuorumReplica(3001, end - 5, now, now - 900))
    observers = (QuorumReplica(2, end - 2, now, now), QuorumReplica(3, -1))
    known = {"at": now, "leader": 3000, "epoch": cluster.epoch, "high_watermark": end}
    return QuorumSample(**(known | fields), voters=voters, observers=observers)  # type: ignore[arg-type]


def a_cluster() -> tuple[KraftCluster, KraftFold]:
    """Return a cluster with three brokers, one of them fenced, that has had a second election after a candidate."""
    cluster = KraftCluster(elr=True)
    for broker in (1, 2, 3):
        cluster.register(broker)
        cluster.unfence(broker)
    cluster.create("orders", 6, 3)
    cluster.fence(3)
    cluster.tick(2_000)
    cluster.elect(3000, after_ms=700, candidacies=1)
    cluster.tick(2_000)
    watcher = Watcher(cluster)
    beat = watcher.heartbeat(quorum=a_sample(cluster), snapshot_end=4, snapshot_at=cluster.now)
    first, *others = watcher.slices()
    first = msgspec.structs.replace(first, cluster_id="Kraft-cluster-id")
    return cluster, KraftFold().feed([first, *others, beat])


VIEWS = a_cluster()[1].views()
VIEW: ClusterView = VIEWS["prod/cluster"]


@pytest.mark.parametrize("metric", CLUSTER_METRICS, ids=lambda metric: metric.name)
def test_a_figure_of_a_kraft_cluster_has_a_meaning_or_no_sample(
    metric: Metric[ClusterView],
) -> None:
    """Each metric of a cluster has samples, or is one of those that must have none; and those are of ZooKeeper's."""
    samples = list(metric.read(VIEW))
    absent = metric.name in WITHOUT_MEANING or metric.name in ONLY_AT_TIMES
    assert bool(samples) != absent, samples
    if metric.name in WITHOUT_MEANING:
        assert "absent" in metric.help or list(metric.read(cluster_view()))


def test_the_table_names_metrics_of_the_catalogue() -> None:
    """A renamed metric is renamed in it, and no metric is in both lists."""
    names = {metric.name for metric in CATALOGUE}
    assert names > WITHOUT_MEANING | ONLY_AT_TIMES
    assert not WITHOUT_MEANING & ONLY_AT_TIMES


@pytest.mark.parametrize("metric", BROKER_METRICS, ids=lambda metric: metric.name)
def test_a_figure_of_a_kraft_broker_has_a_sample(metric: Metric[BrokerView]) -> None:
    """An active broker has all of them; a fenced one lacks only what makes sense for one that leads."""
    of_live = {"kafka_broker_leader_skew_ratio", "kafka_broker_safe_to_stop"}
    assert list(metric.read(VIEWS["prod/broker/1"]))
    assert bool(list(metric.read(VIEWS["prod/broker/3"]))) == (metric.name not in of_live)


def test_what_is_absent_in_kraft_makes_nothing_incomplete() -> None:
    """Nothing is hidden or missing, and a cluster in ZooKeeper has none of the quorum's figures."""
    assert (VIEW.log.hidden, VIEW.log.incomplete) == ((), False)
    of_quorum = [each for each in CLUSTER_METRICS if each.name.startswith("kafka_quorum_")]
    assert len(of_quorum) > 10
    assert [each.name for each in of_quorum if list(each.read(cluster_view()))] == []


def test_fenced_brokers_and_candidacies_are_figures() -> None:
    """A fenced broker is not live; an epoch without a leader was a candidacy; the nodes are the voters."""
    shown = [of_broker("kafka_broker_fenced", VIEWS[f"prod/broker/{each}"]) for each in (1, 3)]
    assert shown == [[((), 0)], [((), 1)]]
    assert of_cluster("kafka_quorum_candidacies_total", VIEW) == [((), 1)]
    assert of_cluster("kafka_controller_active", VIEW) == [(("", "3000"), 1)]
    levels = of_cluster("kafka_quorum_feature_level", VIEW)
    assert (("metadata.version",), 25) in levels


def test_the_lag_is_that_of_the_leader_that_leads() -> None:
    """An offset that the leader does not know has no sample; an answer of a past epoch is no lag of now."""
    of_voters, of_brokers = "kafka_quorum_replica_lag_records", "kafka_broker_metadata_lag_records"
    assert of_cluster(of_voters, VIEW) == [(("3000", "voter"), 0), (("3001", "voter"), 5)]
    assert of_cluster(of_brokers, VIEW) == [(("2",), 2)]
    cluster, fold = a_cluster()
    cluster.tick(500)
    watcher = Watcher(cluster)
    past = watcher.heartbeat(quorum=a_sample(cluster), leader=-1, leader_epoch=cluster.epoch + 1)
    silent = watcher.heartbeat(unreachable_since=cluster.now)
    for beat in (past, silent):
        view = fold.feed([beat]).cluster
        assert of_cluster(of_voters, view) == of_cluster(of_brokers, view) == []
        assert of_cluster("kafka_quorum_spare_voters", view) == []
        assert of_cluster("kafka_quorum_commits_stopped", view) == []
        assert of_cluster("kafka_quorum_sample_timestamp_seconds", view) != []


def test_a_replica_that_was_never_caught_up_is_behind_since_the_election() -> None:
    """A live broker that the leader does not know has not fetched since then either, for 5 minutes at least."""
    name = "kafka_broker_metadata_lag_seconds"
    assert of_cluster("kafka_quorum_replica_lag_seconds", VIEW) == [
        (("3000", "voter"), 0),
        (("3001", "voter"), 0.9),
    ]
    assert of_cluster(name, VIEW) == [(("1",), 2), (("2",), 0), (("3",), 2)]
    cluster, fold = a_cluster()
    cluster.tick(3_600_000)
    watcher = Watcher(cluster)
    first, *others = watcher.slices(first=fold.state.control.log.position.seq)
    beat = watcher.heartbeat(quorum=a_sample(cluster))
    view = fold.feed([first, *others, beat]).cluster
    assert of_cluster(name, view) == [(("1",), 300), (("2",), 0), (("3",), 3602)]


def test_a_controller_that_a_snapshot_does_not_name_is_not_a_missing_one() -> None:
    """Until a controller answers, who is active is not known: no -1, by which an alert would fire."""
    cluster, _ = a_cluster()
    *records, _ = Watcher(cluster).snapshot()
    view = KraftFold().feed(records).cluster
    assert of_cluster("kafka_controller_id", view) == []
    assert of_cluster("kafka_controller_active", view) == []


OF_ZOOKEEPER = re.compile(r"ZooKeeper|znode|/controller|/brokers|/admin|resync|reconciliation")


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_help_is_true_of_both_kinds_of_clusters(metric: Metric[Any]) -> None:
    """Where it speaks of ZooKeeper's things, or a KRaft cluster has no such figure, it says what holds in KRaft."""
    if metric.name in WITHOUT_MEANING or OF_ZOOKEEPER.search(metric.help):
        assert re.search(r"KRaft|metadata log|quorum", metric.help), metric.help
