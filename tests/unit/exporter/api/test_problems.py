"""The problems that the live page lists, and their severities."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller_model.insight.thresholds import THRESHOLDS
from controller_model.records.changes import SessionState
from controller_model.records.completeness import Completeness, ReaderProgress, Stage, Status
from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from controller_model.records.pending_writes import ControllerHealth, PendingWrites
from controller_model.records.quorum import Fence, QuorumView
from controller_model.records.recommendations import RebalanceSummary
from controller_model.records.views import (
    ABSENT_IN_KRAFT,
    BrokerView,
    ControllerView,
    Counts,
    Failover,
)
from exporter.api.problems import (
    AlertState,
    ClusterProblem,
    ProblemSeverity,
    problems_of,
    severity_of,
)
from exporter.core.records import ClusterSnapshot
from exporter.scrape.collector import Collector
from tests.support.samples import T0, broker_view, cluster_view, log_view

LIVE = Completeness(status=Status.LIVE, since=None, stage=None, verified_at=T0)


def snapshot(*brokers: BrokerView, name: str = "prod", **fields: Any) -> ClusterSnapshot:
    """Return a cluster of these brokers."""
    return ClusterSnapshot(
        name=name,
        partition=0,
        view=cluster_view(name, **fields),
        brokers={broker.id: broker for broker in brokers},
        topics={},
    )


def listed(*brokers: BrokerView, **fields: Any) -> list[tuple[str, str]]:
    """Return the severity and text of each problem."""
    return [(str(p.severity), p.text) for p in problems(snapshot(*brokers, **fields))]


def problems(shown: ClusterSnapshot, now: int = T0, **progress: Any) -> list[ClusterProblem]:
    """Return the problems at a time, for a reader that is on time except for the given ages."""
    in_time: dict[str, Any] = {"read_ms": 0, "watcher_ms": 0}
    collector = Collector(lambda _: ReaderProgress(**in_time | progress))
    return problems_of(shown, collector.moment(shown, now), now, THRESHOLDS)


def test_a_healthy_cluster_has_no_problem() -> None:
    """The page lists nothing, and the severity is none."""
    assert listed(broker_view(0), broker_view(1)) == []
    assert severity_of([], LIVE) is ProblemSeverity.NONE


def test_a_count_has_its_meaning_and_a_partition_filter() -> None:
    """A count of one is in the singular; each kind links to the list of its partitions."""
    counts = Counts(offline=1, under_min_isr=2, under_replicated=1003, isr_empty=4, without_state=9)
    found = problems(snapshot(broker_view(0), counts=counts))
    assert [(p.severity, p.text, p.filter) for p in found] == [
        ("critical", "1 partition is offline: no writes, no reads", "offline"),
        (
            "critical",
            "2 partitions are under min ISR: writes with acks=all are refused",
            "under-min-isr",
        ),
        (
            "critical",
            "4 partitions are without anybody in sync: start an eligible leader replica",
            "offline",
        ),
        ("warning", "1,003 partitions are under-replicated", "under-replicated"),
        ("warning", "9 partitions have no state: no leader", "without-state"),
    ]


def test_partitions_without_a_state_alone_are_a_problem() -> None:
    """They have no leader, and no other count includes them, so the page must not be quiet."""
    assert listed(
        broker_view(0), counts=Counts(partitions=1, without_state=1, under_min_isr=0)
    ) == [("warning", "1 partition has no state: no leader")]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"controller": ControllerView(id=-1, vacant_since=T0)},
            ("critical", "There is no controller", T0),
        ),
        (
            {"pending_writes": PendingWrites(health=ControllerHealth.ZOMBIE, pending_since=T0 - 9)},
            ("critical", "Broker 0 is the controller and does not do its work", T0 - 9),
        ),
        (
            {"pending_writes": PendingWrites(health=ControllerHealth.SLOW)},
            ("warning", "The controller, broker 0, is slow with its work", None),
        ),
        (
            {"controller": ControllerView(id=0, failover=Failover.UNDER_WAY, failover_since=T0)},
            ("warning", "The failover work of controller 0 is under way", T0),
        ),
    ],
    ids=["vacant", "zombie", "slow", "failover"],
)
def test_a_controller_problem_has_its_severity_and_start_time(
    fields: dict[str, Any], expected: tuple[str, str, int | None]
) -> None:
    """A zombie holds /controller, so it is listed before failover work; unknown times stay unknown."""
    (problem,) = problems(snapshot(broker_view(0), **fields))
    assert (problem.severity, problem.text, problem.since) == expected


def test_a_broker_that_is_gone_is_a_problem_only_while_replicas_are_on_it() -> None:
    """A broker that was removed from the cluster is no problem; of many only five are named."""
    assert listed(broker_view(0), broker_view(1, live=False, replicas=0)) == []
    assert listed(broker_view(0), broker_view(1, live=False, replicas=1)) == [
        ("warning", "Broker 1 is not registered; 1 replica there")
    ]
    gone = [broker_view(id_, live=False, replicas=2) for id_ in range(7)]
    assert listed(*gone) == [
        ("warning", "Brokers 0, 1, 2, 3, 4 and 2 more are not registered; 14 replicas there")
    ]


def test_an_outage_is_as_old_as_its_first_broker_if_all_times_are_known() -> None:
    """If one broker's time is not known, the others' would make the outage look more recent than it may be."""
    first = broker_view(0, live=False, replicas=1, since=T0 - 5)
    (problem,) = problems(snapshot(first, broker_view(1, live=False, replicas=1, since=T0 - 3)))
    assert problem.since == T0 - 5
    (problem,) = problems(snapshot(first, broker_view(1, live=False, replicas=1, since=None)))
    assert problem.since is None


def test_imbalance_is_a_problem_above_the_threshold_where_an_election_helps() -> None:
    """At the threshold Kafka's controller does not act, and what cannot be elected is not recommended."""
    at = broker_view(0, imbalance_ratio=0.1, preferred_electable=1)
    above = broker_view(1, imbalance_ratio=0.11, preferred_electable=2)
    stuck = broker_view(2, imbalance_ratio=0.9, preferred_electable=0)
    standing = RebalanceSummary(recommendation=1)
    assert listed(at, stuck, rebalance=standing) == []
    assert listed(at, above, stuck) == [], "for a moment"
    assert listed(at, above, stuck, rebalance=standing) == [
        ("warning", "Broker 1 is more than 10% imbalanced; an election gives 2 leaders back")
    ]


