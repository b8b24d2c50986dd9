"""Signals about the monitor itself: whether its figures follow the cluster, and whether they are proven.

Missing data is shown. A cluster that is no longer served is reported as missing, not forgotten.
"""

from controller_model.records.completeness import LATE_BEATS_MS
from dashboards.signals.signal import (
    CONTEXT,
    Signal,
    age,
    by,
    grown,
    highest,
    of_all_clusters,
    selected,
)

SEEN_WINDOW = "6h"
"""How long a cluster that is no longer served is reported as missing: long enough for a night shift to notice. One that
was removed on purpose is no longer reported on the same day."""

STANDBY_WINDOW = "3d"
STANDBY_SEEN = 2
"""Samples, one every 10 minutes, with two watchers that make them a pair: while a single watcher is updated there
are two for a minute, which at most one sample sees."""

CHECKPOINT_CLAIM = 'persistentvolumeclaim=~"checkpoint-.*"'
"""The name that the chart gives the volume claim; the chart replaces it with the real one."""

KNOWN = f"max by (cluster) (present_over_time({selected('kcm_cluster_up')}[{SEEN_WINDOW}]))"
"""1 for each cluster that is served, or was within `SEEN_WINDOW`."""

_BLIND = 'status="blind"'

STATUS = Signal(
    expr=f"{highest('kcm_cluster_status', 'status')} == 1",
    meaning="Status of the figures. live: they follow ZooKeeper, or the metadata log. clocks_disagree: they do, but times are "
    "wrong. behind: a stage is late. incomplete: changes may be missing. divergent: a reconciliation "
    "found a difference. blind: the watcher has no ZooKeeper session, or no controller answers it. kraft: a KRaft "
    "controller runs a cluster that is watched in ZooKeeper, which does not show all of it.",
    normal="live.",
    action="See the row “Can I trust this?” for the stage at fault.",
    runbook="KcmBehind",
    legend="{{status}}",
)
FOLLOWED = Signal(
    expr=highest("kcm_cluster_up"),
    meaning="Whether the figures follow the cluster now. If not, they show the cluster as it was when they "
    "last did. Not served: Prometheus scrapes no exporter that serves the cluster.",
    normal="1 (yes).",
    action="See the status beside it and the board Pipeline.",
    runbook="KcmBlind",
    legend="followed",
)
FOLLOWED_NOT = Signal(
    expr=f"1 - {FOLLOWED.expr}",
    meaning="1 while the figures do not follow the cluster. Graphs repeat the last known values meanwhile.",
    normal="0.",
    action="See the board Pipeline.",
    runbook="KcmBlind",
    legend="not followed: old values",
)
DOUBTFUL = Signal(
    expr=f"{highest('kcm_cluster_incomplete')} + {highest('kcm_cluster_divergent')}",
    meaning="Whether changes may be missing (incomplete) or a reconciliation found a difference to what the cluster "
    "holds (divergent).",
    normal="0 (neither); incomplete for seconds while a resync runs.",
    action="If it lasts, read the watcher's log; a restart of the watcher starts a resync.",
    runbook="KcmIncompleteOrDivergent",
    legend="incomplete or divergent",
)
VERIFIED_AGE = Signal(
    expr=age("kcm_cluster_verified_timestamp_seconds"),
    unit="dtdurations",
    meaning="Time since a resync or a reconciliation last proved that the figures equal ZooKeeper, or since all of a "
    "metadata log was last held up to its end.",
    normal="a few minutes at most.",
    action="If it grows, read the watcher's log.",
    runbook="KcmIncompleteOrDivergent",
    legend="ago",
)
BEHIND = Signal(
    expr=highest("kcm_cluster_behind_seconds", "stage"),
    unit="s",
    meaning="Time since each stage last kept up, by the exporter's own clock. "
    f"Above {LATE_BEATS_MS / 1000:g} s the status is behind.",
    normal="about 1 s.",
    action="Read the log of the first stage that is late: watcher, fold, exporter.",
    runbook="KcmBehind",
    legend="{{stage}}",
)
CLOCK_SKEW = Signal(
    expr=f"max {by('stage')} (abs({selected('kcm_clock_skew_seconds')}))",
    unit="s",
    meaning="Difference between the clock of a stage (or of ZooKeeper, or the active controller) and the exporter's. Above 5 s the "
    "status is clocks_disagree.",
    normal="below 1 s with NTP.",
    action="Set the clock of the machine that differs.",
    runbook="KcmClocksDisagree",
    legend="{{stage}}",
)
BLIND = Signal(
    expr=(
        f"{KNOWN} unless on (cluster) (min by (cluster) ({selected('kcm_cluster_status', only=_BLIND)}) == 0)"
    ),
    meaning=f"1 for a cluster that was served within {SEEN_WINDOW} and is not seen now: the watcher has no "
    "ZooKeeper session, no controller answers it, or no exporter that serves it is scraped.",
    normal="empty.",
    action="Check whether the exporter answers /readyz, then the watcher's log.",
    runbook="KcmBlind",
    legend="blind",
)
NOT_SERVED = Signal(
    expr=of_all_clusters(f"absent({highest('kcm_cluster_up')})"),
    meaning="1 while no scraped exporter serves a cluster. The chart asks for each cluster that it knows.",
    normal="empty.",
    action="Check whether the exporter answers /readyz and whether its target is up in Prometheus.",
    runbook="KcmNotServed",
    legend="not served",
)
_WATCHERS = f"count by (cluster) ({selected('kcm_watcher_leader')})"
_LEADING = f"sum by (cluster) ({selected('kcm_watcher_leader')})"

