"""Signals about each broker: what it leads, whether an election can restore that, and which broker is at fault.

One series per broker, identified by the label `broker` alone.
"""

import functools

from controller_model.records.recent import LEAVES_WINDOW
from dashboards.signals.partitions import UNDER_REPLICATED_AT_MIN_ISR
from dashboards.signals.signal import CONTEXT, Signal, grown, grown_or_unseen, highest, newest

BOUNCE_WINDOW = "1h"
"""Long enough for several restarts: a broker takes minutes to start."""

ISR_FLAPPING_WINDOW = LEAVES_WINDOW

SKEW_PARTITIONS = 10
"""Fewest partitions of a broker: with fewer, one partition more or less is a skew of 10 %."""

of_brokers = functools.partial(Signal, legend="broker {{broker}}")
"""Makes a signal with one series for each broker."""

BROKER_LEADERS = of_brokers(
    expr=highest("kafka_broker_leaders", "broker"),
    meaning="Partitions that the broker leads.",
    normal="about equal over the brokers.",
    action="If a live broker leads none, they were not elected back after its restart: run `kcm recommend`.",
    runbook="KafkaLeadersImbalanced",
)
BROKER_IMBALANCE = of_brokers(
    expr=highest("kafka_broker_imbalance_ratio", "broker"),
    unit="percentunit",
    meaning="Share of the broker's preferred partitions that it does not lead.",
    normal="near 0 %. Above the threshold, in a KRaft cluster above 0, the controller rebalances within 5 minutes, if "
    "auto.leader.rebalance.enable is on.",
    action="Run `kcm recommend`.",
    runbook="KafkaLeadersImbalanced",
)
BROKER_IMBALANCE_OF_THRESHOLD = of_brokers(
    expr=f"{BROKER_IMBALANCE.expr} / on (cluster) group_left () "
    f"{highest('kafka_cluster_imbalance_threshold_ratio')}",
    unit="percentunit",
    meaning="Imbalance ratio of the broker as a share of the threshold, which is a setting of the monitor "
    "(Kafka's default: 10 %). Empty for a KRaft cluster, which has no threshold.",
    normal="below 100 %.",
    action="Run `kcm recommend`, if the controller does not rebalance within 5 minutes.",
    runbook="KafkaLeadersImbalanced",
)
BROKER_LIVE = of_brokers(
    expr=highest("kafka_broker_live", "broker"),
    meaning="Whether the broker is registered, and in a KRaft cluster not fenced.",
    normal="1 (yes).",
    action="Start the broker.",
    runbook="KafkaBrokerGone",
)
BROKER_GONE = of_brokers(
    expr=f"{highest('kafka_broker_replicas', 'broker')} and on (cluster, broker) "
    f"({newest('kafka_broker_live', 'broker')} == 0)",
    meaning="Replicas of the broker, which is not registered now, or fenced by a KRaft controller.",
    normal="no broker is listed.",
    action="Start the broker; read the end of its server.log.",
    runbook="KafkaBrokerGone",
)
_IS_FENCED = f"on (cluster, broker) ({newest('kafka_broker_fenced', 'broker')} == 1)"

