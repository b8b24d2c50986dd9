"""Signals about each broker: what it leads, whether an election can restore that, and which broker is to blame.

The rule: one series per broker, identified by the label `broker` alone.
"""

import functools

from controller_model.records.recent_leaves import WINDOW
from dashboards.signals.partitions import UNDER_REPLICATED_AT_MIN_ISR
from dashboards.signals.signal import (
    DemoStep,
    DrillStep,
    Signal,
    grown,
    grown_or_unseen,
    highest,
    newest,
)

BOUNCE_WINDOW = "1h"
"""Long enough for several restarts: a broker takes minutes to start."""

RESTLESS_WINDOW = WINDOW

SKEW_PARTITIONS = 10
"""Fewest partitions of a broker: with fewer, one partition more or less is a skew of 10 %."""

_WITHIN = f'window="{RESTLESS_WINDOW}"'
_RECENT_LEAVES = highest("kafka_broker_recent_isr_leaves", "broker", only=_WITHIN)

of_brokers = functools.partial(Signal, legend="broker {{broker}}", moved_by=DemoStep.KILL_FOLLOWER)
"""Makes a signal with one series for each broker; by default the killed follower of the demo moves it."""

BROKER_LEADERS = of_brokers(
    expr=highest("kafka_broker_leaders", "broker"),
    description="Partitions that each broker leads; about equal over brokers. 0 on one that is "
    "live: it came back and leaders were not elected back yet.",
)
BROKER_IMBALANCE = of_brokers(
    expr=highest("kafka_broker_imbalance_ratio", "broker"),
    unit="percentunit",
    description="Share of each broker's preferred partitions that it does not lead; above the "
    "threshold the controller rebalances within 5 minutes, if "
    "auto.leader.rebalance.enable is on.",
)
BROKER_IMBALANCE_OF_THRESHOLD = of_brokers(
    expr=f"{BROKER_IMBALANCE.expr} / on (cluster) group_left () "
    f"{highest('kafka_cluster_imbalance_threshold_ratio')}",
    unit="percentunit",
    description="Imbalance ratio as a share of the threshold, which is a setting of the monitor "
    "(Kafka's default: 10 %): above 100 %, the controller rebalances if "
    "auto.leader.rebalance.enable is on, and an alert fires.",
)
BROKER_LIVE = of_brokers(
    expr=highest("kafka_broker_live", "broker"),
    description="1 while the broker is registered; 0 for one that is known but gone.",
)
BROKER_GONE = of_brokers(
    expr=f"{highest('kafka_broker_replicas', 'broker')} and on (cluster, broker) "
    f"({newest('kafka_broker_live', 'broker')} == 0)",
    description="Replicas of each broker that is not registered now; nothing while every broker that "
    "has replicas is up.",
)
BROKER_GONE_AT_MIN_ISR = of_brokers(
    expr=f"{BROKER_GONE.expr} and on (cluster) ({UNDER_REPLICATED_AT_MIN_ISR.expr} > 0)",
    description="Replicas of each broker that is not registered now, while partitions are at "
    "min.insync.replicas because replicas are missing: after one more loss, producers "
    "with acks=all are refused; normally empty.",
)
BROKER_REPLICAS = of_brokers(
    expr=highest("kafka_broker_replicas", "broker"),
    description="Replicas assigned to each broker; about equal over brokers.",
    moved_by=DemoStep.CREATE,
)
BROKER_IN_SYNC = of_brokers(
    expr=highest("kafka_broker_in_sync_replicas", "broker"),
    description="Replicas of each broker that are in the ISR; equal to its replicas when all is "
    "well.",
)
BROKER_ELECTABLE = of_brokers(
    expr=highest("kafka_broker_preferred_electable", "broker"),
    description="Partitions that a preferred election run now would give back to each broker; 0 "
    "in a balanced cluster.",
    moved_by=DemoStep.BRING_BACK,
)
BROKER_NOT_ELECTABLE = of_brokers(
    expr=f"{highest('kafka_broker_preferred_not_led', 'broker')} - "
    f"{highest('kafka_broker_preferred_electable', 'broker')}",
    description="Partitions that each broker should lead but that an election cannot give back "
    "now, because the broker is down or its replica is not in the ISR. 0 in a healthy "
    "cluster.",
)
_ABOVE = (
    f"({BROKER_IMBALANCE.expr} > on (cluster) group_left () "
    f"{highest('kafka_cluster_imbalance_threshold_ratio')})"
)
"""The imbalance ratio of brokers above the threshold, which is a setting of kcm because ZooKeeper has none."""

