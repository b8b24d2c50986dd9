"""The figures of the watched cluster: its controller and its partitions.

The rule: each figure is read from a view as it stands there; what follows from two of them is left
to queries, unless operators ask for it by name. HELP says what to expect in a healthy cluster,
and which JMX figure of Kafka's own it stands beside.
"""

from __future__ import annotations

from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.metrics.metric import (
    Metric,
    Sample,
    counter,
    each_of,
    gauge,
    labelled,
    seconds,
    state_of,
    where_readable,
)
from controller_model.records.events import LeaderElectionKind
from controller_model.records.predictions import ControllerHealth, Due
from controller_model.records.views import ClusterView, Failover


def _active(view: ClusterView) -> list[Sample]:
    ids = sorted({*view.brokers_live, *({view.controller.id} - {NO_CONTROLLER})})
    return [((str(broker),), int(broker == view.controller.id)) for broker in ids]


def _cluster_info(view: ClusterView) -> list[Sample]:
    return [((view.cluster_id,), 1)] if view.cluster_id is not None else []


_CONTROLLER: tuple[Metric[ClusterView], ...] = (
    gauge(
        "kafka_controller_id",
        "Broker that holds /controller; -1 while nobody does, which should last milliseconds.",
        lambda view: view.controller.id,
    ),
    labelled(
        "kafka_controller_active",
        "1 on the broker that holds /controller, 0 on the other live ones; sums to 1 in a healthy "
        "cluster (JMX ActiveControllerCount, seen from outside).",
        ("broker",),
        _active,
    ),
    gauge(
        "kafka_controller_epoch",
        "Controller epoch from /controller_epoch; grows by one with each election.",
        lambda view: view.controller.epoch,
    ),
    counter(
        "kafka_controller_elections_total",
        "Controller elections; follows the epoch, so none is lost while nobody watched or scraped. "
        "Flat in a healthy cluster; one per restart of the controller's broker.",
        lambda view: view.controller.elections,
    ),
    counter(
        "kafka_controller_id_changes_total",
        "Controller elections won by another broker than the one before; the rest were won back.",
        lambda view: view.controller.id_changes,
    ),
    counter(
        "kafka_controller_missed_elections_total",
        "The part of the elections that was not seen live: only the epoch's jump tells of them.",
        lambda view: view.controller.missed_elections,
    ),
    gauge(
        "kafka_controller_elected_timestamp_seconds",
        "When the controller was elected, by ZooKeeper's clock; absent while there is none.",
        lambda view: seconds(view.controller.elected_at),
    ),
    gauge(
        "kafka_controller_vacant_since_timestamp_seconds",
        "Since when nobody has held /controller, by the watcher's clock; absent while it is held.",
        lambda view: seconds(view.controller.vacant_since),
    ),
    counter(
        "kafka_controller_vacancy_seconds_total",
        "Time without a controller, at least: ended vacancies, those not seen live count as 0.",
        lambda view: seconds(view.controller.vacancy_total_min_ms),
    ),
    counter(
        "kafka_controller_vacancy_at_most_seconds_total",
        "Time without a controller, at most: more than the least where one was not seen live.",
        lambda view: seconds(view.controller.vacancy_total_max_ms),
    ),
    gauge(
        "kafka_controller_last_vacancy_seconds",
        "How long the last ended vacancy of /controller lasted, at least; absent before the first.",
        lambda view: seconds(view.controller.vacancy_last_min_ms),
    ),
    gauge(
        "kafka_controller_last_vacancy_at_most_seconds",
        "How long the last ended vacancy of /controller lasted, at most; absent before the first, "
        "and where it began before anybody looked.",
        lambda view: seconds(view.controller.vacancy_last_max_ms),
    ),
    labelled(
        "kafka_controller_failover",
        "1 for the state of the controller's failover work as far as leader writes show it: "
        "not_needed or done in a healthy cluster; under_way for seconds after an election that found "
        "leaders gone.",
        ("state",),
        lambda view: state_of(Failover, view.controller.failover),
    ),
    gauge(
        "kafka_controller_failover_since_timestamp_seconds",
        "When the failover work under way (or done last) became due; absent if there was none.",
        lambda view: seconds(view.controller.failover_since),
    ),
    gauge(
        "kafka_controller_last_failover_seconds",
        "How long the last finished failover work took; grows with the partitions of a broker.",
        lambda view: seconds(view.controller.failover_last_ms),
    ),
    gauge(
        "kafka_controller_leader_writes_due",
        "Partitions whose written leader is gone, so that the controller must write a new one; "
        "0 in a healthy cluster; staying above 0 means a controller that does not do its work.",
        lambda view: view.counts.leader_writes_due,
    ),
    labelled(
        "kafka_controller_writes_due",
        "Writes that the controller owes, by kind; 0 in a healthy cluster but for seconds after a "
        "failure or a request.",
        ("kind",),
        lambda view: each_of(Due, view.writes_due.counts),
    ),
    gauge(
        "kafka_controller_oldest_write_due_timestamp_seconds",
        "When the end of a broker was seen to which the controller still owes a write, the oldest "
        "one; absent when there is none.",
        lambda view: seconds(view.writes_due.oldest_at),
    ),
    gauge(
        "kafka_controller_writes_due_since_timestamp_seconds",
        "Since when the controller has owed something without a pause; absent when nothing is due "
        "or nobody can tell.",
        lambda view: seconds(view.writes_due.owed_since),
    ),
    labelled(
        "kafka_controller_verdict",
        "1 for what the holder of /controller is worth at the log's last heartbeat: not_needed in "
        "a quiet cluster, working for seconds after a failure; ghost: it owes writes, and nobody "
        "has written under its epoch for 45 s and 1 ms per partition; unknown while vacant, in a "
        "migration, or out of sight.",
        ("verdict",),
        lambda view: state_of(ControllerHealth, view.writes_due.verdict),
    ),
    counter(
        "kafka_controller_stale_writes_total",
        "Leaders written under an older controller epoch than the current; 0 with Kafka 2.1+.",
        lambda view: view.controller.stale_writes,
    ),
    labelled(
        "kafka_controller_leader_elections_total",
        "Partitions that got a leader, by the kind of election, inferred from the znodes.",
        ("election",),
        lambda view: each_of(LeaderElectionKind, view.leader_elections),
    ),
    counter(
        "kafka_controller_unclean_leader_elections_total",
        "Leaders elected from outside the ISR (JMX UncleanLeaderElectionsPerSec); 0 in a healthy "
        "cluster: each one may have lost records.",
        lambda view: view.unclean_elections,
    ),
    gauge(
        "kafka_controller_migrating_to_kraft",
        "1 while the cluster migrates to KRaft: vacancy and failover work are unknown then.",
        lambda view: int(view.controller.migrating_to_kraft),
    ),
)

