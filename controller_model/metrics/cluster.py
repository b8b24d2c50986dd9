"""The figures of the watched cluster: its controller and its partitions.

Each figure is read from a view as it is there. What can be computed from two of them is
left to queries, unless operators ask for it by name. HELP says what to expect in a healthy cluster,
and to which of Kafka's own JMX figures it corresponds.
"""

from collections.abc import Callable

from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.metrics.metric import (
    Sample,
    Samples,
    Table,
    each_of,
    figure,
    seconds,
    state_of,
)
from controller_model.records import visibility
from controller_model.records.events import LeaderElectionKind
from controller_model.records.foreign_writes import ForeignWriteKind
from controller_model.records.pending_writes import ControllerHealth, PendingWriteKind
from controller_model.records.views import ClusterView, ControllerView, Failover

_KNOWN = visibility.BROKERS | visibility.PARTITIONS
"""What is needed to know every id of a broker."""


def _of_controller(
    text: str, read: Callable[[ControllerView], float | None]
) -> Samples[ClusterView]:
    """Return a figure of the controller, of which nothing is known where it cannot be seen."""
    return figure(text, lambda view: None if (held := view.controller) is None else read(held))


def _active(view: ClusterView) -> list[Sample]:
    """Return a sample for each node that may be the controller: a broker, or a voter of a KRaft quorum."""
    if view.controller is None:
        return []
    quorum, holder = view.quorum, view.controller.id
    nodes = (view.brokers_live or ()) if quorum is None else (*quorum.voters, *quorum.controllers)
    found = sorted({*nodes, holder} - {NO_CONTROLLER})
    # A query that joins it with figures of brokers finds no controller of a quorum by chance.
    brokers = found if quorum is None else view.brokers_known
    return [((str(n) if n in brokers else "", str(n)), int(n == holder)) for n in found]


def _flag(value: bool | None) -> int | None:
    return None if value is None else int(value)