BROKER_NOT_REGISTERED = of_brokers(
    expr=f"{BROKER_GONE.expr} unless {_IS_FENCED}",
    meaning="Replicas of the broker, which is not registered now.",
    normal="empty.",
    action="Start the broker; read the end of its server.log.",
    runbook="KafkaBrokerGone",
)
BROKER_FENCED = of_brokers(
    expr=f"{BROKER_GONE.expr} and {_IS_FENCED}",
    meaning="Replicas of the broker, which the controller of a KRaft cluster has fenced: it leads nothing.",
    normal="empty.",
    action="See whether the broker runs, and whether it reaches the active controller.",
    runbook="KafkaBrokerFenced",
)
BROKER_IS_FENCED = of_brokers(
    expr=newest("kafka_broker_fenced", "broker"),
    meaning="Whether the controller of a KRaft cluster has fenced the broker. Empty if it is not registered.",
    normal="0 (no).",
    action="See whether the broker runs, and whether it reaches the active controller.",
    runbook="KafkaBrokerFenced",
)
BROKER_SHUTTING_DOWN = of_brokers(
    expr=highest("kafka_broker_shutting_down", "broker"),
    meaning="Whether the broker is in controlled shutdown, or was when it was fenced.",
    normal="0 (no).",
    action=CONTEXT,
)
BROKER_METADATA_LAG = of_brokers(
    expr=highest("kafka_broker_metadata_lag_seconds", "broker"),
    unit="s",
    meaning="Time since the broker last held all of the metadata log, by the active controller's clock.",
    normal="below 1 s; more while it starts.",
    action="Check the CPU and GC of the broker, and its network to the active controller.",
    runbook="KafkaBrokerMetadataBehind",
)
BROKER_METADATA_LAG_RECORDS = of_brokers(
    expr=highest("kafka_broker_metadata_lag_records", "broker"),
    meaning="Records of the metadata log that the broker lacks.",
    normal="0 or a few.",
    action="Check the CPU and GC of the broker, and its network to the active controller.",
    runbook="KafkaBrokerMetadataBehind",
)
BROKER_METADATA_BEHIND = of_brokers(
    expr=f"{BROKER_METADATA_LAG.expr} and on (cluster, broker) ({newest('kafka_broker_live', 'broker')} == 1)",
    unit="s",
    meaning="Time since a live broker last held all of the metadata log: it may follow leaders and configurations of then.",
    normal="below 1 s.",
    action="Check the CPU and GC of the broker, and its network to the active controller.",
    runbook="KafkaBrokerMetadataBehind",
)
BROKER_OFFLINE_DIRS = of_brokers(
    expr=highest("kafka_broker_offline_log_dirs", "broker"),
    meaning="Log directories of the broker that are offline, in a KRaft cluster.",
    normal="0.",
    action="Find the directory in its server.log (LogDirFailureChannel).",
    runbook="KafkaLogDirFailed",
)
BROKER_GONE_AT_MIN_ISR = of_brokers(
    expr=f"{BROKER_GONE.expr} and on (cluster) ({UNDER_REPLICATED_AT_MIN_ISR.expr} > 0)",
    meaning="Replicas of a broker that is not registered now, while under-replicated partitions have "
    "exactly min.insync.replicas in-sync replicas.",
    normal="empty.",
    action="Restart no other broker. Start this one.",
    runbook="KafkaBrokerGoneAtMinIsr",
)
BROKER_REPLICAS = of_brokers(
    expr=highest("kafka_broker_replicas", "broker"),
    meaning="Replicas assigned to the broker.",
    normal="about equal over the brokers.",
    action="If a broker has far more, reassign replicas.",
    runbook="KafkaLeadersSkewed",
)
BROKER_IN_SYNC = of_brokers(
    expr=highest("kafka_broker_in_sync_replicas", "broker"),
    meaning="Replicas of the broker that are in the ISR.",
    normal="equal to its replicas.",
    action="If it is lower, the broker is down, slow or catching up.",
    runbook="KafkaPartitionsUnderReplicated",
)
BROKER_ELECTABLE = of_brokers(
    expr=highest("kafka_broker_preferred_electable", "broker"),
    meaning="Partitions that a preferred election gives back to the broker now.",
    normal="0.",
    action="Run `kcm recommend`.",
    runbook="KafkaLeadersImbalanced",
)
BROKER_NOT_ELECTABLE = of_brokers(
    expr=f"{highest('kafka_broker_preferred_not_led', 'broker')} - "
    f"{highest('kafka_broker_preferred_electable', 'broker')}",
    meaning="Partitions whose preferred leader is the broker and that an election cannot give back now, "
    "because the broker is down or its replica is not in the ISR.",
    normal="0.",
    action="Start the broker, or see why its replicas do not catch up.",
    runbook="KafkaLeadersCannotReturn",
)
_ABOVE = (
    f"({BROKER_IMBALANCE.expr} > on (cluster) group_left () "
    f"({highest('kafka_cluster_imbalance_threshold_ratio')} or "
    f"{highest('kafka_cluster_imbalanced_brokers')} * 0))"
)
"""The imbalance ratio of brokers above the threshold, which is a setting of kcm because ZooKeeper has none. A KRaft
cluster has no threshold: its controller balances each partition, so any imbalance is above it."""

