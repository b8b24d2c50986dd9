"""A cluster that goes from well to ill, as Prometheus would have scraped it.

The exporter's own rendering of both states, and what the parts say of themselves beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from controller_model.records.changes import SessionState
from controller_model.records.completeness import ReaderProgress, Stage
from controller_model.records.incidents import IncidentsSummary
from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from controller_model.records.pending_writes import (
    ControllerHealth,
    PendingWriteKind,
    PendingWrites,
)
from controller_model.records.quorum import Fence, QuorumView, RegisteredController
from controller_model.records.recommendations import RebalanceSummary
from controller_model.records.views import (
    ABSENT_IN_KRAFT,
    BrokerView,
    ClusterCounters,
    ClusterView,
    ControllerView,
    Counts,
    Failover,
    Pending,
    ResyncWanted,
    TopicView,
)
from controller_model.records.visibility import visible_cluster
from exporter.core.metrics import ExporterMetrics
from exporter.core.records import ClusterSnapshot
from exporter.core.render import Format
from exporter.scrape.collector import Collector
from streaming.metrics import FoldMetrics
from streaming.progress import BatchReport
from tests.support.samples import (
    T0,
    broker_view,
    cluster_view,
    last_incident,
    log_view,
    topic_entry,
    topic_view,
)
from zk_source.ensemble.server_figures import ServerFigures
from zk_source.service.metrics import WatcherMetrics

INTERVAL_S = 15
WELL_S = 1800
ILL_S = 4500
"""Longer than an hour, in which a reassignment must not proceed to be called stalled."""
FOLLOWED_S = 300
"""Of the ill time: so long the figures still follow, so that the trouble is seen before all is stale."""
LOST_S = 1200
"""Of the ill time: so long a session is only suspended, and a quorum's leader answers."""

_WELL_COUNTS = Counts(
    topics=2, partitions=40, under_replicated_at_min_isr=0, under_replicated_reassigning=0
)
_ILL_COUNTS = Counts(
    topics=3,
    partitions=41,
    offline=9,
    leaderless=4,
    pending_leader_writes=5,
    without_state=1,
    under_replicated=20,
    under_min_isr=3,
    at_min_isr=17,
    under_replicated_at_min_isr=11,
    under_replicated_reassigning=2,
    preferred_imbalance=19,
    preferred_electable=4,
    reassigning=2,
    deleting_topics=1,
    replication_factor_1=6,
    min_isr_blocks=7,
    replicas_on_gone_brokers=18,
)
_WELL_CONTROLLER = ControllerView(
    id=0,
    epoch=7,
    elected_at=T0,
    elections=7,
    failover=Failover.NOT_NEEDED,
    recent_elections=(),
)
_ILL_CONTROLLER = ControllerView(
    id=-1,
    epoch=11,
    elections=11,
    id_changes=2,
    missed_elections=1,
    vacant_since=T0 + 1000,
    vacancy_total_min_ms=50,
    vacancy_total_max_ms=90,
    vacancy_last_min_ms=20,
    vacancy_last_max_ms=30,
    failover=Failover.UNDER_WAY,
    failover_since=T0 + 1000,
    failover_last_ms=4000,
    stale_writes=1,
    recent_elections=((T0 + 1000, 4),),
    migrating_to_kraft=True,
)
_INCIDENT = IncidentsSummary(
    open=3,
    open_since=T0,
    opened_by="BrokerStopped",
    total=3,
    last_started_at=T0,
    last_abnormal_at=2 * T0,  # still abnormal, whenever it is asked
    total_ms=60_000,
    last_closed=last_incident(),
)
_RECOMMENDING = RebalanceSummary(
    threshold_percentage=20,
    exceeding=(0, 1),
    mendable=(0,),
    electable=4,
    blocked={"not_live": 7, "not_in_isr": 1},
    recommendation=2,
    recommended_at=T0,
    recommended=4,
    made=2,
    graded={"mended": 1},
)
_PENDING_WRITES = PendingWrites(
    counts={str(PendingWriteKind.NEW_LEADER): 5},
    oldest_at=T0 + 1000,
    health=ControllerHealth.ZOMBIE,
)