def test_critical_problems_are_listed_before_warnings() -> None:
    """This holds whatever they are about."""
    gone = broker_view(1, live=False, replicas=1)
    due = PendingWrites(health=ControllerHealth.SLOW)
    found = problems(snapshot(gone, counts=Counts(offline=1), pending_writes=due))
    assert [each.severity for each in found] == ["critical", "warning", "warning"]
    assert severity_of(found, LIVE) is ProblemSeverity.CRITICAL
    assert severity_of(found[1:], LIVE) is ProblemSeverity.WARNING


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.LIVE, ProblemSeverity.NONE),
        (Status.INCOMPLETE, ProblemSeverity.WARNING),
        (Status.DIVERGENT, ProblemSeverity.WARNING),
        (Status.BEHIND, ProblemSeverity.WARNING),
        (Status.BLIND, ProblemSeverity.WARNING),
    ],
)
def test_figures_that_are_not_live_are_a_warning(status: Status, expected: ProblemSeverity) -> None:
    """A cluster with no known problem is not healthy if nothing is known about it."""
    verdict = Completeness(status=status, since=None, stage=Stage.FOLD, verified_at=None)
    assert severity_of([], verdict) is expected


def judged_of(
    *brokers: BrokerView, now: int = T0, reading: Any = None, **fields: Any
) -> dict[str, Any]:
    """Return the state of the alert of each problem."""
    found = problems(snapshot(*brokers, **fields), now, **reading or {})
    return {str(p.alert): p.state for p in found}


