"""What the live page says is wrong, and how bad it says it is."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.records.completeness import Completeness, Stage, Status
from controller_model.records.predictions import ControllerHealth, WritesDue
from controller_model.records.views import BrokerView, ControllerView, Counts, Failover
from exporter.core.records import ClusterSnapshot
from exporter.live.problems import ProblemSeverity, problems_of, severity_of
from tests.support.samples import T0, broker_view, cluster_view

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
    return [(str(p.severity), p.text) for p in problems_of(snapshot(*brokers, **fields))]


def test_a_healthy_cluster_has_no_problem() -> None:
    """The page is quiet: nothing is mentioned, and nothing is bad."""
    assert listed(broker_view(0), broker_view(1)) == []
    assert severity_of([], LIVE) is ProblemSeverity.NONE


def test_counts_stand_with_what_they_mean_and_which_partitions_to_list() -> None:
    """One is in the singular; each kind leads to the list of its partitions."""
    counts = Counts(offline=1, under_min_isr=2, under_replicated=1003, without_state=9)
    found = problems_of(snapshot(broker_view(0), counts=counts))
    assert [(p.severity, p.text, p.filter) for p in found] == [
        ("critical", "1 partition is offline: no writes, no reads", "offline"),
        (
            "critical",
            "2 partitions are under min ISR: writes with acks=all are refused",
            "under-min-isr",
        ),
        ("warning", "1,003 partitions are under-replicated", "under-replicated"),
        ("warning", "9 partitions have no state yet: no leader", "without-state"),
    ]


def test_partitions_without_a_state_alone_are_a_problem() -> None:
    """They have no leader, and no other count holds them: a page of them is not quiet."""
    assert listed(broker_view(0), counts=Counts(partitions=1, without_state=1)) == [
        ("warning", "1 partition has no state yet: no leader")
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"controller": ControllerView(id=-1, vacant_since=T0)},
            ("critical", "Nobody is the controller", T0),
        ),
        (
            {"writes_due": WritesDue(verdict=ControllerHealth.GHOST, owed_since=T0 - 9)},
            ("critical", "Broker 0 is the controller and does not do its work", T0 - 9),
        ),
        (
            {"writes_due": WritesDue(verdict=ControllerHealth.SLOW)},
            ("warning", "The controller, broker 0, is slow with its work", None),
        ),
        (
            {"controller": ControllerView(id=0, failover=Failover.UNDER_WAY, failover_since=T0)},
            ("warning", "The failover work of controller 0 is under way", T0),
        ),
    ],
    ids=["nobody", "ghost", "slow", "failover"],
)
def test_the_controllers_problem_has_the_time_since_when(
    fields: dict[str, Any], expected: tuple[str, str, int | None]
) -> None:
    """A ghost holds /controller, so it is listed before failover work; unknown times stay unknown."""
    (problem,) = problems_of(snapshot(broker_view(0), **fields))
    assert (problem.severity, problem.text, problem.since) == expected


def test_a_broker_that_is_gone_is_a_problem_only_while_replicas_are_on_it() -> None:
    """A broker that was taken out of the cluster is no trouble; of many only five are named."""
    assert listed(broker_view(0), broker_view(1, live=False, replicas=0)) == []
    assert listed(broker_view(0), broker_view(1, live=False, replicas=1)) == [
        ("warning", "Broker 1 is not registered; 1 replica there")
    ]
    gone = [broker_view(id_, live=False, replicas=2) for id_ in range(7)]
    assert listed(*gone) == [
        ("warning", "Brokers 0, 1, 2, 3, 4 and 2 more are not registered; 14 replicas there")
    ]


def test_an_outage_is_as_old_as_its_first_broker_if_all_times_are_known() -> None:
    """A time that one broker lacks would make the outage look younger than it may be."""
    first = broker_view(0, live=False, replicas=1, since=T0 - 5)
    (problem,) = problems_of(snapshot(first, broker_view(1, live=False, replicas=1, since=T0 - 3)))
    assert problem.since == T0 - 5
    (problem,) = problems_of(snapshot(first, broker_view(1, live=False, replicas=1, since=None)))
    assert problem.since is None


def test_imbalance_is_a_problem_above_the_threshold_where_an_election_helps() -> None:
    """At the threshold Kafka's controller does not act, and what cannot be elected is no advice."""
    at = broker_view(0, imbalance_ratio=0.1, preferred_electable=1)
    above = broker_view(1, imbalance_ratio=0.11, preferred_electable=2)
    stuck = broker_view(2, imbalance_ratio=0.9, preferred_electable=0)
    assert listed(at, stuck) == []
    assert listed(at, above, stuck) == [
        ("warning", "Broker 1 is more than 10% imbalanced; an election gives 2 leaders back")
    ]


def test_what_is_critical_stands_before_warnings() -> None:
    """Whatever it is about."""
    gone = broker_view(1, live=False, replicas=1)
    due = WritesDue(verdict=ControllerHealth.SLOW)
    severities = [s for s, _ in listed(gone, counts=Counts(offline=1), writes_due=due)]
    assert severities == ["critical", "warning", "warning"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.LIVE, ProblemSeverity.NONE),
        (Status.INCOMPLETE, ProblemSeverity.WARNING),
        (Status.DIVERGENT, ProblemSeverity.WARNING),
        (Status.BEHIND, ProblemSeverity.CRITICAL),
        (Status.BLIND, ProblemSeverity.CRITICAL),
    ],
)
def test_doubt_about_the_figures_is_trouble_too(status: Status, expected: ProblemSeverity) -> None:
    """A cluster of which nothing wrong is known, since nothing is known, is not well."""
    verdict = Completeness(status=status, since=None, stage=Stage.FOLD, verified_at=None)
    assert severity_of([], verdict) is expected