NO_WATCHER_LEADS = Signal(
    expr=f"max by (cluster) (present_over_time({selected('kcm_watcher_leader')}[{SEEN_WINDOW}])) "
    f"unless on (cluster) ({_LEADING} > 0)",
    meaning=f"1 for a cluster whose watchers were scraped within {SEEN_WINDOW} and of which none leads "
    "now. Changes are not recorded.",
    normal="empty.",
    action="Read the watchers' logs: each says why it does not lead.",
    runbook="KcmNoWatcherLeads",
    legend="no watcher leads",
)
STANDBY_MISSING = Signal(
    expr=f"{_WATCHERS} < 2 and on (cluster) (count_over_time(({_WATCHERS} >= 2)"
    f"[{STANDBY_WINDOW}:10m]) >= {STANDBY_SEEN})",
    meaning=f"Watchers of a cluster that had two within {STANDBY_WINDOW} and has one now. If that one is "
    "lost, none takes over. The chart compares with the number of replicas that it sets.",
    normal="empty.",
    action="Start the standby, or see why its pod does not run.",
    runbook="KcmStandbyMissing",
    legend="watchers",
)
PATHS_DENIED = Signal(
    expr=f"{highest('kcm_cluster_denied_paths')} unless on (cluster) "
    f"({highest('kcm_cluster_incomplete')} == 0)",
    meaning="Paths that the watcher may not read, while figures are incomplete because of them. What "
    "Kafka's own ACLs deny to everybody (/config/brokers) counts only together with other paths.",
    normal="empty.",
    action="Give the watcher's user the right to read them.",
    runbook="KcmPathsDenied",
    legend="denied",
    only_in_zookeeper=True,
)
FOLD_RESTARTS = Signal(
    expr=of_all_clusters(
        "sum(max by (reason) (kcm_fold_restarts_total{}) - "
        "min by (reason) (min_over_time(kcm_fold_restarts_total{}[1h])))"
    ),
    meaning="Restarts of the fold's query within an hour.",
    normal="0.",
    action="Read the fold's log: it says what failed each time.",
    runbook="KcmFoldRestarts",
    legend="restarts",
)
CHECKPOINT_FREE = Signal(
    expr=of_all_clusters(
        "min by (namespace, persistentvolumeclaim) (kubelet_volume_stats_available_bytes"
        f"{{{CHECKPOINT_CLAIM}}}) / min by (namespace, persistentvolumeclaim) "
        f"(kubelet_volume_stats_capacity_bytes{{{CHECKPOINT_CLAIM}}})"
    ),
    unit="percentunit",
    meaning="Free share of the volume of the fold's checkpoint, by kubelet's metrics. No series where "
    "there is no kubelet.",
    normal="above 50 %.",
    action="Enlarge the volume claim.",
    runbook="KcmCheckpointFull",
    legend="free",
)
WATCHER_CONNECTED = Signal(
    expr=highest("kcm_cluster_watcher_connected"),
    meaning="1 while the watcher's ZooKeeper session is CONNECTED. At 0 the figures are not updated.",
    normal="1 (yes).",
    action="Check the ensemble, then the watcher's log.",
    runbook="KcmBlind",
    legend="connected",
    only_in_zookeeper=True,
)
RESYNCS_HOUR = Signal(
    expr=grown("kcm_cluster_resyncs_total", "1h"),
    meaning="Finished resyncs within an hour. A resync reads the whole tree, or a snapshot of a metadata log.",
    normal="0; 1 a day, and 1 after each start, reconnect or request.",
    action="If there are more, see the holes in the log and the session of the watcher.",
    runbook="KcmIncompleteOrDivergent",
    legend="resyncs",
)
RECONCILIATIONS_HOUR = Signal(
    expr=grown("kcm_cluster_reconciliations_total", "1h"),
    meaning="Finished reconciliations within an hour, of the figures with ZooKeeper, or with the metadata log read anew.",
    normal="one every few minutes.",
    action="If there are none, read the watcher's log.",
    runbook="KcmIncompleteOrDivergent",
    legend="reconciliations",
)
RESYNC_WANTED = Signal(
    expr=highest("kcm_cluster_resync_wanted"),
    meaning="1 while the fold asks the watcher for a resync.",
    normal="0; 1 for seconds.",
    action="If it stays 1, the watcher does not answer: read its log.",
    runbook="KcmIncompleteOrDivergent",
    legend="resync wanted",
)
RESYNC_UNDER_WAY = Signal(
    expr=highest("kcm_cluster_resync_under_way"),
    meaning="1 while the watcher reads the whole tree, or a snapshot.",
    normal="0; 1 for seconds after a start or a reconnect.",
    action="If it stays 1, ZooKeeper is slow or refuses reads.",
    runbook="KcmIncompleteOrDivergent",
    legend="resync under way",
)
LOG_HOLES_HOUR = Signal(
    expr=grown("kcm_cluster_log_holes_total", "1h"),
    meaning="Holes in the log of changes within an hour. Each starts a resync.",
    normal="0.",
    action="Check the retention of the topic of changes and the pipeline's Kafka.",
    runbook="KcmIncompleteOrDivergent",
    legend="holes",
)
DROPPED_HOUR = Signal(
    expr=grown("kcm_cluster_dropped_changes_total", "1h"),
    meaning="Changes within an hour that the watcher dropped because its buffer was full. A resync follows.",
    normal="0.",
    action="Check the pipeline's Kafka: it did not accept them.",
    runbook="KcmIncompleteOrDivergent",
    legend="dropped",
)
UNREADABLE_HOUR = Signal(
    expr=grown("kcm_cluster_unreadable_records_total", "1h"),
    meaning="Payloads of znodes, and records of the log or of a metadata log, within an hour that could not be decoded.",
    normal="0.",
    action="Find the znode with `kcm events`: somebody wrote it by hand, or a new release of Kafka did.",
    legend="unreadable",
)
ERRORS_HOUR = Signal(
    expr=grown("kcm_cluster_errors_total", "1h"),
    meaning="Changes within an hour that were skipped because of an error in the monitor.",
    normal="0.",
    action="Report the error with the lines of the fold's log: it is a bug.",
    legend="errors",
)
ANOMALIES_HOUR = Signal(
    expr=grown("kcm_cluster_anomalies_total", "1h"),
    meaning="Changes within an hour that Kafka does not make, or that are impossible.",
    normal="0.",
    action="Read `kcm events`: each is an event that says which znode or record, and what was wrong.",
    legend="anomalies",
)
MISSED_UPDATES_HOUR = Signal(
    expr=grown("kcm_cluster_missed_updates_total", "1h"),
    meaning="Updates of znodes within an hour that were overwritten before the watcher read them. The "
    "last value is right.",
    normal="0; a few under load.",
    action="If there are many, check the watcher's CPU and ZooKeeper's latency.",
    legend="merged",
    only_in_zookeeper=True,
)
DENIED_PATHS = Signal(
    expr=highest("kcm_cluster_denied_paths"),
    meaning="Paths that the watcher may not read. Figures that need them are not known.",
    normal="0.",
    action="Give the watcher's user the right to read them.",
    runbook="KcmPathsDenied",
    legend="denied",
    only_in_zookeeper=True,
)
LAST_CHANGE_AGE = Signal(
    expr=age("kcm_cluster_last_change_timestamp_seconds"),
    unit="dtdurations",
    meaning="Time since the last change of a znode, or of a metadata log, no-ops apart.",
    normal="seconds to hours; long in a quiet cluster.",
    action=CONTEXT,
    legend="ago",
)
ZNODES = Signal(
    expr=highest("kcm_cluster_znodes"),
    meaning="Znodes from which the figures are computed.",
    normal="constant; it grows with topics and partitions.",
    action=CONTEXT,
    legend="znodes",
    only_in_zookeeper=True,
)
