"""The figures about the monitor's own work on a cluster: how fresh, how complete, what was lost.

Staleness is shown, never hidden. Points in time are timestamps, so that a scrape computes
nothing; the few figures that must be ages or states are read from a `Moment`.
"""

from collections.abc import Callable, Mapping

from controller_model.metrics.metric import (
    Moment,
    Sample,
    Samples,
    Table,
    figure,
    seconds,
    state_of,
)
from controller_model.records.changes import SessionState
from controller_model.records.completeness import LATE_BEATS_MS, LATE_MS, Stage, Status
from controller_model.records.recent import FENCES_WINDOW, LEAVES_WINDOW, LEAVES_WINDOW_MINUTES
from controller_model.records.views import ClusterView

_LATE_S = LATE_MS // 1000
_LATE_BEATS_S = LATE_BEATS_MS / 1000


def _of_znodes(text: str, read: Callable[[ClusterView], float | None]) -> Samples[ClusterView]:
    """Return a figure of how znodes are read, which a KRaft cluster does not have."""
    return figure(text, lambda view: read(view) if view.has_zookeeper else None)


LOG: Table[ClusterView] = {
    "kcm_cluster_watcher_info": Samples(
        "Name of the cluster's watcher and the ZooKeeper server that its session is on, which is empty in KRaft; "
        "absent before its first change.",
        ("watcher", "zookeeper"),
        lambda view: [((name, view.log.zookeeper or ""), 1)] if (name := view.log.watcher) else [],
    ),
    "kcm_cluster_watcher_connected": figure(
        "Whether the watcher's ZooKeeper session is CONNECTED (1) or not (0), in which case the figures are not "
        "updated; absent before its state is known, and in KRaft.",
        lambda view: (
            None
            if (session := view.log.session) is None
            else int(session is SessionState.CONNECTED)
        ),
    ),
    "kcm_cluster_watcher_session_since_timestamp_seconds": figure(
        "Unix time in seconds since when the watcher's ZooKeeper session has been CONNECTED, or has not; absent before "
        "that is known, and in KRaft.",
        lambda view: seconds(view.log.session_since),
    ),
    "kcm_cluster_watcher_heartbeat_timestamp_seconds": figure(
        "Unix time in seconds of the last heartbeat of the watcher that the fold has processed, "
        "one every 10 s; absent before the first.",
        lambda view: seconds(view.log.heartbeat_at),
    ),
    "kcm_cluster_folded_timestamp_seconds": figure(
        "Unix time in seconds when the fold last wrote the cluster's figures; it writes every 10 "
        "s at least.",
        lambda view: seconds(view.folded_at),
    ),
    "kcm_cluster_last_change_timestamp_seconds": figure(
        "Unix time in seconds when the watcher saw the last change of a znode, or when the last record of a metadata "
        "log was appended, no-ops apart; absent before the first.",
        lambda view: seconds(view.log.last_change_at),
    ),
    "kcm_cluster_last_change_mtime_timestamp_seconds": figure(
        "Unix time in seconds when ZooKeeper committed the last change of a znode that was seen; absent before the "
        "first, and in KRaft.",
        lambda view: seconds(view.log.last_change_mtime),
    ),
    "kcm_cluster_counters_since_timestamp_seconds": figure(
        "Unix time in seconds when this cluster's counters started at 0.",
        lambda view: seconds(view.counters_since),
    ),
    "kcm_cluster_znodes": _of_znodes(
        "Number of znodes from which the figures are computed; absent in KRaft.",
        lambda view: view.log.znodes,
    ),
    "kcm_cluster_verified_timestamp_seconds": figure(
        "Unix time in seconds when a resync or a reconciliation last proved the figures equal to ZooKeeper, or all of a "
        "metadata log up to its end was held; absent before the first proof.",
        lambda view: seconds(view.log.verified_at),
    ),
    "kcm_cluster_divergent": figure(
        "Whether a reconciliation has proved that the figures differ from what ZooKeeper or the metadata log holds "
        "(1) or not (0).",
        lambda view: int(view.log.divergent_since is not None),
    ),
    "kcm_cluster_divergent_since_timestamp_seconds": figure(
        "Unix time in seconds since when the figures have been known to differ from what the cluster holds; absent "
        "while they do not.",
        lambda view: seconds(view.log.divergent_since),
    ),
    "kcm_cluster_incomplete": figure(
        "Whether changes may be missing from the figures (1) or not (0); also 1 before the first proof, while paths "
        "that they need may not be read, and where records of a newer KRaft quorum were skipped.",
        lambda view: int(view.log.incomplete),
    ),
    "kcm_cluster_incomplete_since_timestamp_seconds": figure(
        "Unix time in seconds since when the figures may have been missing changes; absent while "
        "none can be missing.",
        lambda view: seconds(view.log.incomplete_since),
    ),
    "kcm_cluster_denied_paths": _of_znodes(
        "Number of ZooKeeper paths that the watcher may not read; figures that need them are "
        "absent, as is this one in KRaft.",
        lambda view: len(view.log.denied) + view.log.denied_more,
    ),
    "kcm_cluster_resync_under_way": figure(
        "Whether the watcher is reading the whole tree, or a snapshot of a metadata log (1) or not (0); it does so for seconds "
        "after a start or a reconnect.",
        lambda view: int(view.log.resync_under_way),
    ),
    "kcm_cluster_resync_wanted": figure(
        "Whether the fold is asking the watcher for a resync, in KRaft for a part of the metadata log or a snapshot "
        "(1), or not (0).",
        lambda view: int(view.resync_wanted is not None),
    ),
    "kcm_cluster_resyncs_total": figure(
        "Finished resyncs, each of which reads the whole tree, or a snapshot of a metadata log.",
        lambda view: view.log.resyncs,
    ),
    "kcm_cluster_reconciliations_total": figure(
        "Finished reconciliations, each of which compares the figures with ZooKeeper, or with the metadata log as it "
        "is read anew; one every few minutes.",
        lambda view: view.log.reconciliations,
    ),
    "kcm_cluster_log_holes_total": figure(
        "Holes found in the log of changes, each of which starts a resync, in KRaft another reading of what is "
        "missing.",
        lambda view: view.log.holes,
    ),
    "kcm_cluster_dropped_changes_total": figure(
        "Changes that the watcher dropped because its buffer was full.",
        lambda view: view.log.dropped_by_watcher,
    ),
    "kcm_cluster_repeated_changes_total": figure(
        "Changes that were read again and skipped, which is harmless.",
        lambda view: view.log.not_newer,
    ),
    "kcm_cluster_stale_changes_total": _of_znodes(
        "Changes that were skipped because their value was older than the one held, which is "
        "harmless; absent in KRaft, whose log has one order.",
        lambda view: view.log.stale,
    ),
    "kcm_cluster_missed_updates_total": _of_znodes(
        "Updates of a znode that were overwritten before they could be read; absent in KRaft, whose log holds each.",
        lambda view: view.log.missed_updates,
    ),
    "kcm_cluster_unreadable_records_total": figure(
        "Payloads of znodes, records of the log and of a KRaft quorum's that could not be read.",
        lambda view: view.log.unreadable,
    ),
    "kcm_cluster_anomalies_total": figure(
        "Anomalies: changes that Kafka does not write or that are impossible; the events describe "
        "them.",
        lambda view: view.log.anomalies,
    ),
    "kcm_cluster_errors_total": figure(
        "Changes that were skipped because of an error in the monitor, which is a bug to report.",
        lambda view: view.log.errors,
    ),
}


