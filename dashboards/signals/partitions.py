"""Signals about partitions: what is unavailable, what is at risk, what is under way, and in which topics.

The rule: aggregates per cluster and of its worst topics only. Series per partition would cost more than all others together.
"""

import functools

from dashboards.signals.signal import (
    DemoStep,
    DrillStep,
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
    description="Partitions without a live leader, counted during controller outages, too; 0 in a "
    "healthy cluster: nobody can write to or read from them.",
    legend="offline",
    moved_by=DemoStep.KILL_CONTROLLER,
)
UNDER_REPLICATED = Signal(
    expr=highest("kafka_cluster_under_replicated_partitions"),
    description="Partitions with fewer in-sync replicas than replicas; 0 in a healthy cluster, "
    "above it while a broker is down or behind.",
    legend="under-replicated",
    moved_by=DemoStep.KILL_FOLLOWER,
)
UNDER_MIN_ISR = Signal(
    expr=highest("kafka_cluster_under_min_isr_partitions"),
    description="Partitions below min.insync.replicas; 0 in a healthy cluster: producers with "
    "acks=all are refused. Empty: the setting min_insync_replicas is missing.",
    legend="under min ISR",
    moved_by=DrillStep.RESTLESS,
)
IMBALANCE = Signal(
    expr=highest("kafka_cluster_preferred_replica_imbalance"),
    description="Partitions not led by their preferred replica; near 0 in a balanced cluster, "
    "above it after a broker restarted, until leaders are elected back.",
    legend="not led by the preferred replica",
    moved_by=DemoStep.ELECT,
)
AT_MIN_ISR = Signal(
    expr=highest("kafka_cluster_at_min_isr_partitions"),
    description="Partitions at min.insync.replicas, where one more loss refuses producers with "
    "acks=all; partitions with no more replicas than min.insync.replicas are always "
    "counted.",
    legend="at min ISR",
    moved_by=DemoStep.KILL_FOLLOWER,
)
UNDER_REPLICATED_UNEXPLAINED = Signal(
    expr=f"{UNDER_REPLICATED.expr} - ({highest('kafka_cluster_under_replicated_reassigning_partitions')} "
    f"or {highest(_REASSIGNING)} or 0 * {UNDER_REPLICATED.expr})",
    description="Under-replicated partitions, except those to which a reassignment adds replicas; "
    "0 in a healthy cluster.",
    legend="under-replicated, not being reassigned",
    moved_by=DemoStep.KILL_FOLLOWER,
)
UNDER_REPLICATED_AT_MIN_ISR = Signal(
    expr=f"({highest('kafka_cluster_under_replicated_at_min_isr_partitions')} or {AT_MIN_ISR.expr})",
    description="Under-replicated partitions at min.insync.replicas, where one more loss refuses "
    "producers with acks=all; 0 in a healthy cluster.",
    legend="at min ISR, replicas missing",
    moved_by=DemoStep.KILL_FOLLOWER,
)
LEADERLESS = Signal(
    expr=highest("kafka_cluster_leaderless_partitions"),
    description="Offline partitions for which the controller wrote that there is no leader; the "
    "other offline ones it has not handled yet.",
    legend="leaderless",
    moved_by=DemoStep.KILL_CONTROLLER,
)
WITHOUT_STATE = Signal(
    expr=highest("kafka_cluster_partitions_without_state"),
    description="Partitions that the controller has not brought online yet; above 0 for moments "
    "after a topic was created.",
    legend="without state",
    moved_by=DrillStep.ZOMBIE,
)
PARTITIONS = Signal(
    expr=highest("kafka_cluster_partitions"),
    description="Partitions of all topics.",
    legend="partitions",
    moved_by=DemoStep.CREATE,
)
BROKERS_DOWN = Signal(
    expr=f"{highest('kafka_cluster_brokers_known')} - {highest('kafka_cluster_brokers')}",
    description="Broker ids that are known but not registered: down, or long gone with replicas "
    "left behind; 0 in a healthy cluster.",
    legend="brokers down",
    moved_by=DemoStep.KILL_FOLLOWER,
)
ISR_SHRINKS_HOUR = Signal(
    expr=grown("kafka_cluster_isr_shrinks_total", "1h"),
    description="Replicas that left an ISR within an hour; 0 in a healthy cluster without "
    "restarts.",
    legend="left an ISR",
    moved_by=DemoStep.KILL_FOLLOWER,
)
ISR_EXPANDS_HOUR = Signal(
    expr=grown("kafka_cluster_isr_expands_total", "1h"),
    description="Replicas that joined an ISR within an hour; as many as left once all are back in "
    "sync.",
    legend="joined an ISR",
    moved_by=DemoStep.BRING_BACK,
)
UNCLEAN_HOUR = Signal(
    expr=grown_or_unseen("kafka_controller_unclean_leader_elections_total", UNCLEAN_WINDOW),
    description=f"Leaders elected from outside the ISR within {UNCLEAN_WINDOW}, or in a gap of the "
    "scrapes before it; 0 in a healthy cluster: each one may have lost records.",
    legend="unclean",
    moved_by=DrillStep.UNCLEAN,
)
LEADER_ELECTIONS_HOUR = Signal(
    expr=grown("kafka_controller_leader_elections_total", "1h", "election"),
    description="Partitions that got a leader within an hour, by the kind of election as "
    "inferred from the znodes.",
    legend="{{election}}",
    moved_by=DemoStep.KILL_CONTROLLER,
)
REPLICATION_FACTOR_1 = Signal(
    expr=highest("kafka_cluster_replication_factor_1_partitions"),
    description="Partitions with a single replica, which go offline with its broker; 0 is "
    "advisable.",
    legend="single replica",
    moved_by=DrillStep.INVITE,
)
MIN_ISR_BLOCKING = Signal(
    expr=highest("kafka_cluster_min_isr_blocking_partitions"),
    description="Partitions whose min.insync.replicas is not below their replication factor: "
    "none of their brokers can stop without refusing producers with acks=all; 0 is advisable.",
    legend="block restarts",
    moved_by=DrillStep.INVITE,
)
MIN_ISR_UNKNOWN = Signal(
    expr=f"{highest('kafka_cluster_partitions')} unless {highest('kafka_cluster_under_min_isr_partitions')}",
    description="Partitions of a cluster of which it is not known how many are under min ISR, "
    "because min_insync_replicas is not set for it; normally empty.",
    legend="not judged",
    moved_by=None,
    unmoved="The clusters of the demo and the drill have that setting.",
)
ONE_RACK = Signal(
    expr=highest("kafka_cluster_one_rack_partitions"),
    description="Partitions with all their replicas in one rack although live brokers are in "
    "others; they go offline with that rack, and 0 is advisable.",
    legend="in one rack",
    moved_by=DrillStep.INVITE,
)
ON_GONE_BROKERS = Signal(
    expr=highest("kafka_cluster_replicas_on_gone_brokers"),
    description="Replicas assigned to brokers that are not registered now; 0 when every broker "
    "is up.",
    legend="on gone brokers",
    moved_by=DemoStep.KILL_FOLLOWER,
)
REASSIGNING = Signal(
    expr=highest(_REASSIGNING),
    description="Partitions being reassigned; above 0 only while you move replicas.",
    legend="reassigning",
    moved_by=DrillStep.HOLD_UP,
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
    description=f"Age of the oldest reassignment, while none has ended within {STALL_WINDOW}, or while it is older "
    f"than {LONG_WINDOW} and their number does not fall; empty while they proceed.",
    legend="stalled",
    moved_by=DrillStep.HOLD_UP,
)
DELETING = Signal(
    expr=highest("kafka_cluster_deleting_topics"),
    description="Topics waiting for deletion; above 0 for long means that a broker with their "
    "replicas is down.",
    legend="deleting",
    moved_by=DrillStep.HOLD_UP,
)
DELETION_AGE = Signal(
    expr=age("kafka_cluster_oldest_deletion_timestamp_seconds"),
    unit="s",
    description="How long ago the oldest pending deletion of a topic was asked for; seconds in a "
    "healthy cluster, empty when none is.",
    legend="oldest deletion",
    moved_by=DrillStep.HOLD_UP,
)
UNCLEAN_MINUTE = Signal(
    expr=grown("kafka_controller_unclean_leader_elections_total", "1m"),
    description="Leaders elected from outside the ISR within a minute; 0 in a healthy cluster.",
    legend="unclean",
    moved_by=DrillStep.UNCLEAN,
)
_of_worst_topics = functools.partial(Signal, legend="{{topic}}", moved_by=DrillStep.ZOMBIE)
"""Makes a signal of topics: each has a series only while it is among the worst of its cluster."""

TOPIC_OFFLINE = _of_worst_topics(
    expr=highest("kafka_topic_offline_partitions", "topic"),
    description="Offline partitions of each of the 20 worst topics; empty in a healthy cluster.",
)
TOPIC_UNDER_MIN_ISR = _of_worst_topics(
    expr=highest("kafka_topic_under_min_isr_partitions", "topic"),
    description="Their partitions below min.insync.replicas.",
)
TOPIC_UNDER_REPLICATED = _of_worst_topics(
    expr=highest("kafka_topic_under_replicated_partitions", "topic"),
    description="Their under-replicated partitions.",
)
WORST_TOPICS_AGE = Signal(
    expr=age("kafka_cluster_worst_topics_timestamp_seconds"),
    unit="s",
    description="Age of the list of the worst topics; seconds, and more with very many unhealthy "
    "partitions.",
    legend="ago",
    moved_by=DrillStep.ZOMBIE,
)