@pytest.mark.parametrize(("elections", "alerts"), [(2, 0), (3, 1), (6, 2)])
def test_a_flapping_controller_fires_by_the_windows_of_the_alerts(
    elections: int, alerts: int
) -> None:
    """This is at the limit of each window; once a window has passed, it no longer flaps."""
    controller = ControllerView(id=0, recent_elections=((T0, elections),))
    names = ["KafkaControllerFlapping", "KafkaControllerFlappingSlowly"][:alerts]
    assert judged_of(controller=controller) == dict.fromkeys(names, AlertState.FIRING)
    assert judged_of(controller=controller, now=T0 + 6 * 3_600_000) == {}


def test_brokers_whose_replicas_leave_isrs_repeatedly_are_named() -> None:
    """Minutes are counted, as by the alert; one sentence names several brokers."""
    minute = T0 // 60_000
    flapping = tuple(range(minute - 6, minute + 1))
    brokers = [
        broker_view(0, isr_leave_minutes=flapping[-4:]),
        broker_view(1, isr_leave_minutes=flapping[-5:]),
        broker_view(2, isr_leave_minutes=flapping),
    ]
    assert listed(*brokers[:2]) == [
        ("warning", "Replicas of broker 1 leave ISRs again and again: in 5 of 30 minutes")
    ]
    assert listed(*brokers) == [
        ("warning", "Replicas of brokers 1, 2 leave ISRs again and again: in 7 of 30 minutes")
    ]


def test_an_alert_is_pending_until_its_condition_has_lasted() -> None:
    """The view's own time counts; where that is not known, the alert's state is not known either."""
    vacant = ControllerView(id=-1, vacant_since=T0)
    name = "KafkaControllerMissing"
    assert judged_of(controller=vacant, now=T0 + 29_999) == {name: AlertState.PENDING}
    assert judged_of(controller=vacant, now=T0 + 30_000) == {name: AlertState.FIRING}
    assert judged_of(controller=ControllerView(id=-1)) == {name: None}
    slow = ControllerView(id=0, failover=Failover.UNDER_WAY, failover_since=T0)
    for after_ms, state in ((60_000, AlertState.PENDING), (60_001, AlertState.FIRING)):
        assert judged_of(controller=slow, now=T0 + after_ms) == {
            "KafkaControllerFailoverSlow": state
        }


def test_a_gone_broker_with_partitions_at_min_isr_alerts_after_15_minutes() -> None:
    """It is after 15 minutes; whether partitions were at min ISR for so long is not known."""
    gone = broker_view(1, live=False, replicas=3, since=T0)
    counts = Counts(under_min_isr=0, at_min_isr=2, under_replicated_at_min_isr=1)
    soon = {"KafkaPartitionsAtMinIsr": None, "KafkaBrokerGone": AlertState.PENDING}
    assert judged_of(gone, counts=counts) == soon
    late = soon | {"KafkaBrokerGone": AlertState.FIRING, "KafkaBrokerGoneAtMinIsr": None}
    assert judged_of(gone, counts=counts, now=T0 + 900_000) == late


def test_under_replication_during_a_reassignment_is_no_problem() -> None:
    """It is counted as by the alert."""
    explained = Counts(under_replicated=2, under_replicated_reassigning=2, under_min_isr=0)
    assert judged_of(counts=explained) == {}


def test_figures_of_denied_paths_cause_no_problems() -> None:
    """Their alerts cannot fire; the problem is that the path is denied."""
    log = log_view(denied=("/",), denied_more=3)
    controller = ControllerView(id=-1, vacant_since=T0)
    found = judged_of(log=log, controller=controller, counts=Counts(offline=1, under_min_isr=None))
    assert found == {"KcmIncompleteOrDivergent": None, "KcmPathsDenied": None}