def _by_stage(times_ms: Mapping[Stage, int]) -> list[Sample]:
    return [((str(stage),), time_ms / 1000) for stage, time_ms in times_ms.items()]


NOW: Table[Moment] = {
    "kcm_cluster_up": figure(
        "Whether the figures follow the cluster (1) or not (0): ZooKeeper or a KRaft controller answers and shows all "
        "of it, and each stage gave a sign of life within 2.9 s (25 s without beats).",
        lambda moment: int(moment.completeness.up),
    ),
    "kcm_cluster_status": Samples(
        "Status of the figures (1: current): live, clocks_disagree, behind (a stage is late), incomplete, divergent "
        "(proved wrong), blind (neither ZooKeeper nor KRaft answers), kraft (it leaves ZooKeeper).",
        ("status",),
        lambda moment: state_of(Status, moment.completeness.status),
    ),
    "kcm_cluster_behind_seconds": Samples(
        "Seconds since each stage (watcher, fold, exporter) was last known to keep up, by the "
        "exporter's own clock; about 1 in a healthy pipeline.",
        ("stage",),
        lambda moment: _by_stage(moment.behind_ms),
    ),
    "kcm_clock_skew_seconds": Samples(
        "Seconds by which the clock of a stage (zookeeper or a KRaft controller, watcher, fold) is ahead of the "
        "exporter's, negative if behind; of the first a lower bound; absent before it is known.",
        ("stage",),
        lambda moment: _by_stage(moment.clock_skew_ms),
    ),
    "kafka_controller_vacant_seconds": figure(
        "Seconds since there is no active controller (/controller is vacant, or a KRaft quorum has no leader); 0 while "
        "there is one, absent where that is not known, as during a migration to KRaft.",
        lambda moment: seconds(moment.vacant_ms),
    ),
    "kafka_controller_recent_elections": Samples(
        "Controller elections in the last 10 minutes (10m), hour (1h) and 6 hours (6h), by the cluster's times, so "
        "that old ones read late do not count; 0 in a healthy cluster, absent while not known.",
        ("window",),
        lambda moment: [((window,), n) for window, n in moment.recent_elections.items()],
    ),
    "kafka_broker_recent_isr_leaves": Samples(
        f"Minutes, of the last {LEAVES_WINDOW_MINUTES} ({LEAVES_WINDOW}), in which a replica of the broker left an ISR, by "
        "the cluster's times and without removals by a reassignment; 0 in a healthy cluster, at most 2 after a restart.",
        ("broker", "window"),
        lambda moment: [
            ((str(id_), LEAVES_WINDOW), n) for id_, n in moment.isr_leave_minutes.items()
        ],
    ),
    "kafka_quorum_recent_fences": Samples(
        "Brokers that the controller fenced in the last 10 minutes (10m) within one epoch, and that have not "
        "registered again since; 0 in a healthy cluster, absent outside KRaft.",
        ("window",),
        lambda moment: (
            () if (count := moment.recent_fences) is None else [((FENCES_WINDOW,), count)]
        ),
    ),
    "kafka_quorum_gone_registrations": Samples(
        "Registered nodes that can block an upgrade: brokers fenced for a day, controllers that the leader does not "
        "know or did not hear for a day; 0 in a healthy cluster, absent outside KRaft or if not known.",
        ("kind",),
        lambda moment: [
            ((kind,), len(nodes)) for kind, nodes in (moment.gone_registrations or {}).items()
        ],
    ),
    "kafka_cluster_next_rebalance_timestamp_seconds": figure(
        "Earliest Unix time in seconds at which the controller next checks leader balance, if its settings are Kafka's "
        "defaults; absent without a controller and in KRaft, which has no fixed times.",
        lambda moment: seconds(moment.next_rebalance_at),
    ),
}