def well() -> dict[str, ClusterSnapshot]:
    """Return one healthy cluster."""
    view = cluster_view(
        controller=_WELL_CONTROLLER,
        counts=_WELL_COUNTS,
        pending_writes=PendingWrites(health=ControllerHealth.NOT_NEEDED),
    )
    brokers = (_broker(0, leaders=20), _broker(1, leaders=20))
    return {"prod": _snapshot(view, *brokers), "kraft": _kraft_well()}


def ill(session: SessionState = SessionState.SUSPENDED) -> dict[str, ClusterSnapshot]:
    """Return the same cluster with every kind of problem, and a second one."""
    log = log_view(
        session=session,
        session_since=T0 + 2000,
        verified_at=T0 + 1000,
        last_change_at=T0 + 3000,
        zookeeper="zk2:2181",
        divergent_since=T0,
        incomplete_since=T0,
        denied=("/cluster",),
        kraft_since=T0,
        resync_under_way=True,
        **dict.fromkeys(_LOG_COUNTERS, 3),
    )
    view = cluster_view(
        controller=_ILL_CONTROLLER,
        foreign_writes={"topic_id": 1},
        folded_at=T0 - 60_000,
        counts=_ILL_COUNTS,
        pending_writes=_PENDING_WRITES,
        pending=Pending(oldest_reassignment_at=T0, oldest_deletion_at=T0, oldest_request_at=T0),
        log=log,
        brokers_live=(0, 2),
        brokers_known=(0, 1, 2),
        counters=ClusterCounters(
            leader_elections={"offline": 9}, unclean_elections=2, isr_shrinks=20, isr_expands=5
        ),
        resync_wanted=ResyncWanted(number=1, reason="a test"),
        incidents=_INCIDENT,
        rebalance=_RECOMMENDING,
    )
    troubled = _broker(
        0,
        leaders=31,
        preferred_not_led=12,
        preferred_electable=4,
        imbalance_ratio=0.6,
        leader_skew=1.0,
        registrations=4,
        ends={"crashed": 3},
        isr_leaves=20,
        log_dir_failures=1,
        offline_if_lost=8,
        under_min_isr_if_lost=3,
        in_isr=30,
        replicas=41,
        since=T0 + 3000,
        coordinated={"group": 50},
    )
    gone = _broker(1, live=False, leaders=0, in_isr=0, leader_skew=None, imbalance_ratio=0.9)
    beside = _broker(2, rack="r1")
    other = cluster_view("other", controller=_WELL_CONTROLLER, counts=_WELL_COUNTS)
    lost = topic_view("orders", leader=(1, -1), isr=((1,), (1,)), min_isr=2)
    behind = topic_view("payments", leader=(0, 0), isr=((0,), (0,)), min_isr=2)
    risky = topic_view("risky", replicas=((2, 1), (2, 0)), leader=(2, 2), isr=((2,), (2, 0)))
    return {
        "prod": _snapshot(view, troubled, gone, beside, topics=(lost, behind, risky)),
        "other": _snapshot(other),
        "kraft": _kraft_ill(
            is_sampled=session is SessionState.CONNECTED, is_silent=session is SessionState.LOST
        ),
    }


