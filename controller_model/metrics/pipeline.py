"""The figures about the monitor's own work on a cluster: how fresh, how complete, what was lost.

The rule: staleness is told, never hidden. Points in time are told as timestamps, so a scrape
costs nothing; the few that must be ages or verdicts are read from a `Moment`.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller_model.metrics.metric import (
    Metric,
    MetricType,
    Moment,
    Sample,
    counter,
    gauge,
    labelled,
    seconds,
    state_of,
)
from controller_model.records.changes import SessionState
from controller_model.records.completeness import LATE_MS, Status
from controller_model.records.views import ClusterView

_LATE_S = LATE_MS // 1000


def _watcher_info(view: ClusterView) -> list[Sample]:
    log = view.log
    return [((log.watcher, log.zookeeper or ""), 1)] if log.watcher else []


def _connected(view: ClusterView) -> int | None:
    session = view.log.session
    return None if session is None else int(session is SessionState.CONNECTED)


LOG: tuple[Metric[ClusterView], ...] = (
    labelled(
        "kcm_cluster_watcher_info",
        "The watcher of the cluster and the ZooKeeper server that its session is on.",
        ("watcher", "zookeeper"),
        _watcher_info,
    ),
    gauge(
        "kcm_cluster_watcher_connected",
        "1 while the watcher's ZooKeeper session is CONNECTED; at 0 nobody sees what happens "
        "there, and the figures stand still.",
        _connected,
    ),
    gauge(
        "kcm_cluster_watcher_session_since_timestamp_seconds",
        "Since when the watcher's session has been as it is.",
        lambda view: seconds(view.log.session_since),
    ),
    gauge(
        "kcm_cluster_watcher_heartbeat_timestamp_seconds",
        "The watcher's last heartbeat that was folded, by its clock; moves every 10 s.",
        lambda view: seconds(view.log.heartbeat_at),
    ),
    gauge(
        "kcm_cluster_folded_timestamp_seconds",
        "When the fold last wrote the cluster's figures, by its clock; moves every 10 s at least.",
        lambda view: seconds(view.folded_at),
    ),
    gauge(
        "kcm_cluster_last_change_timestamp_seconds",
        "When the watcher saw the last change of a znode; old in a quiet cluster.",
        lambda view: seconds(view.log.last_change_at),
    ),
    gauge(
        "kcm_cluster_last_change_mtime_timestamp_seconds",
        "When ZooKeeper committed that change, by its clock.",
        lambda view: seconds(view.log.last_change_mtime),
    ),
    gauge(
        "kcm_cluster_counters_since_timestamp_seconds",
        "When the counters of this cluster started, at 0.",
        lambda view: seconds(view.counters_since),
    ),
    gauge(
        "kcm_cluster_znodes",
        "Znodes that the figures stand on.",
        lambda view: view.log.znodes,
    ),
    gauge(
        "kcm_cluster_verified_timestamp_seconds",
        "When a resync or an audit last proved the figures equal to ZooKeeper; moves every few "
        "minutes; absent before the first proof.",
        lambda view: seconds(view.log.verified_at),
    ),
    gauge(
        "kcm_cluster_divergent",
        "1 since an audit proved that the figures are not what ZooKeeper holds; 0 in good order.",
        lambda view: int(view.log.divergent_since is not None),
    ),
    gauge(
        "kcm_cluster_divergent_since_timestamp_seconds",
        "Since when the figures are known to differ from ZooKeeper; absent when they do not.",
        lambda view: seconds(view.log.divergent_since),
    ),
    gauge(
        "kcm_cluster_incomplete",
        "1 while the figures may lack changes, until a resync has ended, or what the watcher may not "
        "read; 0 in good order.",
        lambda view: int(view.log.incomplete),
    ),
    gauge(
        "kcm_cluster_incomplete_since_timestamp_seconds",
        "Since when the figures may lack changes; absent when they do not.",
        lambda view: seconds(view.log.incomplete_since),
    ),
    gauge(
        "kcm_cluster_denied_paths",
        "Paths that the watcher may not read, so that what depends on them is unknown; 0 when it "
        "may read all.",
        lambda view: len(view.log.denied),
    ),
    gauge(
        "kcm_cluster_resync_under_way",
        "1 while the watcher reads the whole tree; for seconds after a start or a reconnect.",
        lambda view: int(view.log.resync_under_way),
    ),
    gauge(
        "kcm_cluster_resync_wanted",
        "1 while the fold asks the watcher for a resync; 0 in good order.",
        lambda view: int(view.resync_wanted is not None),
    ),
    counter(
        "kcm_cluster_resyncs_total",
        "Finished readings of the whole tree: at start, after reconnects, on request, once a day.",
        lambda view: view.log.resyncs,
    ),
    counter(
        "kcm_cluster_audits_total",
        "Finished audits of the figures against ZooKeeper; one every few minutes.",
        lambda view: view.log.audits,
    ),
    counter(
        "kcm_cluster_log_holes_total",
        "Holes in the log of changes; 0 in good order, each asks for a resync.",
        lambda view: view.log.holes,
    ),
    counter(
        "kcm_cluster_dropped_changes_total",
        "Changes that the watcher could not buffer and threw away; 0 in good order.",
        lambda view: view.log.dropped_by_watcher,
    ),
    counter(
        "kcm_cluster_repeated_changes_total",
        "Changes at or before a position of the log that was folded already; harmless.",
        lambda view: view.log.not_newer,
    ),
    counter(
        "kcm_cluster_stale_changes_total",
        "Changes whose value was older than the one held; harmless.",
        lambda view: view.log.stale,
    ),
    counter(
        "kcm_cluster_missed_updates_total",
        "Updates that ZooKeeper merged before they could be read: the last value is right, what "
        "stood between was not seen.",
        lambda view: view.log.missed_updates,
    ),
    counter(
        "kcm_cluster_unreadable_records_total",
        "Payloads of znodes and records of the log that could not be read; 0 in good order.",
        lambda view: view.log.unreadable,
    ),
    counter(
        "kcm_cluster_anomalies_total",
        "Things that Kafka does not write or that cannot be; 0 in good order, see the events.",
        lambda view: view.log.anomalies,
    ),
    counter(
        "kcm_cluster_errors_total",
        "Changes that met an error of ours and were skipped; 0: report it otherwise.",
        lambda view: view.log.errors,
    ),
)


def _behind(moment: Moment) -> Iterable[Sample]:
    return [((str(stage),), age / 1000) for stage, age in moment.behind_ms.items()]


NOW: tuple[Metric[Moment], ...] = (
    gauge(
        "kcm_cluster_up",
        "1 while the figures follow ZooKeeper: the watcher has not said that its session is "
        f"SUSPENDED or LOST, a sign of life of it that is at most {_LATE_S} s old was folded, and "
        "the exporter reads Kafka to its end. 0: the figures are still served, but are what was "
        "true then.",
        lambda moment: int(moment.completeness.up),
    ),
    Metric(
        name="kcm_cluster_status",
        type=MetricType.GAUGE,
        help="1 for what the figures are worth now: live, behind (a stage is late), incomplete "
        "(changes may lack), divergent (proven wrong), blind (no ZooKeeper session).",
        labels=("cluster", "status"),
        unit="",
        read=lambda moment: state_of(Status, moment.completeness.status),
    ),
    Metric(
        name="kcm_cluster_behind_seconds",
        type=MetricType.GAUGE,
        help="Time since the newest sign of life of each stage: watcher (its last record that was "
        "folded), fold (its last write), exporter (its last reading to Kafka's end). Up to about "
        "10 in a quiet cluster. Compares clocks of several machines.",
        labels=("cluster", "stage"),
        unit="seconds",
        read=_behind,
    ),
    gauge(
        "kafka_controller_vacant_seconds",
        "For how long nobody has held /controller, now; 0 while somebody holds it, absent while "
        "the watcher may not read it.",
        lambda moment: seconds(moment.vacant_ms),
    ),
    gauge(
        "kafka_cluster_next_rebalance_timestamp_seconds",
        "When the controller checks the balance next, at the earliest: 5 s after its election "
        "and every 5 minutes from then on, if its settings are Kafka's own; absent while there is "
        "no controller.",
        lambda moment: seconds(moment.next_rebalance_at),
    ),
)
