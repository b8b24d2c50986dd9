"""Signals about the monitor itself: whether its figures follow ZooKeeper, and whether they are proven.

The rule: missing data is shown. A cluster that is no longer served is reported as missing, not forgotten.
"""

from controller_model.records.completeness import LATE_BEATS_MS
from dashboards.signals.signal import (
    DemoStep,
    DrillStep,
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
    description="Status of the figures: live, clocks_disagree (live, only times are off), behind "
    "(a stage is late), incomplete (changes may be missing), divergent (proven wrong), "
    "blind (no ZooKeeper).",
    legend="{{status}}",
    moved_by=DrillStep.BLIND,
)
FOLLOWED = Signal(
    expr=highest("kcm_cluster_up"),
    description="Whether the figures follow ZooKeeper now; if not, they show the cluster as it was "
    "when they last did. Not served: Prometheus scrapes no exporter that serves the "
    "cluster.",
    legend="followed",
    moved_by=DrillStep.BLIND,
)
FOLLOWED_NOT = Signal(
    expr=f"1 - {FOLLOWED.expr}",
    description="1 while the figures do not follow ZooKeeper: meanwhile, the graphs repeat the "
    "last known values.",
    legend="not followed: old values",
    moved_by=DrillStep.BLIND,
)
DOUBTFUL = Signal(
    expr=f"{highest('kcm_cluster_incomplete')} + {highest('kcm_cluster_divergent')}",
    description="Whether changes may be missing (incomplete) or a reconciliation proved a "
    "difference to ZooKeeper (divergent); normally neither, and incomplete for seconds "
    "while a resync runs.",
    legend="incomplete or divergent",
    moved_by=DrillStep.HOLE,
)
VERIFIED_AGE = Signal(
    expr=age("kcm_cluster_verified_timestamp_seconds"),
    unit="dtdurations",
    description="How long ago a resync or a reconciliation last proved the figures equal to ZooKeeper; a "
    "few minutes at most.",
    legend="ago",
    moved_by=DrillStep.INVITE,
)
BEHIND = Signal(
    expr=highest("kcm_cluster_behind_seconds", "stage"),
    unit="s",
    description="Time since each stage was last known to keep up, by the exporter's own clock; "
    f"normally about 1 s, and above {LATE_BEATS_MS / 1000} s the status is behind.",
    legend="{{stage}}",
    moved_by=DemoStep.CREATE,
)
CLOCK_SKEW = Signal(
    expr=f"max {by('stage')} (abs({selected('kcm_clock_skew_seconds')}))",
    unit="s",
    description="Difference between the clock of a stage (or of ZooKeeper) and the exporter's; "
    "below 1 s with NTP, and above 5 s the status is clocks_disagree.",
    legend="{{stage}}",
    moved_by=None,
    unmoved="Nothing in the demo or the drill sets a machine's clock.",
)
BLIND = Signal(
    expr=(
        f"{KNOWN} unless on (cluster) (min by (cluster) ({selected('kcm_cluster_status', only=_BLIND)}) == 0)"
    ),
    description=f"1 for a cluster that was served within {SEEN_WINDOW} and is not seen now: the "
    "watcher has no ZooKeeper session, or no exporter that serves it is scraped. Normally "
    "empty.",
    legend="blind",
    moved_by=DrillStep.BLIND,
)
NOT_SERVED = Signal(
    expr=of_all_clusters(f"absent({highest('kcm_cluster_up')})"),
    description="1 while no scraped exporter serves a cluster, whatever was scraped before; "
    "normally empty. The chart asks for each cluster that it knows.",
    legend="not served",
    moved_by=None,
    unmoved="There is none while anything is scraped; the drill waits for its alert when the exporter is killed.",
)
_WATCHERS = f"count by (cluster) ({selected('kcm_watcher_leader')})"
_LEADING = f"sum by (cluster) ({selected('kcm_watcher_leader')})"

