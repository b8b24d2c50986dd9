"""Signals about partitions: what is unavailable, what is at risk, what is under way, and in which topics.

Aggregates per cluster and of its worst topics only. Series per partition would cost more than all others together.
"""

from dashboards.signals.signal import (
    CONTEXT,
    Signal,
    age,
    grown,
    grown_or_unseen,
    highest,
    selected,
)

UNCLEAN_WINDOW = "1h"
"""How long an unclean election is alerted on: an operator must find out what was lost."""

STALL_WINDOW = "1h"
"""A large partition takes minutes to move; an hour in which none arrived is a standstill."""

LONG_WINDOW = "6h"
LONG_SECONDS = 6 * 3600
"""Age in seconds from which a reassignment counts as stuck, if no fewer are under way than hours ago."""

_REASSIGNING = "kafka_cluster_reassigning_partitions"


def _most_reassigning(window: str) -> str:
    return f"max by (cluster) (max_over_time({selected(_REASSIGNING)}[{window}]))"


def _oldest_reassignment_and(condition: str) -> str:
    since = age("kafka_cluster_oldest_reassignment_timestamp_seconds")
    return f"(({since}) and on (cluster) ({condition}))"


OFFLINE = Signal(
    expr=highest("kafka_cluster_offline_partitions"),
    meaning="Partitions without a live leader. Nobody can write to them or read from them.",
    normal="0.",
    action="Start the brokers that are down, the one that was last in the ISR first.",
    runbook="KafkaPartitionsOffline",
    legend="offline",
)
UNDER_REPLICATED = Signal(
    expr=highest("kafka_cluster_under_replicated_partitions"),
    meaning="Partitions with fewer in-sync replicas than replicas.",
    normal="0; above 0 while a broker is down, catches up, or replicas are being moved.",
    action="See on the board Partitions and ISR which broker's replicas are missing.",
    runbook="KafkaPartitionsUnderReplicated",
    legend="under-replicated",
)
UNDER_MIN_ISR = Signal(
    expr=highest("kafka_cluster_under_min_isr_partitions"),
    meaning="Partitions with fewer in-sync replicas than min.insync.replicas. Producers with acks=all are "
    "refused.",
    normal="0. Empty: min.insync.replicas is not known; set min_insync_replicas.",
    action="Start the brokers that are down.",
    runbook="KafkaPartitionsUnderMinIsr",
    legend="under min ISR",
)
IMBALANCE = Signal(
    expr=highest("kafka_cluster_preferred_replica_imbalance"),
    meaning="Partitions that are not led by their preferred replica.",
    normal="near 0; above 0 after a restart until leaders are elected back.",
    action="Run `kcm recommend`.",
    runbook="KafkaLeadersImbalanced",
    legend="not led by the preferred replica",
)
AT_MIN_ISR = Signal(
    expr=highest("kafka_cluster_at_min_isr_partitions"),
    meaning="Partitions with exactly min.insync.replicas in-sync replicas: if one more leaves, producers with acks=all are "
    "refused. Partitions that have no more replicas than that are always counted.",
    normal="constant.",
    action="If it grew, restart no broker and start those that are down.",
    runbook="KafkaPartitionsAtMinIsr",
    legend="at min ISR",
)
UNDER_REPLICATED_UNEXPLAINED = Signal(
    expr=f"{UNDER_REPLICATED.expr} - {highest('kafka_cluster_under_replicated_reassigning_partitions')}",
    meaning="Under-replicated partitions, without those to which a reassignment adds replicas.",
    normal="0.",
    action="See on the board Partitions and ISR which broker's replicas are missing.",
    runbook="KafkaPartitionsUnderReplicated",
    legend="under-replicated, not being reassigned",
)
UNDER_REPLICATED_AT_MIN_ISR = Signal(
    expr=highest("kafka_cluster_under_replicated_at_min_isr_partitions"),
    meaning="Under-replicated partitions with exactly min.insync.replicas in-sync replicas: if one more leaves, producers "
    "with acks=all are refused.",
    normal="0.",
    action="Restart no broker. Start those that are down.",
    runbook="KafkaPartitionsAtMinIsr",
    legend="at min ISR, replicas missing",
)
LEADERLESS = Signal(
    expr=highest("kafka_cluster_leaderless_partitions"),
    meaning="Offline partitions for which the controller wrote leader -1. The other offline partitions it has not handled "
    "yet.",
    normal="0.",
    action="Start the brokers that are down, the one that was last in the ISR first.",
    runbook="KafkaPartitionsOffline",
    legend="leaderless",
)
WITHOUT_STATE = Signal(
    expr=highest("kafka_cluster_partitions_without_state"),
    meaning="Partitions without a state: the controller has given them no leader yet.",
    normal="0; above 0 for moments after a topic is created.",
    action="If it does not fall, check the health of the controller.",
    runbook="KafkaPartitionsWithoutState",
    legend="without state",
    only_in_zookeeper=True,
)
PARTITIONS = Signal(
    expr=highest("kafka_cluster_partitions"),
    meaning="Partitions of all topics.",
    normal="constant; it changes when topics are created, enlarged or deleted.",
    action=CONTEXT,
    legend="partitions",
)
BROKERS_DOWN = Signal(
    expr=f"{highest('kafka_cluster_brokers_known')} - {highest('kafka_cluster_brokers')}",
    meaning="Known broker ids that are not registered, in a KRaft cluster fenced or shutting down: brokers that are down, "
    "or were removed and still have replicas.",
    normal="0.",
    action="Start the broker, or reassign its replicas.",
    runbook="KafkaBrokerGone",
    legend="brokers down",
)
ISR_SHRINKS_HOUR = Signal(
    expr=grown("kafka_cluster_isr_shrinks_total", "1h"),
    meaning="Replicas that left an ISR within an hour.",
    normal="0; above 0 after a restart.",
    action="If it grows without restarts, see which broker's replicas leave.",
    runbook="KafkaIsrFlapping",
    legend="left an ISR",
)
ISR_EXPANDS_HOUR = Signal(
    expr=grown("kafka_cluster_isr_expands_total", "1h"),
    meaning="Replicas that joined an ISR within an hour.",
    normal="as many as left one, once all are in sync again.",
    action="If fewer joined than left, see which replicas are missing.",
    runbook="KafkaPartitionsUnderReplicated",
    legend="joined an ISR",
)
UNCLEAN_HOUR = Signal(
    expr=grown_or_unseen("kafka_controller_unclean_leader_elections_total", UNCLEAN_WINDOW),
    meaning=f"Leaders elected from outside the ISR within {UNCLEAN_WINDOW}, or while Prometheus did not scrape before that. "
    "Each may have lost records.",
    normal="0.",
    action="List the partitions with `kcm events --kind LeadersElected` and tell their owners.",
    runbook="KafkaUncleanLeaderElection",
    legend="unclean",
)
LEADER_ELECTIONS_HOUR = Signal(
    expr=grown("kafka_controller_leader_elections_total", "1h", "election"),
    meaning="Partitions that got a leader within an hour, by the kind of election, as inferred from "
    "ZooKeeper, or from what a metadata log states.",
    normal="0; above 0 after restarts, new topics and preferred elections.",
    action="If offline elections appear without restarts, see which broker ended.",
    runbook="KafkaBrokerGone",
    legend="{{election}}",
)
REPLICATION_FACTOR_1 = Signal(
    expr=highest("kafka_cluster_replication_factor_1_partitions"),
    meaning="Partitions with a single replica. They go offline with their broker.",
    normal="0.",
    action="Raise the replication factor with kafka-reassign-partitions.",
    legend="single replica",
)
MIN_ISR_BLOCKING = Signal(
    expr=highest("kafka_cluster_min_isr_blocking_partitions"),
    meaning="Partitions whose min.insync.replicas is not below their replication factor. If any of their brokers stops, "
    "producers with acks=all are refused.",
    normal="0.",
    action="Lower min.insync.replicas of the topic, or raise its replication factor.",
    legend="block restarts",
)
MIN_ISR_UNKNOWN = Signal(
    expr=f"{highest('kafka_cluster_partitions')} unless {highest('kafka_cluster_under_min_isr_partitions')}",
    meaning="Partitions of a cluster whose min.insync.replicas is not known because min_insync_replicas "
    "is not set for it.",
    normal="empty.",
    action="Set min_insync_replicas of the cluster.",
    runbook="KcmMinIsrNotKnown",
    legend="not judged",
)
ONE_RACK = Signal(
    expr=highest("kafka_cluster_one_rack_partitions"),
    meaning="Partitions that have all their replicas in one rack while live brokers are in other racks. They go offline "
    "with that rack.",
    normal="0.",
    action="Reassign them over several racks.",
    legend="in one rack",
)
ON_GONE_BROKERS = Signal(
    expr=highest("kafka_cluster_replicas_on_gone_brokers"),
    meaning="Replicas on brokers that are not registered now, in a KRaft cluster not active.",
    normal="0.",
    action="Start the broker, or reassign its replicas.",
    runbook="KafkaBrokerGone",
    legend="on gone brokers",
)
REASSIGNING = Signal(
    expr=highest(_REASSIGNING),
    meaning="Partitions that are being reassigned.",
    normal="0; above 0 only while you move replicas.",
    action="Check the progress with kafka-reassign-partitions --list.",
    runbook="KafkaReassignmentStuck",
    legend="reassigning",
)
REASSIGNMENT_STALLED = Signal(
    expr=(
        _oldest_reassignment_and(
            f"max by (cluster) (min_over_time({selected(_REASSIGNING)}[{STALL_WINDOW}])) "
            f">= {_most_reassigning(STALL_WINDOW)}"
        )
        + " or "
        + _oldest_reassignment_and(
            f"{_most_reassigning(STALL_WINDOW)} >= {_most_reassigning(LONG_WINDOW)}"
        )
        + f" > {LONG_SECONDS}"
    ),
    unit="s",
    meaning=f"Age of the oldest reassignment, shown if none has finished within {STALL_WINDOW}, or if it is older than "
    f"{LONG_WINDOW} and the number of reassignments does not fall.",
    normal="empty.",
    action="Check whether the adding replicas are live and whether their logs grow.",
    runbook="KafkaReassignmentStuck",
    legend="stalled",
)
DELETING = Signal(
    expr=highest("kafka_cluster_deleting_topics"),
    meaning="Topics that wait for their deletion.",
    normal="0; above 0 for seconds after a topic is deleted.",
    action="If it does not fall, start the brokers that are down.",
    runbook="KafkaTopicDeletionStuck",
    legend="deleting",
    only_in_zookeeper=True,
)
DELETION_AGE = Signal(
    expr=age("kafka_cluster_oldest_deletion_timestamp_seconds"),
    unit="s",
    meaning="Time since the oldest pending deletion of a topic was requested. Empty if none is pending.",
    normal="empty, or seconds.",
    action="Start the brokers that are down.",
    runbook="KafkaTopicDeletionStuck",
    legend="oldest deletion",
    only_in_zookeeper=True,
)
REQUEST_AGE = Signal(
    expr=age("kafka_cluster_oldest_request_timestamp_seconds"),
    unit="s",
    meaning="Time since the oldest request in /admin was made that the controller has not begun with. Empty if there is none.",
    normal="empty, or seconds.",
    action="Check the health of the controller.",
    runbook="KafkaRequestStuck",
    legend="oldest request",
    only_in_zookeeper=True,
)
UNCLEAN_MINUTE = Signal(
    expr=grown("kafka_controller_unclean_leader_elections_total", "1m"),
    meaning="Leaders elected from outside the ISR within a minute. Each may have lost records.",
    normal="0.",
    runbook="KafkaUncleanLeaderElection",
    legend="unclean",
)
TOPIC_OFFLINE = Signal(
    expr=highest("kafka_topic_offline_partitions", "topic"),
    meaning="Offline partitions of the topic. Only the 20 worst topics are listed.",
    normal="no topic is listed.",
    action="Start the brokers that are down.",
    runbook="KafkaPartitionsOffline",
    legend="{{topic}}",
)
TOPIC_UNDER_MIN_ISR = Signal(
    expr=highest("kafka_topic_under_min_isr_partitions", "topic"),
    meaning="Partitions of the topic below min.insync.replicas.",
    normal="0.",
    runbook="KafkaPartitionsUnderMinIsr",
    legend="{{topic}}",
)
TOPIC_UNDER_REPLICATED = Signal(
    expr=highest("kafka_topic_under_replicated_partitions", "topic"),
    meaning="Under-replicated partitions of the topic.",
    normal="0.",
    runbook="KafkaPartitionsUnderReplicated",
    legend="{{topic}}",
)
WORST_TOPICS_AGE = Signal(
    expr=age("kafka_cluster_worst_topics_timestamp_seconds"),
    unit="s",
    meaning="Age of the list of the worst topics.",
    normal="seconds; more with very many unhealthy partitions.",
    action="If it grows, check whether the figures follow the cluster.",
    runbook="KcmBehind",
    legend="ago",
)