def _kraft(
    behind_ms: Mapping[int, int],
    *brokers: BrokerView,
    counts: Mapping[str, int],
    quorum: Mapping[str, Any],
    **fields: Any,
) -> ClusterSnapshot:
    """Return a KRaft cluster with voters 3000 to 3002, of which the first leads, and observer 3003."""
    at = T0 + 60_000

    def replica(node: int) -> QuorumReplica:
        behind = behind_ms.get(node, 0)
        return QuorumReplica(node, 900 - behind // 500, at, at - behind)

    sample = QuorumSample(
        at,
        3000,
        7,
        900,
        tuple(map(replica, (3000, 3001, 3002))),
        tuple(map(replica, (3003, 11, 12))),
    )
    known: dict[str, Any] = {
        "end": 900,
        "high_watermark": 900,
        "high_watermark_since": at,
        "leader": 3000,
        "leader_epoch": 7,
        "voters": (3000, 3001, 3002),
        "controllers": dict.fromkeys((3000, 3001, 3002, 3003), RegisteredController()),
        "features": {"metadata.version": 25},
        "snapshot_end": 800,
        "snapshot_at": T0,
        "sample": sample,
        "is_sampled": True,
    }
    usual: dict[str, Any] = {
        "controller": ControllerView(
            id=3000, epoch=7, elected_at=T0, elections=1, failover=None, stale_writes=None
        )
    }
    view = cluster_view(
        "kraft",
        counts=Counts(**{"topics": 2, "partitions": 40, "isr_empty": 0, "with_elr": 0, **counts}),
        quorum=QuorumView(**{**known, **quorum}),
        log=log_view(absent=ABSENT_IN_KRAFT, session=None, session_since=None),
        rebalance=RebalanceSummary(threshold_percentage=None),
        brokers_live=(11, 12),
        brokers_known=(11, 12, 13),
        **usual | fields,
    )
    return _snapshot(visible_cluster(view), *brokers)


def _kraft_well() -> ClusterSnapshot:
    brokers = [
        _broker(each, fenced=False, log_dirs_offline=0, ends={"fenced": 0}) for each in (11, 12, 13)
    ]
    return _kraft({}, *brokers, counts={}, quorum={})


def _kraft_ill(*, is_sampled: bool, is_silent: bool) -> ClusterSnapshot:
    """Return the KRaft cluster with every kind of problem; the leader answers DescribeQuorum at first, and nothing at last."""
    known: dict[str, Any] = {
        "high_watermark_since": T0,
        "high_watermark": 905,
        "end": 905,
        "candidacies": 4,
        "recent_fences": tuple(Fence(T0, each, 7) for each in (11, 12, 13)),
        "snapshot_at": T0 - 20_000_000,
        "snapshot_end": 700,
        "controllers": dict.fromkeys((3000, 3009), RegisteredController()),
        "features": {"metadata.version": 27},
        "unknown": {"30:0": 1},
        "voters": (3000, 3001, 3002, 3004),
        "leader_epoch": 7 if is_sampled else 8,
        "leader_silent_since": T0 if is_silent else None,
    }
    brokers = [
        _broker(11, fenced=False, log_dirs_offline=1, ends={"fenced": 3}),
        _broker(12, fenced=False, shutting_down=True, log_dirs_offline=0, ends={"fenced": 0}),
        _broker(13, live=False, fenced=True, since=1, ends={"fenced": 0}),
    ]
    counts = {"isr_empty": 2, "with_elr": 5, "recovering": 1, "offline": 2}
    behind = {3001: 50_000, 3002: 60_000, 3003: 9_000, 11: 40_000, 12: 2_000}
    return _kraft(behind, *brokers, counts=counts, quorum=known)


_LOG_COUNTERS = (
    "znodes",
    "resyncs",
    "reconciliations",
    "holes",
    "dropped_by_watcher",
    "missed_updates",
    "unreadable",
    "anomalies",
    "errors",
)


def _broker(id_: int, **fields: Any) -> BrokerView:
    usual: dict[str, Any] = {"replicas": 40, "in_isr": 40, "preferred": 20, "leader_skew": 0.0}
    usual |= {"isr_leave_minutes": ()}
    return broker_view(id_, **{"rack": f"r{id_}", **usual, **fields})


def _snapshot(
    view: ClusterView, *brokers: BrokerView, topics: tuple[TopicView, ...] = ()
) -> ClusterSnapshot:
    return ClusterSnapshot(
        name=view.cluster,
        partition=0,
        view=view,
        brokers={
            broker.id: msgspec.structs.replace(broker, cluster=view.cluster) for broker in brokers
        },
        topics={topic.name: topic_entry(topic) for topic in topics},
    )


def samples(clusters: dict[str, ClusterSnapshot]) -> list[str]:
    """Return the lines that the exporter serves about these clusters, and the parts about us."""
    is_ill = "other" in clusters
    progress = ReaderProgress(
        read_ms=0,
        watcher_ms=2_100 if is_ill else 100,
        clock_skew_ms={Stage.WATCHER: 700 if is_ill else 7, Stage.FOLD: -3},
    )
    collector = Collector(lambda _snapshot: progress)
    collector.update(clusters, clusters)
    collector.worst_topics.update(collector.clusters, T0 + 4000 if is_ill else T0)
    text = collector.scrape(Format.TEXT, T0 + 5000).decode()
    lines = (*text.splitlines(), *_own_samples(is_ill=is_ill))
    return [line for line in lines if not line.startswith("#")]


def _own_samples(*, is_ill: bool) -> list[str]:
    """Return what the parts serve about themselves: the same kinds of series in both states."""
    registry = CollectorRegistry()
    watcher = WatcherMetrics(registry, "prod", bool)
    watcher.show({"buffer_changes": 90 if is_ill else 0})
    watcher.leads(leads=not is_ill)
    watcher.zookeeper.show(_ILL_SERVER if is_ill else _WELL_SERVER)
    fold, exporter = FoldMetrics(registry), ExporterMetrics(registry)
    fold.observe(BatchReport(batch=0, took_ms=300))
    fold.measure_lag(90 if is_ill else 0)
    fold.restarts.labels("hung").inc(3 if is_ill else 0)
    exporter.lag.labels("kcm.views").set(90 if is_ill else 0)
    return [*generate_latest(registry).decode().splitlines(), *_beside(is_ill=is_ill)]


def _beside(*, is_ill: bool) -> list[str]:
    """Return the standby, which is gone when ill, and what kubelet says of the fold's volume."""
    standby = [] if is_ill else ['kcm_watcher_leader{cluster="prod",watcher="standby"} 0']
    volume = '{namespace="kafka",persistentvolumeclaim="checkpoint-kcm-stream-0"}'
    alert = 'ALERTS{cluster="prod",alertname="KcmBlind",severity="critical",alertstate="firing"} 1'
    return [
        *standby,
        *([alert] if is_ill else []),
        f"kubelet_volume_stats_available_bytes{volume} {50 if is_ill else 500}",
        f"kubelet_volume_stats_capacity_bytes{volume} 1000",
    ]


_WELL_SERVER = ServerFigures(
    server="zk1:2181",
    role="follower",
    version="3.8.4",
    latency_average_seconds=0.0005,
    latency_highest_seconds=0.02,
    connections=6,
    sessions=5,
    outstanding_requests=0,
    answer_seconds=0.001,
)
_ILL_SERVER = ServerFigures(
    server="zk2:2181",
    role="leader",
    version="3.8.4",
    latency_average_seconds=0.09,
    latency_highest_seconds=4,
    connections=7,
    sessions=9,
    outstanding_requests=40,
    answer_seconds=0.4,
)


def delays(at: int, *, is_ill: bool) -> list[str]:
    """Return histograms of delays after so many seconds: 0.3 s each when well, 3 s when ill."""
    return [
        f'{name}_bucket{{{labels}le="{limit}"}} {count}'
        for name, labels in HISTOGRAMS.items()
        for limit, count in (
            ("0.5", min(at, WELL_S) if is_ill else at),
            ("5", at),
            ("+Inf", at),
        )
    ]


HISTOGRAMS = {
    "kcm_watcher_change_delay_seconds": 'cluster="prod",',
    "kcm_fold_batch_seconds": "",
    "kcm_exporter_record_delay_seconds": "",
    "kcm_exporter_change_delay_seconds": "",
}
"""Their names, and the labels besides the limit."""


HISTORY = (
    (well(), 0, WELL_S),
    (ill(SessionState.CONNECTED), WELL_S, WELL_S + FOLLOWED_S),
    (ill(), WELL_S + FOLLOWED_S, WELL_S + LOST_S),
    (ill(SessionState.LOST), WELL_S + LOST_S, WELL_S + ILL_S),
)
"""How it was, and from when to when."""
