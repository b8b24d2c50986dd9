"""The live page and Prometheus judge the same figures: what one calls trouble, the other does."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pytest

from controller_model.insight.thresholds import THRESHOLDS, Threshold
from controller_model.records.changes import SessionState
from controller_model.records.completeness import ReaderProgress, Stage
from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from controller_model.records.pending_writes import ControllerHealth, PendingWrites
from controller_model.records.quorum import Fence, QuorumView, RegisteredController
from controller_model.records.recommendations import RebalanceSummary
from controller_model.records.views import (
    ABSENT_IN_KRAFT,
    BrokerView,
    ControllerView,
    Counts,
    Failover,
)
from dashboards.alerts.rules import ALERTS
from exporter.api.problems import AlertState, problems_of
from exporter.core.alert_settings import changed_thresholds
from exporter.core.config import ExportSettings
from exporter.core.records import ClusterSnapshot
from exporter.core.render import Format
from exporter.scrape.collector import Collector
from pipeline.settings import load
from tests.component.chart.chart import (
    CHART,
    NEEDS_HELM,
    container_of,
    render,
    variables,
    workloads,
)
from tests.component.rules.promtool import NEEDS_PROMTOOL, play
from tests.component.rules.rule_stories import INTERVAL_S
from tests.support.samples import broker_view, cluster_view, log_view

pytestmark = NEEDS_PROMTOOL

NOW_S = 2400
"""Seconds since 1970, where promtool's clock begins; the figures have stood for so long, longer than
any alert that the page judges waits."""
NOW = NOW_S * 1000
MINUTE = NOW // 60_000

NOT_JUDGED = {
    "KafkaUncleanLeaderElection": "growth within an hour: the events list it",
    "KafkaReassignmentStuck": "growth within hours: the board on partitions shows it",
    "KafkaBrokerBouncing": "growth within an hour: the events list it",
    "KafkaLeadersCannotReturn": "the page lists no advice that nobody can follow",
    "KafkaLeadersSkewed": "the assignment's, for hours: the board on balance shows it",
    "KcmNotServed": "nobody serves a page then",
    "KcmNoWatcherLeads": "of the watchers' own metrics",
    "KcmStandbyMissing": "of the watchers' own metrics",
    "KcmFoldRestarts": "of the fold's own metrics",
    "KcmCheckpointFull": "of the kubelet's metrics",
}
"""Alerts that the page does not judge, and why."""
JUDGED = [alert.name for alert in ALERTS if alert.name not in NOT_JUDGED]


class Case(NamedTuple):
    """A cluster at one moment."""

    fields: Mapping[str, Any] = MappingProxyType({})
    brokers: tuple[BrokerView, ...] = ()
    reading: Mapping[str, Any] = MappingProxyType({})


def controller(**fields: Any) -> Case:
    """Return a cluster whose controller is so."""
    return Case({"controller": ControllerView(**{"id": 0} | fields)})


def counts(**fields: Any) -> Case:
    """Return a cluster with so many partitions."""
    return Case(
        {
            "counts": Counts(
                **{
                    "partitions": 9,
                    "under_min_isr": 0,
                    "at_min_isr": 0,
                    "under_replicated_at_min_isr": 0,
                    "under_replicated_reassigning": 0,
                }
                | fields
            )
        }
    )


def log(**fields: Any) -> Case:
    """Return a cluster of whose log this is known."""
    return Case({"log": log_view(**fields)})


def of_broker(**fields: Any) -> Case:
    """Return a cluster with such a broker."""
    return Case(brokers=(broker_view(0), broker_view(1, **fields)))


def deleting(since_s: int) -> Case:
    """Return a cluster in which a topic has waited for so long."""
    at = NOW - since_s * 1000
    return Case({"pending": msgspec.structs.replace(cluster_view().pending, oldest_deletion_at=at)})


def requested(since_s: int) -> Case:
    """Return a cluster in which a request has waited for so long."""
    at = NOW - since_s * 1000
    return Case({"pending": msgspec.structs.replace(cluster_view().pending, oldest_request_at=at)})


def quorum(
    behind_ms: Mapping[int, int] = MappingProxyType({}), *, at: int = NOW - 1_000, **fields: Any
) -> Case:
    """Return a KRaft cluster whose leader has led since 0, with three voters of which these are so far behind.

    1 leads. Brokers 11 and 12 are live, and 13 is fenced, with no replicas.
    """
    known: dict[str, Any] = {
        "voters": (1, 2, 3),
        "leader": 1,
        "leader_epoch": 7,
        "high_watermark": 90,
        "high_watermark_since": at,
        "sample": QuorumSample(
            at,
            1,
            7,
            90,
            tuple(QuorumReplica(id_, 90, at, at - behind_ms.get(id_, 0)) for id_ in (1, 2, 3)),
            tuple(QuorumReplica(id_, 90, at, at - behind_ms.get(id_, 0)) for id_ in (11, 12)),
        ),
        "is_sampled": True,
        "snapshot_at": NOW - 3_600_000,
    }
    view = {
        "quorum": QuorumView(**known | fields),
        "controller": ControllerView(id=1, epoch=7, elected_at=0),
        "brokers_live": (11, 12),
        "brokers_known": (11, 12, 13),
        "log": log_view(absent=ABSENT_IN_KRAFT, session=None),
    }
    fenced = broker_view(13, live=False, fenced=True, replicas=0, since=NOW - 1_000)
    return Case(view, (broker_view(11, fenced=False), broker_view(12, fenced=False), fenced))


def of_kraft_broker(**fields: Any) -> Case:
    """Return a KRaft cluster with such a broker 13."""
    case = quorum()
    return case._replace(brokers=(*case.brokers[:2], broker_view(13, **fields)))


def with_counts(case: Case, **fields: Any) -> Case:
    """Return a case with so many partitions."""
    return case._replace(fields={**case.fields, **counts(**fields).fields})


def fences(*ago_s: int) -> tuple[Fence, ...]:
    """Return fences of as many brokers so long ago, in one epoch."""
    return tuple(Fence(NOW - each * 1_000, number, 7) for number, each in enumerate(ago_s))


DAY = 86_400_000
REGISTERED = RegisteredController()
GONE = {"live": False, "replicas": 3, "since": 0}
RECOMMENDED = {"rebalance": RebalanceSummary(recommendation=1)}
IMBALANCED = {"imbalance_ratio": 0.11, "preferred_electable": 2}
CASES = {
    "well": Case(),
    "vacant": controller(id=-1, vacant_since=0),
    "two-elections": controller(recent_elections=((NOW, 2),)),
    "three-elections": controller(recent_elections=((NOW, 3),)),
    "three-elections-past": controller(recent_elections=((NOW - 600_000, 3),)),
    "five-elections": controller(recent_elections=((NOW - 600_000, 5),)),
    "six-elections": controller(recent_elections=((NOW - 600_000, 6),)),
    "failover": controller(failover=Failover.UNDER_WAY, failover_since=NOW - 60_000),
    "failover-slow": controller(failover=Failover.UNDER_WAY, failover_since=NOW - 61_000),
    "migrating": log(kraft_since=0),
    "foreign": Case({"foreign_writes": {"topic_id": 1}}),
    "slow": Case({"pending_writes": PendingWrites(health=ControllerHealth.SLOW, pending_since=0)}),
    "zombie": Case({"pending_writes": PendingWrites(health=ControllerHealth.ZOMBIE, pending_since=0)}),
    "offline": counts(offline=1),
    "under-min-isr": counts(under_min_isr=1),
    "min-isr-not-known": counts(under_min_isr=None, at_min_isr=None),
    "at-min-isr": counts(at_min_isr=4, under_replicated_at_min_isr=0),
    "at-min-isr-by-loss": counts(at_min_isr=4, under_replicated_at_min_isr=1),
    "under-replicated": counts(under_replicated=3, under_replicated_reassigning=2),
    "being-reassigned": counts(under_replicated=2, under_replicated_reassigning=2),
    "gone": of_broker(**GONE),
    "gone-without-replicas": of_broker(**GONE | {"replicas": 0}),
    "gone-at-min-isr": of_broker(**GONE)._replace(
        fields=counts(at_min_isr=4, under_replicated_at_min_isr=1).fields
    ),
    "four-flapping-minutes": of_broker(isr_leave_minutes=tuple(range(MINUTE - 3, MINUTE + 1))),
    "five-flapping-minutes": of_broker(isr_leave_minutes=tuple(range(MINUTE - 4, MINUTE + 1))),
    "five-flapping-minutes-past": of_broker(isr_leave_minutes=tuple(range(MINUTE - 30, MINUTE - 25))),
    "imbalanced": of_broker(**IMBALANCED)._replace(fields=RECOMMENDED),
    "imbalanced-for-a-moment": of_broker(**IMBALANCED),
    "imbalanced-as-allowed": of_broker(**IMBALANCED | {"imbalance_ratio": 0.1})._replace(
        fields=RECOMMENDED
    ),
    "imbalanced-by-a-setting": of_broker(**IMBALANCED)._replace(
        fields={"rebalance": RebalanceSummary(threshold_percentage=20, recommendation=1)}
    ),
    "without-state": counts(without_state=1),
    "requested": requested(239),
    "requested-for-longer": requested(250),
    "request-stuck": requested(310),
    "waits-for-deletion": deleting(899),
    "waits-longer": deleting(1_000),
    "deletion-stuck": deleting(1300),
    "quorum-well": quorum(snapshot_at=NOW),
    "commits-stopped": quorum(high_watermark_since=NOW - 60_000),
    "controller-silent": quorum(at=NOW - 601_000, leader_silent_since=0),
    "no-controller-answers": quorum(
        at=NOW - 601_000, unreachable_since=0, leader_silent_since=0
    ),
    "commits-slow": quorum(high_watermark_since=NOW - 10_999),
    "voter-at-limit": quorum({2: 10_000}),
    "voter-behind": quorum({2: 10_001}),
    "standby-behind": quorum({2: 0}, controllers={1: REGISTERED}),
    "voter-that-leads-since": quorum({1: 60_000}),
    "voters-lost": quorum({2: 60_000, 3: 900_000}),
    "pair-of-voters": quorum(
        voters=(1, 2),
        sample=QuorumSample(
            NOW, 1, 7, 90, (QuorumReplica(1, 90, NOW, NOW), QuorumReplica(2, 90, NOW, NOW))
        ),
    ),
    "sample-of-the-past": quorum(at=NOW - 601_000, leader_epoch=8),
    "never-sampled": quorum(sample=None),
    "two-fences": quorum(recent_fences=fences(1, 2)),
    "fence-storm": quorum(recent_fences=fences(1, 2, 599)),
    "fence-storm-past": quorum(recent_fences=fences(1, 2, 601)),
    "fences-of-two-epochs": quorum(
        recent_fences=(*fences(1, 2), Fence(NOW, 9, 6))
    ),
    "broker-metadata-behind": quorum({11: 31_000}),
    "broker-metadata-at-limit": quorum({11: 30_000}),
    "snapshot-old": quorum(snapshot_at=NOW - 3 * 3_600_000 - 400_000),
    "snapshot-at-limit": quorum(snapshot_at=NOW - 3 * 3_600_000),
    "isr-empty": with_counts(quorum(), isr_empty=2),
    "elr": with_counts(quorum(), isr_empty=0, with_elr=2),
    "recovering": with_counts(quorum(), recovering=1),
    "fenced": of_kraft_broker(live=False, fenced=True, replicas=4, since=0),
    "unregistered": of_kraft_broker(live=False, fenced=None, replicas=4, since=0),
    "dirs-offline": of_kraft_broker(fenced=False, log_dirs_offline=1),
    "registered-and-gone": of_kraft_broker(
        live=False, fenced=True, replicas=0, since=NOW - DAY - 1
    ),
    "registered-and-away": of_kraft_broker(live=False, fenced=True, replicas=0, since=NOW - DAY),
    "controller-gone": quorum(controllers={1: REGISTERED, 2: REGISTERED, 9: REGISTERED}),
    "quorum-without-leader": quorum(at=NOW - 601_000, leader=-1, leader_epoch=8),
    "blind": log(session=SessionState.LOST, session_since=0),
    "behind": Case(reading={"watcher_ms": 300_000}),
    "hardly-behind": Case(reading={"watcher_ms": 25_000}),
    "behind-for-long": Case(reading={"fold_ms": 700_000}),
    "clocks": Case(reading={"clock_skew_ms": {Stage.FOLD: -5_001}}),
    "clocks-agree": Case(reading={"clock_skew_ms": {Stage.FOLD: 5_000}}),
    "incomplete": log(incomplete_since=0),
    "divergent": log(divergent_since=0),
    "never-verified": log(verified_at=None),
    "denied": log(denied=("/brokers/topics",), denied_more=3),
    "all-denied": log(denied=("/",)),
    "denied-by-kafka-itself": log(denied=("/config/brokers",)),
}  # fmt: skip
OF_LATE = {"behind": {"KcmBehindForLong"}}
"""What promtool fires by a figure that has stood still for longer than it says."""


def _snapshot(name: str, case: Case) -> ClusterSnapshot:
    brokers = [msgspec.structs.replace(each, cluster=name) for each in case.brokers]
    known = {"counts": counts().fields["counts"], "counters_since": 0} | dict(case.fields)
    return ClusterSnapshot(
        name=name,
        partition=0,
        view=cluster_view(name, **known),
        brokers={broker.id: broker for broker in brokers},
        topics={},
    )


def _reading(snapshot: ClusterSnapshot) -> ReaderProgress:
    in_time: dict[str, Any] = {"read_ms": 0, "watcher_ms": 0}
    return ReaderProgress(**in_time | dict(CASES[snapshot.name].reading))


Judged = set[tuple[str, str, str]]
"""Clusters, their alerts, and how bad each is."""


def _by_page(thresholds: Mapping[str, Threshold]) -> Judged:
    """Return what the page calls trouble, pending alerts apart."""
    collector = _collector()
    found = {
        (name, problem.alert, str(problem.severity))
        for name, snapshot in collector.clusters.items()
        for problem in problems_of(snapshot, collector.moment(snapshot, NOW), NOW, thresholds)
        if problem.alert is not None and problem.state is not AlertState.PENDING
    }
    # Of two alerts on one figure the page names the worse one.
    also = {(name, "KcmBehind") for name, alert, _ in found if alert == "KcmBehindForLong"}
    also |= {(name, alert) for name in OF_LATE for alert in OF_LATE[name]}
    return found | {(name, alert, str(thresholds[alert].severity)) for name, alert in also}


def _collector() -> Collector:
    collector = Collector(_reading)
    collector.update(CASES, {name: _snapshot(name, case) for name, case in CASES.items()})
    return collector


def _fire_by(
    folder: Path, by_page: Judged, groups: list[dict[str, Any]] | None = None
) -> subprocess.CompletedProcess[str]:
    """Let promtool say whether the groups fire what the page calls trouble, and nothing else."""
    times = math.ceil(NOW_S / INTERVAL_S)
    scraped = _collector().scrape(Format.TEXT, NOW).decode().splitlines()
    samples = [line.rpartition(" ") for line in scraped if not line.startswith("#")]
    series = {name: f"{float(value):f}+0x{times}" for name, _, value in samples}
    firing = 'count by (cluster, alertname, severity) (ALERTS{alertstate="firing"}) > bool 0'
    expected = [
        {
            "labels": f'{{cluster="{name}", alertname="{alert}", severity="{severity}"}}',
            "value": 1,
        }
        for name, alert, severity in by_page
    ]
    test: dict[str, object] = {
        "expr": firing,
        "eval_time": f"{NOW_S}s",
        "exp_samples": expected,
    }
    return play(folder, series, JUDGED, groups, promql_expr_test=[test])


def test_the_page_and_the_alerts_report_the_same_problems(tmp_path: Path) -> None:
    """At, above and below each threshold Prometheus fires exactly the alerts that the page names."""
    by_page = _by_page(THRESHOLDS)
    done = _fire_by(tmp_path, by_page)
    assert done.returncode == 0, done.stdout + done.stderr
    # Each alert that is judged at all was seen.
    assert {alert for _, alert, _ in by_page} == set(JUDGED)


CHANGES: Mapping[str, Mapping[str, Any]] = {
    "KafkaControllerFlapping": {"threshold": 2},
    "KafkaControllerFlappingSlowly": {"threshold": 7},
    "KafkaControllerFailoverSlow": {"threshold": 59.5, "severity": "critical"},
    "KafkaControllerZombie": {"enabled": False},
    "KafkaPartitionsOffline": {"threshold": 1},
    "KafkaPartitionsUnderMinIsr": {"severity": "warning"},
    "KafkaPartitionsUnderReplicated": {"threshold": 1, "for": "30m"},
    "KafkaTopicDeletionStuck": {"threshold": 600, "for": "4m10s"},
    "KafkaBrokerGone": {"for": "40m1s"},
    "KafkaBrokerGoneAtMinIsr": {"enabled": False},
    "KafkaIsrFlapping": {"threshold": 4},
    "KafkaLeadersImbalanced": {"enabled": False, "for": "1m"},
    "KcmBehind": {"threshold": 400},
    "KcmPathsDenied": {"threshold": 4},
    "KcmClocksDisagree": {"threshold": 4.5},
}
"""What the values of a chart change: limits up and down, times, severities, and alerts that are disabled."""


@pytest.mark.full
@NEEDS_HELM
def test_chart_values_change_the_alerts_and_the_page_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chart makes rules and the exporter's settings from the same values, and both judge alike."""
    values = tmp_path / "values.json"
    values.write_text(json.dumps({"prometheusRule": {"enabled": True, "alerts": CHANGES}}))
    manifests = render(CHART / "ci" / "least-values.yaml", "--values", str(values))
    (groups,) = [each["spec"]["groups"] for each in manifests if each["kind"] == "PrometheusRule"]
    (exporter,) = [w for w in workloads(manifests) if w["metadata"]["name"].endswith("-exporter")]
    monkeypatch.setenv("KCM_ALERTS", variables(container_of(exporter))["KCM_ALERTS"])
    by_page = _by_page(changed_thresholds(load(ExportSettings).alerts))
    done = _fire_by(tmp_path, by_page, groups)
    assert done.returncode == 0, done.stdout + done.stderr
    # Each change was seen on the page, and nothing else changed.
    assert {alert for _, alert, _ in by_page ^ _by_page(THRESHOLDS)} == set(CHANGES)


def test_alerts_that_the_page_does_not_judge_are_listed() -> None:
    """Each such alert has its reason, and is still one."""
    assert NOT_JUDGED.keys() <= {alert.name for alert in ALERTS}
