"""Signals about incidents and recommendations: how the monitor summarises problems, and what it recommends.

The rule: the fold reports both by the log's own clock, so every dashboard and every replay shows the same
ones.
"""

from dashboards.signals.signal import DemoStep, DrillStep, Signal, age, grown, highest, selected

INCIDENT_OPEN = Signal(
    expr=highest("kafka_cluster_incident_open"),
    description="1 while an incident is open: from the first abnormal event until all has been "
    "well for a minute; 0 in a healthy cluster.",
    legend="open",
    moved_by=DemoStep.KILL_FOLLOWER,
)
INCIDENT = Signal(
    expr=f"max by (cluster, number, opened_by) ({selected('kafka_cluster_incident_info')})",
    description="The incident that is open, by its number and the event that opened it; "
    "`/api/v1/clusters/CLUSTER/incidents` has all of it.",
    legend="{{number}}: {{opened_by}}",
    moved_by=DemoStep.KILL_FOLLOWER,
)
INCIDENT_ABNORMAL = Signal(
    expr=f"{INCIDENT.expr} and on (cluster) "
    f"{age('kafka_cluster_incident_abnormal_timestamp_seconds')} < 30",
    description="The incident that is open, while something is abnormal: without the minute of "
    "quiet after which it is over. Two heartbeats and a scrape may pass until that shows.",
    legend="{{number}}: {{opened_by}}",
    moved_by=DemoStep.KILL_FOLLOWER,
)
INCIDENT_LAST = Signal(
    expr=f"1000 * {highest('kafka_cluster_incident_last_timestamp_seconds', 'opened_by', 'end')}",
    unit="dateTimeAsIso",
    description="When the most recently closed incident ended; absent before the first. Its "
    "figures are in the kafka_cluster_incident_last metrics and in the API.",
    legend="{{opened_by}}: {{end}}",
    moved_by=None,
    unmoved="Nothing in the demo or the drill waits for it: an incident is over after a minute in "
    "which all is well.",
)
INCIDENTS_DAY = Signal(
    expr=grown("kafka_cluster_incidents_total", "1d"),
    description="Incidents opened within a day; 0 in a healthy cluster. A broker that you restart "
    "makes one; what follows within a minute, such as the next restart, belongs to it.",
    legend="incidents",
    moved_by=DemoStep.KILL_FOLLOWER,
)
INCIDENT_AGE = Signal(
    expr=age("kafka_cluster_incident_started_timestamp_seconds"),
    unit="dtdurations",
    description="How long ago the newest incident began; empty before the first.",
    legend="ago",
    moved_by=DemoStep.KILL_FOLLOWER,
)
IMBALANCE_THRESHOLD = Signal(
    expr=highest("kafka_cluster_imbalance_threshold_ratio"),
    unit="percentunit",
    description="Imbalance ratio above which the controller would rebalance a broker, as the "
    "monitor's settings state it (ZooKeeper does not hold it).",
    legend="threshold",
    moved_by=None,
    unmoved="Nothing in the demo or the drill moves it: it is a setting.",
)
IMBALANCED_BROKERS = Signal(
    expr=highest("kafka_cluster_imbalanced_brokers"),
    description="Brokers whose imbalance ratio is above the threshold; 0 in a balanced cluster.",
    legend="above the threshold",
    moved_by=DemoStep.KILL_FOLLOWER,
)
MENDABLE_BROKERS = Signal(
    expr=highest("kafka_cluster_imbalanced_brokers_mendable"),
    description="Those of them to which a preferred election run now would give partitions back.",
    legend="mendable now",
    moved_by=DemoStep.BRING_BACK,
)
NEXT_REBALANCE = Signal(
    expr=f"{highest('kafka_cluster_next_rebalance_timestamp_seconds')} - time()",
    unit="dtdurations",
    description="Time until the controller checks the balance next, at the earliest, if "
    "auto.leader.rebalance.enable is on; predicted, empty while there is no controller.",
    legend="at the earliest in",
    moved_by=DemoStep.DEPOSE,
)
NEXT_ELECTED = Signal(
    expr=highest("kafka_cluster_rebalance_electable_partitions"),
    description="Partitions that the controller's next automatic check would give back to brokers "
    "above the threshold, as predicted; 0 in a balanced cluster.",
    legend="elected then",
    moved_by=DemoStep.BRING_BACK,
)
NEXT_BLOCKED = Signal(
    expr=highest("kafka_cluster_rebalance_blocked_partitions", "reason"),
    description="Partitions that it cannot give back to those brokers, by the reason: the "
    "preferred replica is not_live or not_in_isr; 0 in a balanced cluster.",
    legend="{{reason}}",
    moved_by=DemoStep.KILL_FOLLOWER,
)
RECOMMENDED = Signal(
    expr=highest("kafka_cluster_recommended_partitions"),
    description="Partitions for which the monitor recommends a preferred election now, after half a "
    "minute above the threshold; `kcm recommend` prints them and the command. 0: none.",
    legend="recommended",
    moved_by=DrillStep.BOUNCE,
)
GRADED_DAY = Signal(
    expr=grown("kafka_cluster_recommendations_graded_total", "1d", "outcome"),
    description="Outcomes of recommendations within a day: mended, partly, relapsed (leaders were "
    "lost again within 5 minutes), withdrawn (nobody ran an election, and nothing was "
    "left to elect).",
    legend="{{outcome}}",
    moved_by=None,
    unmoved="Nothing in the demo or the drill moves it: a grade comes minutes after an election.",
)