NO_WATCHER_LEADS = Signal(
    expr=f"max by (cluster) (present_over_time({selected('kcm_watcher_leader')}[{SEEN_WINDOW}])) "
    f"unless on (cluster) ({_LEADING} > 0)",
    description=f"1 for a cluster whose watchers were scraped within {SEEN_WINDOW} and of which none "
    "leads now: changes are not recorded. Normally empty.",
    legend="no watcher leads",
    moved_by=DrillStep.UNWATCHED,
)
STANDBY_MISSING = Signal(
    expr=f"{_WATCHERS} < 2 and on (cluster) (count_over_time(({_WATCHERS} >= 2)"
    f"[{STANDBY_WINDOW}:10m]) >= {STANDBY_SEEN})",
    description=f"Watchers of a cluster that had two within {STANDBY_WINDOW} and has one now: if it is "
    "lost, none takes over. Normally empty. The chart compares with the number of replicas that it sets.",
    legend="watchers",
    moved_by=None,
    unmoved="The clusters of the demo and the drill have one watcher each.",
)
PATHS_DENIED = Signal(
    expr=f"{highest('kcm_cluster_denied_paths')} unless on (cluster) "
    f"({highest('kcm_cluster_incomplete')} == 0)",
    description="Paths that the watcher may not read, while figures are incomplete because of "
    "them; what Kafka's own ACLs deny to everybody (/config/brokers) counts only "
    "together with other paths.",
    legend="denied",
    moved_by=None,
    unmoved="The drill takes only what Kafka's own ACLs take, too.",
)
FOLD_RESTARTS = Signal(
    expr=of_all_clusters(
        "sum(max by (reason) (kcm_fold_restarts_total{}) - "
        "min by (reason) (min_over_time(kcm_fold_restarts_total{}[1h])))"
    ),
    description="Restarts of the fold's query within an hour, for any reason; normally 0.",
    legend="restarts",
    moved_by=None,
    unmoved="The drill kills the fold's process, whose counter starts again with it.",
)
CHECKPOINT_FREE = Signal(
    expr=of_all_clusters(
        "min by (namespace, persistentvolumeclaim) (kubelet_volume_stats_available_bytes"
        f"{{{CHECKPOINT_CLAIM}}}) / min by (namespace, persistentvolumeclaim) "
        f"(kubelet_volume_stats_capacity_bytes{{{CHECKPOINT_CLAIM}}})"
    ),
    unit="percentunit",
    description="Free share of the volume of the fold's checkpoint, by kubelet's metrics; no "
    "series where there is no kubelet.",
    legend="free",
    moved_by=None,
    unmoved="The drill runs without Kubernetes.",
)
WATCHER_CONNECTED = Signal(
    expr=highest("kcm_cluster_watcher_connected"),
    description="1 while the watcher's ZooKeeper session is CONNECTED; at 0 the figures are not "
    "updated.",
    legend="connected",
    moved_by=DrillStep.BLIND,
)
RESYNCS_HOUR = Signal(
    expr=grown("kcm_cluster_resyncs_total", "1h"),
    description="Finished resyncs (readings of the whole tree) within an hour; normally 0, except "
    "for one a day and one after each start, reconnect or request.",
    legend="resyncs",
    moved_by=DrillStep.BLIND,
)
RECONCILIATIONS_HOUR = Signal(
    expr=grown("kcm_cluster_reconciliations_total", "1h"),
    description="Finished reconciliations of the figures against ZooKeeper within an hour; one every few "
    "minutes.",
    legend="reconciliations",
    moved_by=DrillStep.INVITE,
)
RESYNC_WANTED = Signal(
    expr=highest("kcm_cluster_resync_wanted"),
    description="1 while the fold asks the watcher for a resync; normally 0.",
    legend="resync wanted",
    moved_by=DrillStep.HOLE,
)
RESYNC_UNDER_WAY = Signal(
    expr=highest("kcm_cluster_resync_under_way"),
    description="1 while the watcher reads the whole tree; for seconds after a start or a "
    "reconnect.",
    legend="resync under way",
    moved_by=DrillStep.FLOOD,
)
LOG_HOLES_HOUR = Signal(
    expr=grown("kcm_cluster_log_holes_total", "1h"),
    description="Holes in the log of changes within an hour; normally 0, and each one starts a "
    "resync.",
    legend="holes",
    moved_by=DrillStep.HOLE,
)
DROPPED_HOUR = Signal(
    expr=grown("kcm_cluster_dropped_changes_total", "1h"),
    description="Changes that the watcher could not buffer and dropped within an hour; normally 0.",
    legend="dropped",
    moved_by=DrillStep.FLOOD,
)
UNREADABLE_HOUR = Signal(
    expr=grown("kcm_cluster_unreadable_records_total", "1h"),
    description="Payloads of znodes and records of the log within an hour that could not be read; "
    "normally 0.",
    legend="unreadable",
    moved_by=DrillStep.MEDDLE,
)
ERRORS_HOUR = Signal(
    expr=grown("kcm_cluster_errors_total", "1h"),
    description="Changes within an hour that were skipped because of an error in the monitor; "
    "above 0 is a bug to report.",
    legend="errors",
    moved_by=None,
    unmoved="Nothing in the demo or the drill moves it: only an error in the monitor's own code does.",
)
ANOMALIES_HOUR = Signal(
    expr=grown("kcm_cluster_anomalies_total", "1h"),
    description="Changes within an hour that Kafka does not write or that are impossible; normally "
    "0, and the events describe them.",
    legend="anomalies",
    moved_by=DrillStep.MEDDLE,
)
MISSED_UPDATES_HOUR = Signal(
    expr=grown("kcm_cluster_missed_updates_total", "1h"),
    description="Updates of znodes within an hour that were overwritten before they could be read: "
    "the last value is right. A few under load.",
    legend="merged",
    moved_by=DrillStep.MEDDLE,
)
DENIED_PATHS = Signal(
    expr=highest("kcm_cluster_denied_paths"),
    description="Paths that the watcher may not read, so that the figures that need them are "
    "unknown; 0 when it may read all.",
    legend="denied",
    moved_by=DrillStep.DENY,
)
LAST_CHANGE_AGE = Signal(
    expr=age("kcm_cluster_last_change_timestamp_seconds"),
    unit="dtdurations",
    description="How long ago the last change of a znode was seen; long in a quiet cluster.",
    legend="ago",
    moved_by=DemoStep.CREATE,
)
ZNODES = Signal(
    expr=highest("kcm_cluster_znodes"),
    description="Znodes from which the figures are computed; grows with topics and partitions.",
    legend="znodes",
    moved_by=DemoStep.CREATE,
)