CONTROLLER: Table[ClusterView] = {
    "kafka_controller_id": _of_controller(
        "Id of the broker that holds /controller, or of a KRaft cluster's active controller; -1 while there is none.",
        lambda controller: controller.id,
    ),
    "kafka_controller_active": Samples(
        "Whether the node, broker or not, is the active controller (1) or not (0) (JMX ActiveControllerCount); broker "
        "is empty for a controller of a KRaft cluster that is no broker.",
        ("broker", "node"),
        _active,
    ),
    "kafka_controller_epoch": _of_controller(
        "Controller epoch in /controller_epoch, which grows by one with each election, or the leader epoch of a "
        "KRaft quorum, which grows with each candidate; absent before it was read.",
        lambda controller: controller.epoch,
    ),
    "kafka_controller_elections_total": _of_controller(
        "Controller elections, counted by the controller epoch, in a KRaft cluster from its log, so that those between two "
        "scrapes are included.",
        lambda controller: controller.elections,
    ),
    "kafka_controller_id_changes_total": _of_controller(
        "Controller elections won by another broker, or node of a quorum, than the controller before.",
        lambda controller: controller.id_changes,
    ),
    "kafka_controller_missed_elections_total": _of_controller(
        "Controller elections that were not seen live and are known only because the controller epoch jumped; 0 in a "
        "KRaft cluster, whose log holds them.",
        lambda controller: controller.missed_elections,
    ),
    "kafka_controller_possible_elections_total": figure(
        "Controller elections that may have been besides those counted, across a snapshot of a metadata log; absent "
        "outside KRaft.",
        lambda view: (
            None
            if (held := view.controller) is None or view.has_zookeeper
            else held.possible_elections
        ),
    ),
    "kafka_controller_elected_timestamp_seconds": _of_controller(
        "Unix time in seconds when the controller was elected, by ZooKeeper's clock, in a KRaft cluster by its own; "
        "absent while there is none.",
        lambda controller: seconds(controller.elected_at),
    ),
    "kafka_controller_vacant_since_timestamp_seconds": _of_controller(
        "Unix time in seconds since when there is no controller, by the watcher's clock, in a KRaft cluster by its own; "
        "absent while there is one.",
        lambda controller: seconds(controller.vacant_since),
    ),
    "kafka_controller_vacancy_seconds_total": _of_controller(
        "Seconds without a controller, summed over ended vacancies, as a lower bound; a vacancy that was not seen live "
        "counts as 0, in a KRaft cluster as its log shows it.",
        lambda controller: seconds(controller.vacancy_total_min_ms),
    ),
    "kafka_controller_vacancy_at_most_seconds_total": _of_controller(
        "Seconds without a controller, summed over ended vacancies, as an upper bound; a vacancy that began before the "
        "monitor watched counts only from then on.",
        lambda controller: seconds(controller.vacancy_total_max_ms),
    ),
    "kafka_controller_last_vacancy_seconds": _of_controller(
        "Seconds that the last ended time without a controller lasted, as a lower bound; absent before the first.",
        lambda controller: seconds(controller.vacancy_last_min_ms),
    ),
    "kafka_controller_last_vacancy_at_most_seconds": _of_controller(
        "Seconds that the last ended time without a controller lasted, as an upper bound; absent before the first, and if "
        "its start was not seen.",
        lambda controller: seconds(controller.vacancy_last_max_ms),
    ),
    "kafka_controller_failover": Samples(
        "State of the controller's failover work, as leader writes show it: 1 for the current state, 0 for the others; "
        "absent in KRaft.",
        ("state",),
        lambda view: (
            ()
            if (held := view.controller) is None or held.failover is None
            else state_of(Failover, held.failover)
        ),
    ),
    "kafka_controller_failover_since_timestamp_seconds": _of_controller(
        "Unix time in seconds when the current failover work, or else the last finished one, "
        "began; absent before the first, and in KRaft.",
        lambda controller: seconds(controller.failover_since),
    ),
    "kafka_controller_last_failover_seconds": _of_controller(
        "Seconds that the last finished failover work took; absent before the first, and in KRaft.",
        lambda controller: seconds(controller.failover_last_ms),
    ),
    "kafka_controller_pending_leader_writes": figure(
        "Number of partitions whose leader in ZooKeeper is gone, so that the controller must write "
        "a new one; 0 in a healthy cluster, absent in KRaft.",
        lambda view: view.counts.pending_leader_writes,
    ),
    "kafka_controller_pending_writes": Samples(
        "Number of writes that the controller must make, by kind; 0 in a healthy cluster, except "
        "for seconds after a failure or a request; absent in KRaft, where the decision is the write.",
        ("kind",),
        lambda view: each_of(PendingWriteKind, view.pending_writes.counts),
    ),
    "kafka_controller_oldest_pending_write_timestamp_seconds": figure(
        "Unix time in seconds when the oldest loss of a broker was seen to which the controller "
        "has not reacted yet; absent when there is none, and in KRaft.",
        lambda view: seconds(view.pending_writes.oldest_at),
    ),
    "kafka_controller_pending_writes_since_timestamp_seconds": figure(
        "Unix time in seconds since when at least one write has been pending without a pause; absent "
        "when none is pending, when that is not known, and in KRaft.",
        lambda view: seconds(view.pending_writes.pending_since),
    ),
    "kafka_controller_health": Samples(
        "Health of the controller as of the last heartbeat (1: the current state); zombie: it made none of its "
        "pending writes for 45 s plus 1 ms per partition, and none since; absent in KRaft.",
        ("health",),
        lambda view: (
            ()
            if view.pending_writes.counts is None
            else state_of(ControllerHealth, view.pending_writes.health)
        ),
    ),
    "kafka_controller_stale_writes_total": _of_controller(
        "Partition states written under an older controller epoch than the current one; 0 with Kafka 2.1 and newer, "
        "absent in KRaft.",
        lambda controller: controller.stale_writes,
    ),
    "kafka_controller_leader_elections_total": Samples(
        "Partitions that got a leader, by the kind of election, which is inferred from the znodes, or in a KRaft cluster "
        "from what its log states.",
        ("election",),
        lambda view: (
            ()
            if (held := view.counters) is None
            else each_of(LeaderElectionKind, held.leader_elections)
        ),
    ),
    "kafka_controller_unclean_leader_elections_total": figure(
        "Leaders elected from outside the ISR, each of which may have lost records (JMX "
        "UncleanLeaderElectionsPerSec).",
        lambda view: None if (held := view.counters) is None else held.unclean_elections,
    ),
    "kafka_controller_migrating_to_kraft": figure(
        "Whether a KRaft controller runs a cluster that is watched in ZooKeeper (1) or not (0), in and after a "
        "migration, when vacancy, failover and pending writes are not known; absent in KRaft.",
        lambda view: (
            None
            if not view.has_zookeeper or (view.controller is None and view.log.left_since is None)
            else int(view.log.kraft_since is not None)
        ),
    ),
}
"""The metrics of the controller."""

