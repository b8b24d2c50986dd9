"""Signals about the monitor itself: whether its figures follow, and whether they are proven.

The rule: silence is shown. A cluster that is not served any more is missed, not forgotten.
"""

from __future__ import annotations

from dashboards.signals.signal import DemoStep, DrillStep, Signal, age, by, grown, highest, selected

SEEN_WINDOW = "6h"
"""For how long a cluster that is served no more is missed: a night shift notices, and one taken
out on purpose is missed no more on the same day."""

KNOWN = f"max by (cluster) (present_over_time({selected('kcm_cluster_up')}[{SEEN_WINDOW}]))"
"""1 for each cluster that is served, or was not long ago."""

_BLIND = 'status="blind"'

STATUS = Signal(
    expr=f"{highest('kcm_cluster_status', 'status')} == 1",
    description="What the figures are worth: live; clocks_disagree (live but for times), behind (a "
    "stage is late), incomplete (changes may lack), divergent (proven wrong), blind (no ZooKeeper).",
    legend="{{status}}",
    moved_by=DrillStep.BLIND,
)
FOLLOWED = Signal(
    expr=highest("kcm_cluster_up"),
    description="Whether the figures follow ZooKeeper now; if not, they are what was true when "
    "they last did. Not served: no exporter that serves the cluster is scraped.",
    legend="followed",
    moved_by=DrillStep.BLIND,
)
DOUBTFUL = Signal(
    expr=f"{highest('kcm_cluster_incomplete')} + {highest('kcm_cluster_divergent')}",
    description="Whether changes may lack (incomplete) or a reconciliation proved a difference to "
    "ZooKeeper (divergent); neither in good order, incomplete for seconds while a resync runs.",
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
    description="Time since each stage was last known to be in time, by the exporter's own clock; "
    "about 1 s in good order, behind above 3 s.",
    legend="{{stage}}",
    moved_by=DemoStep.CREATE,
)
CLOCK_SKEW = Signal(
    expr=f"max {by('stage')} (abs({selected('kcm_clock_skew_seconds')}))",
    unit="s",
    description="By how much the clocks of a stage and of the exporter disagree; below 1 s with NTP, a "
    "status of its own above 5 s.",
    legend="{{stage}}",
    moved_by=None,
    unmoved="Nothing in the demo or the drill sets a machine's clock.",
)
BLIND = Signal(
    expr=(
        f"{KNOWN} unless on (cluster) (min by (cluster) ({selected('kcm_cluster_status', only=_BLIND)}) == 0)"
    ),
    description=f"1 for a cluster that was served within {SEEN_WINDOW} and is not seen now: the "
    "watcher has no ZooKeeper session, or no exporter is scraped that serves it. Nothing in "
    "good order.",
    legend="blind",
    moved_by=DrillStep.BLIND,
)
WATCHER_CONNECTED = Signal(
    expr=highest("kcm_cluster_watcher_connected"),
    description="1 while the watcher's ZooKeeper session is CONNECTED; at 0 the figures stand "
    "still.",
    legend="connected",
    moved_by=DrillStep.BLIND,
)
RESYNCS_HOUR = Signal(
    expr=grown("kcm_cluster_resyncs_total", "1h"),
    description="Finished readings of the whole tree within an hour; 0 in good order but for one "
    "a day, one after each start, reconnect or request.",
    legend="resyncs",
    moved_by=DrillStep.BLIND,
)
AUDITS_HOUR = Signal(
    expr=grown("kcm_cluster_audits_total", "1h"),
    description="Finished reconciliations of the figures against ZooKeeper within an hour; one every few "
    "minutes.",
    legend="reconciliations",
    moved_by=DrillStep.INVITE,
)
RESYNC_WANTED = Signal(
    expr=highest("kcm_cluster_resync_wanted"),
    description="1 while the fold asks the watcher for a resync; 0 in good order.",
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
    description="Holes in the log of changes within an hour; 0 in good order, each asks for a "
    "resync.",
    legend="holes",
    moved_by=DrillStep.HOLE,
)
DROPPED_HOUR = Signal(
    expr=grown("kcm_cluster_dropped_changes_total", "1h"),
    description="Changes that the watcher could not buffer and threw away within an hour; 0 in "
    "good order.",
    legend="dropped",
    moved_by=DrillStep.FLOOD,
)
UNREADABLE_HOUR = Signal(
    expr=grown("kcm_cluster_unreadable_records_total", "1h"),
    description="Payloads of znodes and records of the log within an hour that could not be "
    "read; 0 in good order.",
    legend="unreadable",
    moved_by=DrillStep.MEDDLE,
)
ERRORS_HOUR = Signal(
    expr=grown("kcm_cluster_errors_total", "1h"),
    description="Changes within an hour that met an error of ours and were skipped; 0: report it "
    "otherwise.",
    legend="errors",
    moved_by=None,
    unmoved="Nothing in the demo or the drill moves it: only an error in the monitor's own code does.",
)
ANOMALIES_HOUR = Signal(
    expr=grown("kcm_cluster_anomalies_total", "1h"),
    description="Things within an hour that Kafka does not write or that cannot be; 0 in good "
    "order, see the events.",
    legend="anomalies",
    moved_by=DrillStep.MEDDLE,
)
MISSED_UPDATES_HOUR = Signal(
    expr=grown("kcm_cluster_missed_updates_total", "1h"),
    description="Updates within an hour that ZooKeeper merged before they could be read: the "
    "last value is right. A few under load.",
    legend="merged",
    moved_by=DrillStep.MEDDLE,
)
DENIED_PATHS = Signal(
    expr=highest("kcm_cluster_denied_paths"),
    description="Paths that the watcher may not read, so that what depends on them is unknown; 0 "
    "when it may read all.",
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
    description="Znodes that the figures stand on; grows with topics and partitions.",
    legend="znodes",
    moved_by=DemoStep.CREATE,
)
