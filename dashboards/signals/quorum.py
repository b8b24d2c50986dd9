"""Signals about a KRaft cluster's quorum: whether it commits, who follows its leader, and what its metadata log holds.

A cluster in ZooKeeper has none of them.
"""

from controller_model.insight.quorum import LEAST_WITH_MARGIN
from controller_model.records.recent import FENCES_WINDOW
from dashboards.signals.signal import CONTEXT, Signal, age, grown, highest, newest

COMMITS_STOPPED = Signal(
    expr=highest("kafka_quorum_commits_stopped"),
    meaning="1 while nothing has been committed to the metadata log for 10 s although a leader answers: it appends a no-op "
    "every 500 ms.",
    normal="0. Empty: the leader does not answer DescribeQuorum.",
    action="Take a thread dump of the active controller.",
    runbook="KafkaQuorumCommitsStopped",
    legend="commits stopped",
)
LEADER_SILENT = Signal(
    expr=highest("kafka_quorum_leader_silent"),
    meaning="1 while the active controller does not answer the watcher although other controllers name it.",
    normal="0; 1 for seconds while its successor is elected. Empty: nobody is named, or nobody answers.",
    action="See whether its process runs, and how many voters do.",
    runbook="KafkaControllerSilent",
    legend="does not answer",
)
SPARE_VOTERS = Signal(
    expr=newest("kafka_quorum_spare_voters"),
    meaning="Voters that may be lost now while a majority of all voters still follows the leader.",
    normal="1 of 3 voters, 2 of 5.",
    action="At 0, stop and restart no controller: bring back the one that does not follow.",
    runbook="KafkaQuorumMarginLost",
    legend="may be lost",
)
QUORUM_MARGIN_LOST = Signal(
    expr=f"{SPARE_VOTERS.expr} and on (cluster) ({highest('kafka_quorum_voters')} >= {LEAST_WITH_MARGIN})",
    meaning="Voters that may be lost now, of a quorum with three voters or more: a smaller one has no margin at any time.",
    normal="1 of 3 voters, 2 of 5.",
    action="Stop and restart no controller: bring back the one that does not follow.",
    runbook="KafkaQuorumMarginLost",
    legend="may be lost",
)
VOTERS = Signal(
    expr=highest("kafka_quorum_voters"),
    meaning="Voters of the quorum. A majority of them must follow the leader, or nothing is committed.",
    normal="constant: 3 or 5.",
    action=CONTEXT,
    legend="voters",
)
VOTER_LAG = Signal(
    expr=highest("kafka_quorum_replica_lag_seconds", "node", only='role="voter"'),
    unit="s",
    meaning="Time since a voter last held all of the leader's log, by the leader's clock; since the election, if it has not "
    "yet.",
    normal="below 1 s.",
    action="Check whether that controller runs, then its disk and its network to the leader.",
    runbook="KafkaVoterBehind",
    legend="node {{node}}",
)
CONTROLLER_LAG = Signal(
    expr=highest("kafka_quorum_replica_lag_seconds", "node", "role"),
    unit="s",
    meaning="Time since a controller last held all of the leader's log, by the leader's clock. An observer does not vote.",
    normal="below 1 s.",
    action="Check whether that controller runs, then its disk and its network to the leader.",
    runbook="KafkaVoterBehind",
    legend="node {{node}} ({{role}})",
)
CONTROLLER_LAG_RECORDS = Signal(
    expr=highest("kafka_quorum_replica_lag_records", "node", "role"),
    meaning="Records of the metadata log that a controller lacks.",
    normal="0 or a few.",
    action="Check whether that controller runs, then its disk and its network to the leader.",
    runbook="KafkaVoterBehind",
    legend="node {{node}} ({{role}})",
)
QUORUM_NOT_KNOWN = Signal(
    expr=f"{highest('kafka_quorum_voters')} unless on (cluster) {highest('kafka_quorum_spare_voters')} "
    f"and on (cluster) ({newest('kafka_controller_id')} >= 0) "
    f"unless on (cluster) ({LEADER_SILENT.expr} == 1)",
    meaning="Voters of a quorum that has a leader which answers, and of which nobody knows who follows it.",
    normal="empty.",
    action="Grant the watcher's principal DESCRIBE on the cluster.",
    runbook="KcmQuorumNotKnown",
    legend="not known",
)
CANDIDACIES_HOUR = Signal(
    expr=grown("kafka_quorum_candidacies_total", "1h"),
    meaning="Epochs within an hour in which a candidate was not elected.",
    normal="0; 1 or 2 when a controller was lost.",
    action="If it grows on and on, the voters do not reach each other: check the network between them.",
    runbook="KafkaControllerMissing",
    legend="not elected",
)
COMMITTED_MINUTE = Signal(
    expr=grown("kafka_quorum_high_watermark_offset", "1m"),
    meaning="Records committed to the metadata log within a minute, no-ops included.",
    normal="about 90 while nothing changes.",
    action="At 0, nothing is committed.",
    runbook="KafkaQuorumCommitsStopped",
    legend="committed",
)
SNAPSHOT_AGE = Signal(
    expr=age("kafka_quorum_snapshot_timestamp_seconds"),
    unit="s",
    meaning="Time since the last record in the newest snapshot of the metadata log was appended.",
    normal="about an hour at most, by Kafka's defaults. Empty before a cluster's first snapshot.",
    action="Read the log of the active controller for errors of its SnapshotGenerator.",
    runbook="KafkaSnapshotOld",
    legend="ago",
)
SINCE_SNAPSHOT = Signal(
    expr=f"{highest('kafka_quorum_log_end_offset')} - {highest('kafka_quorum_snapshot_offset')}",
    meaning="Records of the metadata log behind the newest snapshot: a controller or broker that starts reads them one by "
    "one.",
    normal="below 10,000 while little changes.",
    action="If it only grows, no snapshot is taken.",
    runbook="KafkaSnapshotOld",
    legend="records",
)
FEATURE_LEVEL = Signal(
    expr=highest("kafka_quorum_feature_level", "feature"),
    meaning="Finalized level of a feature, such as metadata.version.",
    normal="constant; it rises with an upgrade.",
    action=CONTEXT,
    legend="{{feature}}",
)
UNKNOWN_RECORDS = Signal(
    expr=highest("kafka_quorum_unknown_records_total", "record"),
    meaning="Records of a newer Kafka that the watcher cannot read, by api key and version. Figures may lack what they "
    "changed.",
    normal="empty.",
    action="Upgrade the monitor.",
    runbook="KcmIncompleteOrDivergent",
    legend="{{record}}",
)
FENCES_RECENT = Signal(
    expr=highest("kafka_quorum_recent_fences", only=f'window="{FENCES_WINDOW}"'),
    meaning=f"Brokers that one epoch's controller fenced within {FENCES_WINDOW} and that were not restarted since.",
    normal="0.",
    action="If they are live, the controller does not handle their heartbeats: check its CPU, GC and disk.",
    runbook="KafkaFenceStorm",
    legend="fenced",
)
GONE_REGISTRATIONS = Signal(
    expr=highest("kafka_quorum_gone_registrations", "kind"),
    meaning="Nodes that are registered and gone, by kind: brokers that have been fenced for a day, and controllers of which "
    "the leader has not heard for a day, or not at all. They can block an upgrade of metadata.version.",
    normal="0.",
    action="Start them, or remove their registrations.",
    runbook="KafkaGoneNodeRegistered",
    legend="{{kind}}",
)
ISR_EMPTY = Signal(
    expr=highest("kafka_cluster_empty_isr_partitions"),
    meaning="Partitions with nobody in sync. An eligible leader replica can lead them without a loss.",
    normal="0. Empty: the cluster has no eligible leader replicas.",
    action="Start the brokers that are eligible leader replicas.",
    runbook="KafkaIsrEmpty",
    legend="ISR empty",
)
WITH_ELR = Signal(
    expr=highest("kafka_cluster_elr_partitions"),
    meaning="Partitions with eligible leader replicas: they are below min.insync.replicas.",
    normal="0.",
    action="Start the brokers that are down.",
    runbook="KafkaPartitionsUnderMinIsr",
    legend="with eligible leader replicas",
)
RECOVERING = Signal(
    expr=highest("kafka_cluster_recovering_partitions"),
    meaning="Partitions whose leader came from an unclean election and has not recovered yet: nobody joins their ISR.",
    normal="0; above 0 for seconds after an unclean election.",
    action="Read server.log of the leaders.",
    runbook="KafkaPartitionsRecovering",
    legend="recovering",
)