BROKER_MENDABLE = of_brokers(
    expr=f"{_ABOVE} and on (cluster, broker) ({BROKER_ELECTABLE.expr} > 0) and on (cluster) "
    f"({highest('kafka_cluster_recommendation_standing')} == 1)",
    unit="percentunit",
    meaning="Imbalance ratio of a broker above the threshold, while the monitor recommends a preferred "
    "election that gives it leaders back.",
    normal="empty.",
    action="Run `kcm recommend`.",
    runbook="KafkaLeadersImbalanced",
)
BROKER_UNMENDABLE = of_brokers(
    expr=f"{_ABOVE} and on (cluster, broker) ({BROKER_ELECTABLE.expr} == 0)",
    unit="percentunit",
    meaning="Imbalance ratio of a broker above the threshold to which no preferred election can give "
    "leaders back now: it is down or not in sync.",
    normal="empty.",
    action="Start the broker, or see why its replicas do not catch up.",
    runbook="KafkaLeadersCannotReturn",
)
BROKER_SKEW = of_brokers(
    expr=highest("kafka_broker_leader_skew_ratio", "broker"),
    unit="percentunit",
    meaning="Deviation of the broker from an even share of leaders if every preferred replica leads. Only "
    "a reassignment changes it.",
    normal="near 0 %.",
    action="Reorder the replicas of its partitions with kafka-reassign-partitions.",
    runbook="KafkaLeadersSkewed",
)
BROKER_SKEW_LARGE = of_brokers(
    expr=(
        f"abs({BROKER_SKEW.expr}) and on (cluster) ({highest('kafka_cluster_partitions')} "
        f">= {SKEW_PARTITIONS} * {highest('kafka_cluster_brokers')}) and on (cluster) "
        f"({highest('kafka_cluster_replicas_on_gone_brokers')} == 0)"
    ),
    unit="percentunit",
    meaning="Deviation of the broker from an even share of leaders if every preferred replica leads, "
    f"without its sign. Only in clusters with at least {SKEW_PARTITIONS} partitions per broker. Empty "
    "while a broker with replicas is down.",
    normal="near 0 %.",
    action="Reorder the replicas of its partitions with kafka-reassign-partitions.",
    runbook="KafkaLeadersSkewed",
)
BROKER_COORDINATES = Signal(
    expr=highest("kafka_broker_coordinated_partitions", "broker", "coordinator"),
    meaning="Partitions of __consumer_offsets (group) and __transaction_state (transaction) that the "
    "broker leads. It coordinates their groups and transactions.",
    normal="about equal over the brokers.",
    action="If one broker has far more, elect preferred leaders: run `kcm recommend`.",
    legend="broker {{broker}}: {{coordinator}}",
)
BROKER_ISR_LEAVES_HOUR = of_brokers(
    expr=grown("kafka_broker_isr_leaves_total", "1h", "broker"),
    meaning="How often replicas of the broker left an ISR within an hour.",
    normal="0; above 0 after a restart.",
    action="If one broker is far above the others, check its disk, network and GC.",
    runbook="KafkaIsrFlapping",
)
BROKER_ISR_FLAPPING = of_brokers(
    expr=highest(
        "kafka_broker_recent_isr_leaves", "broker", only=f'window="{ISR_FLAPPING_WINDOW}"'
    ),
    meaning=f"Minutes of the last {ISR_FLAPPING_WINDOW} in which replicas of the broker left an ISR, by "
    "the cluster's times.",
    normal="0; 1 or 2 after a restart.",
    action="Check the disk, the network and GC of the broker.",
    runbook="KafkaIsrFlapping",
)
BROKER_ABSENT = of_brokers(
    expr=f"{highest('kafka_broker_replicas', 'broker')} - "
    f"{highest('kafka_broker_in_sync_replicas', 'broker')}",
    meaning="Replicas of the broker that are not in their ISR now.",
    normal="0.",
    action="If one broker is far above the others, it is down, slow or catching up: check it.",
    runbook="KafkaPartitionsUnderReplicated",
)
BROKER_LED_SHORT = of_brokers(
    expr=highest("kafka_broker_under_replicated_led_partitions", "broker"),
    meaning="Under-replicated partitions that the broker leads.",
    normal="0.",
    action="If one leader is far above the others, check its disk and network.",
    runbook="KafkaPartitionsUnderReplicated",
)
BROKER_REGISTRATIONS_HOUR = of_brokers(
    expr=grown("kafka_broker_registrations_total", BOUNCE_WINDOW, "broker"),
    meaning=f"Registrations of the broker within {BOUNCE_WINDOW}: restarts and, in ZooKeeper, new sessions.",
    normal="0; 1 after a restart.",
    action="Read the end of its server.log before each restart.",
    runbook="KafkaBrokerBouncing",
)
_FENCES_HOUR = grown("kafka_broker_ends_total", BOUNCE_WINDOW, "broker", only='end="fenced"')
BROKER_BOUNCES_HOUR = of_brokers(
    expr=f"(({_FENCES_HOUR}) > ({BROKER_REGISTRATIONS_HOUR.expr})) or ({BROKER_REGISTRATIONS_HOUR.expr})",
    meaning=f"Registrations of the broker within {BOUNCE_WINDOW}, or, if there were more, its fences: a KRaft controller "
    "fences a broker that does not send heartbeats, and unfences it without a new registration.",
    normal="0; 1 after a restart.",
    action="Read the end of its server.log before each restart, or its GC log at the times of the fences.",
    runbook="KafkaBrokerBouncing",
)
BROKER_ENDS_HOUR = Signal(
    expr=grown("kafka_broker_ends_total", "1h", "broker", "end"),
    meaning="Ended registrations of the broker within an hour, in a KRaft cluster also its fences, by how they ended: as "
    "inferred from ZooKeeper, or as the metadata log states.",
    normal="0; 1 controlled_shutdown after a restart; crashed and fenced never.",
    action="If it crashed or was fenced, read the end of its server.log.",
    runbook="KafkaBrokerBouncing",
    legend="broker {{broker}}: {{end}}",
)
BROKER_LOG_DIRS = of_brokers(
    expr=f"{BROKER_OFFLINE_DIRS.expr} or "
    f"{grown_or_unseen('kafka_broker_log_dir_failures_total', '1h', 'broker')}",
    meaning="Log directories of the broker that are offline, in a KRaft cluster; in ZooKeeper, failures that the broker "
    "reported within an hour, or while Prometheus did not scrape before that.",
    normal="0.",
    action="Find the directory in its server.log (LogDirFailureChannel).",
    runbook="KafkaLogDirFailed",
)
BROKER_OFFLINE_IF_LOST = of_brokers(
    expr=highest("kafka_broker_offline_if_lost_partitions", "broker"),
    meaning="Partitions of which the broker has the only in-sync replica. They go offline if it is lost.",
    normal="0.",
    action="Do not stop this broker. Bring the other replicas back into the ISR.",
    runbook="KafkaPartitionsUnderReplicated",
)
BROKER_UNDER_MIN_IF_LOST = of_brokers(
    expr=highest("kafka_broker_under_min_isr_if_lost_partitions", "broker"),
    meaning="Partitions that fall below min.insync.replicas if the broker is lost.",
    normal="0.",
    action="Do not stop this broker. Bring the other replicas back into the ISR.",
    runbook="KafkaPartitionsAtMinIsr",
)
BROKER_SAFE_TO_STOP = of_brokers(
    expr=newest("kafka_broker_safe_to_stop", "broker"),
    meaning="Whether the broker can be stopped now: no partition goes offline or below "
    "min.insync.replicas. Empty for a broker that is gone, and while that is not known.",
    normal="1 (yes).",
    action="Do not stop this broker until the two columns on losses show 0.",
)
BROKER_SINCE = of_brokers(
    expr=f"1000 * {highest('kafka_broker_since_timestamp_seconds', 'broker')}",
    unit="dateTimeAsIso",
    meaning="When the broker registered, or was unfenced by a KRaft controller; if it is gone, when that was.",
    normal="days ago.",
    action=CONTEXT,
)
