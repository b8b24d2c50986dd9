"""Signals about incidents and recommendations: how the monitor summarises problems, and what it recommends.

The fold reports both by the log's own clock, so every dashboard and every replay shows the same
ones.
"""

from dashboards.signals.signal import CONTEXT, Signal, age, grown, highest, selected

INCIDENT_OPEN = Signal(
    expr=highest("kafka_cluster_incident_open"),
    meaning="1 while an incident is open: from the first abnormal event until nothing has been abnormal "
    "for a minute.",
    normal="0.",
    action="See on the board Controller what opened it and which alerts fire.",
    legend="open",
)
INCIDENT = Signal(
    expr=f"max by (cluster, number, opened_by) ({selected('kafka_cluster_incident_info')})",
    meaning="The open incident: its number and the event that opened it.",
    normal="none.",
    action="Read `/api/v1/clusters/CLUSTER/incidents` for its course.",
    legend="{{number}}: {{opened_by}}",
)
INCIDENT_ABNORMAL = Signal(
    expr=f"{INCIDENT.expr} and on (cluster) "
    f"{age('kafka_cluster_incident_abnormal_timestamp_seconds')} < 30",
    meaning="The open incident while something is abnormal, without the quiet minute at its end. It shows up to two "
    "heartbeats and a scrape late.",
    normal="none.",
    action="Read `/api/v1/clusters/CLUSTER/incidents` for its course.",
    legend="{{number}}: {{opened_by}}",
)
INCIDENT_LAST = Signal(
    expr=f"1000 * {highest('kafka_cluster_incident_last_timestamp_seconds', 'opened_by', 'end')}",
    unit="dateTimeAsIso",
    meaning="When the last closed incident ended. Absent before the first.",
    normal="long ago.",
    action="Read the kafka_cluster_incident_last metrics or the API for its figures.",
    legend="{{opened_by}}: {{end}}",
)
INCIDENTS_DAY = Signal(
    expr=grown("kafka_cluster_incidents_total", "1d"),
    meaning="Incidents opened within a day. A restart of a broker opens one. What follows within a minute, such as the "
    "next restart, belongs to the same incident.",
    normal="0, or the number of planned restarts.",
    action="Read `/api/v1/clusters/CLUSTER/incidents`: it says what opened each.",
    legend="incidents",
)
INCIDENT_AGE = Signal(
    expr=age("kafka_cluster_incident_started_timestamp_seconds"),
    unit="dtdurations",
    meaning="Time since the newest incident began. Empty before the first.",
    normal="long, or empty.",
    action="If it is short, see what fires now.",
    legend="ago",
)
IMBALANCE_THRESHOLD = Signal(
    expr=highest("kafka_cluster_imbalance_threshold_ratio"),
    unit="percentunit",
    meaning="Imbalance ratio above which the controller rebalances a broker, by the monitor's own setting: ZooKeeper does "
    "not hold it. A KRaft controller has none: it elects for every partition, at most 1,000 in a round.",
    normal="leader.imbalance.per.broker.percentage of the brokers; Kafka's default is 10 %.",
    action="If the brokers have another value, change the monitor's setting.",
    legend="threshold",
    only_in_zookeeper=True,
)
IMBALANCED_BROKERS = Signal(
    expr=highest("kafka_cluster_imbalanced_brokers"),
    meaning="Brokers whose imbalance ratio is above the threshold, in a KRaft cluster above 0.",
    normal="0.",
    action="Run `kcm recommend`.",
    runbook="KafkaLeadersImbalanced",
    legend="above the threshold",
)
MENDABLE_BROKERS = Signal(
    expr=highest("kafka_cluster_imbalanced_brokers_mendable"),
    meaning="Brokers above the threshold to which a preferred election gives leaders back now.",
    normal="0.",
    action="Run `kcm recommend`.",
    runbook="KafkaLeadersImbalanced",
    legend="mendable now",
)
NEXT_REBALANCE = Signal(
    expr=f"{highest('kafka_cluster_next_rebalance_timestamp_seconds')} - time()",
    unit="dtdurations",
    meaning="Earliest time until the controller's next balance check, if auto.leader.rebalance.enable is on. It is "
    "estimated; empty while there is no controller, and for a KRaft cluster, which has no fixed times.",
    normal="below 5 minutes.",
    action=CONTEXT,
    legend="at the earliest in",
)
NEXT_ELECTED = Signal(
    expr=highest("kafka_cluster_rebalance_electable_partitions"),
    meaning="Partitions that the controller's next balance check gives back to brokers above the "
    "threshold, as estimated.",
    normal="0.",
    action="Wait for the check, or run `kcm recommend` if auto.leader.rebalance.enable is off.",
    runbook="KafkaLeadersImbalanced",
    legend="elected then",
)
NEXT_BLOCKED = Signal(
    expr=highest("kafka_cluster_rebalance_blocked_partitions", "reason"),
    meaning="Partitions that the next balance check cannot give back to those brokers, by reason: the preferred replica is "
    "not_live or not_in_isr.",
    normal="0.",
    action="Start the broker (not_live), or see why its replicas do not catch up (not_in_isr).",
    runbook="KafkaLeadersCannotReturn",
    legend="{{reason}}",
)
RECOMMENDED = Signal(
    expr=highest("kafka_cluster_recommended_partitions"),
    meaning="Partitions for which the monitor recommends a preferred election, after half a minute above "
    "the threshold.",
    normal="0.",
    action="Run `kcm recommend`: it prints the partitions and the command.",
    runbook="KafkaLeadersImbalanced",
    legend="recommended",
)
GRADED_DAY = Signal(
    expr=grown("kafka_cluster_recommendations_graded_total", "1d", "outcome"),
    meaning="Outcomes of recommendations within a day. mended: the leaders returned. partly: some did. relapsed: they were "
    "lost again within 5 minutes. withdrawn: no election was held, and nothing was left to elect.",
    normal="only mended and withdrawn.",
    action="If they relapse, see on the board Partitions and ISR which broker loses its replicas.",
    legend="{{outcome}}",
)