@pytest.mark.parametrize(
    ("quorum", "why"),
    [
        ({"leader": 1, "leader_silent_since": T0}, "the active controller does not answer it"),
        ({"leader": 1, "unreachable_since": T0}, "no controller answers it"),
        ({"leader": -1}, "the quorum shows it no commits"),
    ],
)
def test_why_the_monitor_is_blind_for_a_quorum_is_said(quorum: dict[str, Any], why: str) -> None:
    """It has no session: it sees nothing while nothing is committed, whoever answers."""
    log = log_view(absent=ABSENT_IN_KRAFT, session=None)
    shown = snapshot(quorum=QuorumView(**quorum), log=log)
    found = problems(shown, zookeeper_ms=60_000)
    text = f"The monitor is blind: {why}, so changes are not seen"
    assert text in [each.text for each in found if each.alert == "KcmBlind"]


def test_the_monitors_own_state_is_a_problem_once_its_alert_fires() -> None:
    """Until then the page's trust line shows it."""
    late = {"watcher_ms": 84_999}
    assert judged_of(reading=late) == {}
    assert judged_of(reading={"watcher_ms": 85_000}) == {"KcmBehind": AlertState.FIRING}
    assert judged_of(reading={"watcher_ms": 625_000}) == {"KcmBehindForLong": AlertState.FIRING}
    blind = log_view(session=SessionState.LOST, session_since=T0)
    assert judged_of(log=blind, now=T0 + 59_999) == {}
    assert judged_of(log=blind, now=T0 + 60_000) == {"KcmBlind": AlertState.FIRING}
    doubtful = log_view(incomplete_since=T0)
    assert judged_of(log=doubtful, now=T0 + 299_999) == {}
    assert judged_of(log=doubtful, now=T0 + 300_000) == {
        "KcmIncompleteOrDivergent": AlertState.FIRING
    }
    unproven = log_view(verified_at=None)
    assert judged_of(log=unproven, counters_since=T0, now=T0 + 299_999) == {}
    assert judged_of(log=unproven, counters_since=T0, now=T0 + 300_000) == {
        "KcmIncompleteOrDivergent": AlertState.FIRING
    }, "where nothing was ever verified, since the figures began"
    (skewed,) = problems(snapshot(), clock_skew_ms={Stage.FOLD: -5_001})
    assert (skewed.alert, skewed.state) == ("KcmClocksDisagree", None)
    assert skewed.text == "Clocks disagree: times in events and incidents may be wrong"
    assert judged_of(reading={"read_ms": None, "watcher_ms": None}) == {}
    assert judged_of(counts=Counts(partitions=4, under_min_isr=None)) == {"KcmMinIsrNotKnown": None}


def test_a_request_that_is_stuck_is_a_problem() -> None:
    """It is one from the age on at which the alert becomes pending."""
    pending = msgspec.structs.replace(cluster_view().pending, oldest_request_at=T0)
    name = "KafkaRequestStuck"
    assert judged_of(pending=pending, now=T0 + 240_000) == {}
    assert judged_of(pending=pending, now=T0 + 240_001) == {name: AlertState.PENDING}
    assert judged_of(pending=pending, now=T0 + 300_000) == {name: AlertState.FIRING}


def test_a_topic_deletion_that_is_stuck_is_a_problem() -> None:
    """It is one from the age on at which the alert becomes pending."""
    pending = msgspec.structs.replace(cluster_view().pending, oldest_deletion_at=T0)
    name = "KafkaTopicDeletionStuck"
    assert judged_of(pending=pending, now=T0 + 900_000) == {}
    assert judged_of(pending=pending, now=T0 + 900_001) == {name: AlertState.PENDING}
    assert judged_of(pending=pending, now=T0 + 1_200_000) == {name: AlertState.FIRING}
    assert judged_of(foreign_writes={"topic_id": 2}) == {"KafkaForeignWrites": AlertState.FIRING}
    migrating = ControllerView(id=0, migrating_to_kraft=True)
    assert judged_of(controller=migrating, log=log_view(kraft_since=T0)) == {
        "KafkaMigratingToKraft": AlertState.FIRING
    }