CLUSTER: Table[ClusterView] = {
    "kafka_cluster_info": Samples(
        "Id of the cluster (/cluster/id, or as a KRaft quorum confirms it); absent while it is not known.",
        ("id",),
        lambda view: [] if (id_ := view.config.cluster_id) is None else [((id_,), 1)],
    ),
    "kafka_cluster_brokers": figure(
        "Number of brokers that are registered now; in a KRaft cluster neither fenced nor shutting down.",
        lambda view: None if (live := view.brokers_live) is None else len(live),
    ),
    "kafka_cluster_brokers_known": figure(
        "Number of broker ids that were ever registered or that replicas are assigned to.",
        lambda view: len(view.brokers_known) if _KNOWN.isdisjoint(view.log.unseen) else None,
    ),
    "kafka_cluster_foreign_writes": Samples(
        "Number of znodes, or of partitions, as no Kafka writes them, by what that takes away; 0 in a healthy cluster, "
        "absent in KRaft.",
        ("kind",),
        lambda view: each_of(ForeignWriteKind, view.foreign_writes),
    ),
    "kafka_cluster_topics": figure(
        "Number of topics (JMX GlobalTopicCount).", lambda view: view.counts.topics
    ),
    "kafka_cluster_partitions": figure(
        "Number of partitions (JMX GlobalPartitionCount).", lambda view: view.counts.partitions
    ),
    "kafka_cluster_offline_partitions": figure(
        "Number of partitions without a live leader (JMX OfflinePartitionsCount), which nobody "
        "can read or write; 0 in a healthy cluster.",
        lambda view: view.counts.offline,
    ),
    "kafka_cluster_leaderless_partitions": figure(
        "Number of offline partitions for which the controller wrote that they have no leader; 0 "
        "in a healthy cluster.",
        lambda view: view.counts.leaderless,
    ),
    "kafka_cluster_partitions_without_state": figure(
        "Number of partitions without a state, to which the controller has given no leader yet; above 0 "
        "only for moments after a topic is created, absent in KRaft.",
        lambda view: view.counts.without_state,
    ),
    "kafka_cluster_under_replicated_partitions": figure(
        "Number of partitions with fewer in-sync replicas than replicas (JMX "
        "UnderReplicatedPartitions, summed over brokers); 0 in a healthy cluster.",
        lambda view: view.counts.under_replicated,
    ),
    "kafka_cluster_under_min_isr_partitions": figure(
        "Number of partitions below min.insync.replicas (JMX UnderMinIsrPartitionCount), where "
        "writes with acks=all fail; 0 in a healthy cluster, absent while that setting is not known.",
        lambda view: view.counts.under_min_isr,
    ),
    "kafka_cluster_at_min_isr_partitions": figure(
        "Number of partitions with exactly min.insync.replicas in-sync replicas (JMX "
        "AtMinIsrPartitionCount); absent while that setting is not known.",
        lambda view: view.counts.at_min_isr,
    ),
    "kafka_cluster_under_replicated_at_min_isr_partitions": figure(
        "Number of under-replicated partitions with exactly min.insync.replicas in-sync replicas, "
        "where one more loss makes acks=all fail; 0 in a healthy cluster, absent while that "
        "setting is not known.",
        lambda view: view.counts.under_replicated_at_min_isr,
    ),
    "kafka_cluster_under_replicated_reassigning_partitions": figure(
        "Number of under-replicated partitions to which a reassignment adds replicas now.",
        lambda view: view.counts.under_replicated_reassigning,
    ),
    "kafka_cluster_preferred_replica_imbalance": figure(
        "Number of partitions that are not led by their preferred replica (JMX "
        "PreferredReplicaImbalanceCount).",
        lambda view: view.counts.preferred_imbalance,
    ),
    "kafka_cluster_preferred_replica_electable": figure(
        "Number of partitions that a preferred election would give back to their preferred "
        "replica now.",
        lambda view: view.counts.preferred_electable,
    ),
    "kafka_cluster_reassigning_partitions": figure(
        "Number of partitions that are being reassigned.", lambda view: view.counts.reassigning
    ),
    "kafka_cluster_oldest_reassignment_timestamp_seconds": figure(
        "Unix time in seconds when the oldest reassignment under way was started; absent when "
        "there is none.",
        lambda view: seconds(view.pending.oldest_reassignment_at),
    ),
    "kafka_cluster_deleting_topics": figure(
        "Number of topics that wait for their deletion (JMX TopicsToDeleteCount); absent in KRaft, which deletes at once.",
        lambda view: view.counts.deleting_topics,
    ),
    "kafka_cluster_oldest_deletion_timestamp_seconds": figure(
        "Unix time in seconds when the oldest pending deletion of a topic was requested; absent when there is none, and in "
        "KRaft.",
        lambda view: seconds(view.pending.oldest_deletion_at),
    ),
    "kafka_cluster_preferred_election_pending": figure(
        "Whether /admin/preferred_replica_election exists (1) or not (0), which the controller deletes within "
        "seconds; absent in KRaft.",
        lambda view: _flag(view.pending.preferred_election),
    ),
    "kafka_cluster_reassignment_request_pending": figure(
        "Whether /admin/reassign_partitions, which legacy tools write, exists (1) or not (0); absent in KRaft.",
        lambda view: _flag(view.pending.reassign_partitions),
    ),
    "kafka_cluster_oldest_request_timestamp_seconds": figure(
        "Unix time in seconds when the oldest request in /admin was made that the controller has not begun with "
        "(elections, or reassignments while none is under way); absent without one, and in KRaft.",
        lambda view: seconds(view.pending.oldest_request_at),
    ),
    "kafka_cluster_pending_notifications": figure(
        "Number of notification znodes that the controller has not processed yet; it grows while the controller is "
        "slow or gone, and is absent in KRaft.",
        lambda view: view.pending.notifications,
    ),
    "kafka_cluster_replication_factor_1_partitions": figure(
        "Number of partitions with a single replica, which go offline with its broker.",
        lambda view: view.counts.replication_factor_1,
    ),
    "kafka_cluster_min_isr_blocking_partitions": figure(
        "Number of partitions whose min.insync.replicas is not below their replication factor, so "
        "that acks=all fails while any of their brokers is down; absent while that setting is not "
        "known.",
        lambda view: view.counts.min_isr_blocks,
    ),
    "kafka_cluster_replicas_on_gone_brokers": figure(
        "Number of replicas assigned to brokers that are not registered, in a KRaft cluster not active; 0 while every "
        "broker is up.",
        lambda view: view.counts.replicas_on_gone_brokers,
    ),
    "kafka_cluster_recovering_partitions": figure(
        "Number of partitions whose leader came from an unclean election and recovers; 0 in a healthy cluster.",
        lambda view: view.counts.recovering,
    ),
    "kafka_cluster_empty_isr_partitions": figure(
        "Number of partitions with an empty ISR; 0 in a healthy cluster, absent without eligible leader replicas "
        "(eligible.leader.replicas.version), because only they let an ISR be empty.",
        lambda view: view.counts.isr_empty,
    ),
    "kafka_cluster_elr_partitions": figure(
        "Number of partitions with eligible leader replicas, which are below min.insync.replicas; 0 in a healthy "
        "cluster, absent outside KRaft.",
        lambda view: view.counts.with_elr,
    ),
    "kafka_cluster_assumed_min_insync_replicas": figure(
        "Value of min.insync.replicas that the monitor's settings state for the brokers' own "
        "files, used where ZooKeeper, or a metadata log, holds none; absent without such a setting.",
        lambda view: view.min_isr_assumed,
    ),
    "kafka_cluster_isr_shrinks_total": figure(
        "Replicas that left an ISR (JMX IsrShrinksPerSec); flat in a healthy cluster.",
        lambda view: None if (held := view.counters) is None else held.isr_shrinks,
    ),
    "kafka_cluster_isr_expands_total": figure(
        "Replicas that joined an ISR (JMX IsrExpandsPerSec); flat in a healthy cluster.",
        lambda view: None if (held := view.counters) is None else held.isr_expands,
    ),
}
"""The metrics of the cluster as a whole."""