_CLUSTER: tuple[Metric[ClusterView], ...] = (
    labelled("kafka_cluster_info", "The cluster's id in /cluster/id.", ("id",), _cluster_info),
    gauge(
        "kafka_cluster_brokers",
        "Brokers registered now; should equal the number of brokers that you run.",
        lambda view: len(view.brokers_live),
    ),
    gauge(
        "kafka_cluster_brokers_known",
        "Broker ids that were ever registered or are assigned; more than the live ones means "
        "brokers are down or replicas stand on brokers long gone.",
        lambda view: len(view.brokers_known),
    ),
    gauge(
        "kafka_cluster_topics",
        "Topics (JMX GlobalTopicCount).",
        lambda view: view.counts.topics,
    ),
    gauge(
        "kafka_cluster_partitions",
        "Partitions (JMX GlobalPartitionCount).",
        lambda view: view.counts.partitions,
    ),
    gauge(
        "kafka_cluster_offline_partitions",
        "Partitions without a live leader (JMX OfflinePartitionsCount, but told during controller "
        "outages, too); 0 in a healthy cluster: nobody can write to or read from them.",
        lambda view: view.counts.offline,
    ),
    gauge(
        "kafka_cluster_leaderless_partitions",
        "The offline partitions for which the controller wrote that there is no leader; 0 in a "
        "healthy cluster.",
        lambda view: view.counts.leaderless,
    ),
    gauge(
        "kafka_cluster_partitions_without_state",
        "Partitions that the controller has not brought up yet; above 0 for moments after a topic "
        "was created.",
        lambda view: view.counts.without_state,
    ),
    gauge(
        "kafka_cluster_under_replicated_partitions",
        "Partitions with fewer in-sync replicas than replicas (JMX UnderReplicatedPartitions, all "
        "brokers together); 0 in a healthy cluster.",
        lambda view: view.counts.under_replicated,
    ),
    gauge(
        "kafka_cluster_under_min_isr_partitions",
        "Partitions below min.insync.replicas (JMX UnderMinIsrPartitionCount); 0 in a healthy "
        "cluster: producers with acks=all are refused.",
        lambda view: view.counts.under_min_isr,
    ),
    gauge(
        "kafka_cluster_at_min_isr_partitions",
        "Partitions at min.insync.replicas (JMX AtMinIsrPartitionCount): one more loss and "
        "producers with acks=all are refused.",
        lambda view: view.counts.at_min_isr,
    ),
    gauge(
        "kafka_cluster_preferred_replica_imbalance",
        "Partitions not led by their preferred replica (JMX PreferredReplicaImbalanceCount); near "
        "0 in a balanced cluster.",
        lambda view: view.counts.preferred_imbalance,
    ),
    gauge(
        "kafka_cluster_preferred_replica_electable",
        "Partitions that a preferred election run now would give back to their preferred replica.",
        lambda view: view.counts.preferred_electable,
    ),
    gauge(
        "kafka_cluster_reassigning_partitions",
        "Partitions being reassigned; above 0 only while you move replicas.",
        lambda view: view.counts.reassigning,
    ),
    gauge(
        "kafka_cluster_oldest_reassignment_timestamp_seconds",
        "When the oldest reassignment under way was started; absent when there is none.",
        lambda view: seconds(view.pending.oldest_reassignment_at),
    ),
    gauge(
        "kafka_cluster_deleting_topics",
        "Topics waiting for deletion (JMX TopicsToDeleteCount); above 0 for long means that a "
        "broker with their replicas is down.",
        lambda view: view.counts.deleting_topics,
    ),
    gauge(
        "kafka_cluster_oldest_deletion_timestamp_seconds",
        "When the oldest pending topic deletion was asked for; absent when there is none.",
        lambda view: seconds(view.pending.oldest_deletion_at),
    ),
    gauge(
        "kafka_cluster_preferred_election_pending",
        "1 while /admin/preferred_replica_election stands; longer than seconds means that the "
        "controller does not take it.",
        lambda view: int(view.pending.preferred_election),
    ),
    gauge(
        "kafka_cluster_reassignment_request_pending",
        "1 while /admin/reassign_partitions (legacy tools) stands.",
        lambda view: int(view.pending.reassign_partitions),
    ),
    gauge(
        "kafka_cluster_pending_notifications",
        "Notification znodes that the controller has not taken yet; growing means that it is "
        "slow or gone.",
        lambda view: view.pending.notifications,
    ),
    gauge(
        "kafka_cluster_replication_factor_1_partitions",
        "Partitions with a single replica: offline as soon as its broker is; 0 is advisable.",
        lambda view: view.counts.replication_factor_1,
    ),
    gauge(
        "kafka_cluster_min_isr_blocking_partitions",
        "Partitions whose min.insync.replicas is not below their replication factor: no broker of "
        "theirs can stop without refusing producers with acks=all; 0 is advisable.",
        lambda view: view.counts.min_isr_blocks,
    ),
    gauge(
        "kafka_cluster_replicas_on_gone_brokers",
        "Replicas assigned to brokers that are not registered now; 0 when every broker is up, and "
        "above 0 for long after one was taken away without moving its replicas.",
        lambda view: view.counts.replicas_on_gone_brokers,
    ),
    gauge(
        "kafka_cluster_assumed_min_insync_replicas",
        "The min.insync.replicas (an option of ours) where ZooKeeper does not hold one.",
        lambda view: view.min_isr_assumed,
    ),
    counter(
        "kafka_cluster_isr_shrinks_total",
        "Replicas that left an ISR (JMX IsrShrinksPerSec); flat in a healthy cluster.",
        lambda view: view.isr_shrinks,
    ),
    counter(
        "kafka_cluster_isr_expands_total",
        "Replicas that joined an ISR (JMX IsrExpandsPerSec); flat in a healthy cluster.",
        lambda view: view.isr_expands,
    ),
)

CONTROLLER = where_readable("/controller", _CONTROLLER)
"""Of /controller and /controller_epoch."""

CLUSTER = where_readable("/brokers", _CLUSTER)
"""Of registrations, assignments and states."""