def test_a_cluster_that_has_left_zookeeper_is_said_to_have_left() -> None:
    """Until then it migrates, and ZooKeeper holds the same."""
    (migrating,) = problems(snapshot(log=log_view(kraft_since=T0)))
    assert migrating.text.endswith("which migrates: ZooKeeper is a copy")
    (left,) = problems(snapshot(log=log_view(kraft_since=T0, left_since=T0)))
    assert left.alert == migrating.alert == "KafkaMigratingToKraft"
    assert left.text.endswith(
        "ZooKeeper is at most a copy, and not all brokers are registered in it"
    )


def kraft(
    voter_ms: int = 0, broker_ms: int = 0, *brokers: BrokerView, **fields: Any
) -> ClusterSnapshot:
    """Return a KRaft cluster with voters 1 to 3, of which 1 leads and 2 is so far behind, and broker 11."""
    sample = QuorumSample(
        T0,
        1,
        7,
        90,
        (
            QuorumReplica(1, 90, T0, T0),
            QuorumReplica(2, 90, T0, T0 - voter_ms),
            QuorumReplica(3, 90, T0, T0),
        ),
        (QuorumReplica(11, 90, T0, T0 - broker_ms),),
    )
    known: dict[str, Any] = {"leader": 1, "leader_epoch": 7, "voters": (1, 2, 3), "sample": sample}
    known["is_sampled"] = True
    known |= {"high_watermark": 90, "high_watermark_since": T0}
    return snapshot(
        broker_view(11, fenced=False),
        *brokers,
        quorum=QuorumView(**known | fields),
        controller=ControllerView(id=1, epoch=7, elected_at=0),
        brokers_live=(11,),
        brokers_known=(11, 12),
        counts=Counts(under_min_isr=0),
    )


FENCED: dict[str, Any] = {"live": False, "fenced": True, "replicas": 4}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (kraft(), []),
        (
            kraft(high_watermark_since=T0 - 10_000),
            ["A leader answers, and nothing is committed to the metadata log"],
        ),
        (
            kraft(72_000),
            [
                "No further controller may be lost: only just a majority follows, or less",
                "Controller 2 has been 1 min 12 s behind the active controller",
            ],
        ),
        (kraft(0, 31_000), ["Broker 11 has been 31.0 s behind on the metadata log"]),
        (
            kraft(recent_fences=tuple(Fence(T0, each, 7) for each in range(4))),
            ["The controller fenced 4 brokers within 10 minutes; none was restarted since"],
        ),
        (kraft(0, 0, broker_view(12, **FENCED, since=T0)), ["Broker 12 is fenced; 4 replicas there"]),
        (
            kraft(0, 0, broker_view(12, **FENCED | {"replicas": 0}, since=T0 - 86_400_001)),
            ["1 broker registered and gone, which can block an upgrade: 12"],
        ),
        (
            kraft(0, 0, broker_view(12, fenced=False, log_dirs_offline=2)),
            ["Broker 12 has 2 log directories offline"],
        ),
        (
            kraft(snapshot_at=T0 - 4 * 3_600_000),
            ["No snapshot of the metadata log has been taken for long"],
        ),
        (
            kraft(leader_epoch=8, sample=None),
            ["Who of 3 voters follows the active controller is not known"],
        ),
    ],
)  # fmt: skip
def test_a_problem_of_a_quorum_names_the_nodes_and_how_long(
    shown: ClusterSnapshot, expected: list[str]
) -> None:
    """Each state that an alert reports is a sentence, and a quorum that is well has none."""
    view = msgspec.structs.replace(shown.view, counters_since=0)
    assert [each.text for each in problems(msgspec.structs.replace(shown, view=view))] == expected