BROKER_MENDABLE = of_brokers(
    expr=f"{_ABOVE} and on (cluster, broker) ({BROKER_ELECTABLE.expr} > 0) and on (cluster) "
    f"({highest('kafka_cluster_recommendation_standing')} == 1)",
    unit="percentunit",
    description="Imbalance ratio of brokers above the threshold to which a preferred election "
    "would give leaders back now, while the monitor recommends one; empty in a "
    "balanced cluster.",
    moved_by=DrillStep.BOUNCE,
)
BROKER_UNMENDABLE = of_brokers(
    expr=f"{_ABOVE} and on (cluster, broker) ({BROKER_ELECTABLE.expr} == 0)",
    unit="percentunit",
    description="Imbalance ratio of brokers above the threshold to which no preferred election can "
    "give leaders back now, because they are down or not in sync; empty in a balanced "
    "cluster.",
)
BROKER_SKEW = of_brokers(
    expr=highest("kafka_broker_leader_skew_ratio", "broker"),
    unit="percentunit",
    description="How far each broker is from an even share of leaders when every preferred "
    "replica leads; near 0 %, and only a reassignment changes it.",
)
BROKER_SKEW_LARGE = of_brokers(
    expr=(
        f"abs({BROKER_SKEW.expr}) and on (cluster) ({highest('kafka_cluster_partitions')} "
        f">= {SKEW_PARTITIONS} * {highest('kafka_cluster_brokers')}) and on (cluster) "
        f"({highest('kafka_cluster_replicas_on_gone_brokers')} == 0)"
    ),
    unit="percentunit",
    description="How far each broker is from an even share of leaders when every preferred replica leads, without "
    f"the sign. Only in clusters with at least {SKEW_PARTITIONS} partitions per broker, because fewer cannot be "
    "spread evenly. Empty while a broker with replicas is down, because its replicas are missing from the even share.",
    moved_by=DrillStep.INVITE,
)
BROKER_COORDINATES = Signal(
    expr=highest("kafka_broker_coordinated_partitions", "broker", "coordinator"),
    description="Partitions of __consumer_offsets (group) and __transaction_state (transaction) "
    "that each broker leads, so that it coordinates what is kept in them; about equal over "
    "brokers.",
    legend="broker {{broker}}: {{coordinator}}",
    moved_by=DrillStep.INVITE,
)
BROKER_ISR_LEAVES_HOUR = of_brokers(
    expr=grown("kafka_broker_isr_leaves_total", "1h", "broker"),
    description="How often replicas of each broker left an ISR within an hour, which shows the "
    "broker at fault; 0 in a healthy cluster without restarts.",
)
BROKER_ISR_RESTLESS = of_brokers(
    # An older exporter has only the counter.
    expr=f"{_RECENT_LEAVES} or changes(({highest('kafka_broker_isr_leaves_total', 'broker')})[{RESTLESS_WINDOW}:1m])",
    description=f"Number of minutes, of the last {RESTLESS_WINDOW}, in which replicas of each broker left an ISR, by "
    "ZooKeeper's times; one or two after a restart, many for a replica that falls behind again and again.",
    moved_by=DrillStep.RESTLESS,
)
BROKER_ABSENT = of_brokers(
    expr=f"{highest('kafka_broker_replicas', 'broker')} - "
    f"{highest('kafka_broker_in_sync_replicas', 'broker')}",
    description="Replicas of each broker that are not in their ISR now. One broker far above the "
    "others: it is down, slow, or catching up.",
)
BROKER_LED_SHORT = of_brokers(
    expr=highest("kafka_broker_under_replicated_led_partitions", "broker"),
    description="Under-replicated partitions that each broker leads. If one leader is far above "
    "the others while every broker has replicas out of sync, the leader or its network "
    "is at fault.",
    moved_by=DrillStep.ZOMBIE,
)
BROKER_REGISTRATIONS_HOUR = of_brokers(
    expr=grown("kafka_broker_registrations_total", BOUNCE_WINDOW, "broker"),
    description=f"Registrations of each broker within {BOUNCE_WINDOW}: restarts and lost "
    "ZooKeeper sessions; 0 in a healthy cluster.",
    moved_by=DemoStep.BRING_BACK,
)
BROKER_ENDS_HOUR = Signal(
    expr=grown("kafka_broker_ends_total", "1h", "broker", "end"),
    description="Ended registrations of each broker within an hour, by how they ended "
    "(inferred); crashed is 0 in a healthy cluster.",
    legend="broker {{broker}}: {{end}}",
    moved_by=DemoStep.KILL_FOLLOWER,
)
BROKER_LOG_DIRS = of_brokers(
    expr=grown_or_unseen("kafka_broker_log_dir_failures_total", "1h", "broker"),
    description="Failed log directories that each broker reported within an hour, or in a gap of the "
    "scrapes before it; 0 in a healthy cluster.",
    moved_by=DrillStep.DISK,
)
BROKER_OFFLINE_IF_LOST = of_brokers(
    expr=highest("kafka_broker_offline_if_lost_partitions", "broker"),
    description="Partitions that each broker alone keeps in sync: offline if it dies now; 0 in a "
    "healthy cluster without single replicas.",
)
BROKER_UNDER_MIN_IF_LOST = of_brokers(
    expr=highest("kafka_broker_under_min_isr_if_lost_partitions", "broker"),
    description="Partitions that fall below min.insync.replicas if the broker dies now.",
    moved_by=DrillStep.INVITE,
)
BROKER_SAFE_TO_STOP = of_brokers(
    expr=newest("kafka_broker_safe_to_stop", "broker"),
    description="1 if stopping the broker now takes no partition offline or below "
    "min.insync.replicas; empty for one that is gone, and while that is not known.",
)
BROKER_SINCE = of_brokers(
    expr=f"1000 * {highest('kafka_broker_since_timestamp_seconds', 'broker')}",
    unit="dateTimeAsIso",
    description="When each broker registered or, if it is gone, when its end was seen.",
)
