"""What is wrong with a cluster, worst first, in an operator's words: the head of the live page.

The rule: a problem is a figure of the view put into a sentence, with the time since when where the
view knows it; whether it is critical or a warning is what the alert on the same figure says. What
is not a problem is not mentioned, so a page without problems is quiet.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec

from controller_model.records.completeness import Completeness, Status
from controller_model.records.predictions import ControllerHealth
from controller_model.records.views import BrokerView, Failover
from exporter.core.records import ClusterSnapshot

_BROKERS_NAMED = 5
"""Brokers that one sentence names; the table below it has all of them."""
_PERCENT = 100


class ProblemSeverity(enum.StrEnum):
    """How bad it is, in Prometheus's words."""

    CRITICAL = "critical"
    WARNING = "warning"
    NONE = "none"


class ClusterProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong."""

    severity: ProblemSeverity
    text: str
    since: int | None = None
    """Milliseconds since 1970; None where it is not known."""
    filter: str | None = None
    """The condition by which its partitions are listed; None where it is not about partitions."""


def problems_of(snapshot: ClusterSnapshot) -> list[ClusterProblem]:
    """Return what is wrong with a cluster, critical first; empty when nothing is."""
    found = [
        *_controller(snapshot),
        *_partitions(snapshot),
        *_brokers(snapshot),
        *_balance(snapshot),
    ]
    return sorted(found, key=lambda problem: problem.severity is not ProblemSeverity.CRITICAL)


def severity_of(problems: list[ClusterProblem], completeness: Completeness) -> ProblemSeverity:
    """Return how bad a cluster is off, doubt about its figures included."""
    found = {problem.severity for problem in problems}
    if not completeness.up or ProblemSeverity.CRITICAL in found:
        return ProblemSeverity.CRITICAL
    return (
        ProblemSeverity.WARNING
        if found or completeness.status is not Status.LIVE
        else ProblemSeverity.NONE
    )


def _controller(snapshot: ClusterSnapshot) -> Iterator[ClusterProblem]:
    controller, due = snapshot.view.controller, snapshot.view.writes_due
    if controller.id < 0:
        yield ClusterProblem(
            severity=ProblemSeverity.CRITICAL,
            text="Nobody is the controller",
            since=controller.vacant_since,
        )
        return
    if due.verdict is ControllerHealth.GHOST:
        yield ClusterProblem(
            severity=ProblemSeverity.CRITICAL,
            text=f"Broker {controller.id} is the controller and does not do its work",
            since=due.owed_since,
        )
    elif due.verdict is ControllerHealth.SLOW:
        yield ClusterProblem(
            severity=ProblemSeverity.WARNING,
            text=f"The controller, broker {controller.id}, is slow with its work",
            since=due.owed_since,
        )
    elif controller.failover is Failover.UNDER_WAY:
        yield ClusterProblem(
            severity=ProblemSeverity.WARNING,
            text=f"The failover work of controller {controller.id} is under way",
            since=controller.failover_since,
        )


def _partitions(snapshot: ClusterSnapshot) -> Iterator[ClusterProblem]:
    counts = snapshot.view.counts
    if counts.offline:
        yield ClusterProblem(
            severity=ProblemSeverity.CRITICAL,
            text=f"{_are(counts.offline)} offline: no writes, no reads",
            filter="offline",
        )
    if counts.under_min_isr:
        yield ClusterProblem(
            severity=ProblemSeverity.CRITICAL,
            text=f"{_are(counts.under_min_isr)} under min ISR: writes with acks=all are refused",
            filter="under-min-isr",
        )
    if counts.under_replicated:
        yield ClusterProblem(
            severity=ProblemSeverity.WARNING,
            text=f"{_are(counts.under_replicated)} under-replicated",
            filter="under-replicated",
        )
    if counts.without_state:
        # No alert is about these: they are as a topic's first moment, which may last.
        have = "has" if counts.without_state == 1 else "have"
        yield ClusterProblem(
            severity=ProblemSeverity.WARNING,
            text=f"{_number(counts.without_state, 'partition')} {have} no state yet: no leader",
            filter="without-state",
        )


def _brokers(snapshot: ClusterSnapshot) -> Iterator[ClusterProblem]:
    gone = [b for b in snapshot.brokers.values() if not b.live and b.replicas]
    if gone:
        replicas = sum(broker.replicas for broker in gone)
        # An outage of several is as old as the first of them, if that is known of all.
        times = [broker.since for broker in gone if broker.since is not None]
        yield ClusterProblem(
            severity=ProblemSeverity.WARNING,
            text=f"{_named(gone)} not registered; {_number(replicas, 'replica')} there",
            since=min(times) if len(times) == len(gone) else None,
        )


def _balance(snapshot: ClusterSnapshot) -> Iterator[ClusterProblem]:
    limit = snapshot.view.rebalance.threshold_percentage / _PERCENT
    above = [
        broker
        for broker in snapshot.brokers.values()
        if broker.imbalance_ratio > limit and broker.preferred_electable
    ]
    if above:
        electable = sum(broker.preferred_electable for broker in above)
        yield ClusterProblem(
            severity=ProblemSeverity.WARNING,
            text=f"{_named(above)} more than {limit:.0%} imbalanced; an election gives "
            f"{_number(electable, 'leader')} back",
            filter="electable",
        )


def _named(brokers: list[BrokerView]) -> str:
    ids = ", ".join(str(broker.id) for broker in brokers[:_BROKERS_NAMED])
    more = len(brokers) - _BROKERS_NAMED
    if len(brokers) == 1:
        return f"Broker {ids} is"
    return f"Brokers {ids}{f' and {more} more' if more > 0 else ''} are"


def _are(count: int) -> str:
    return f"{_number(count, 'partition')} {'is' if count == 1 else 'are'}"


def _number(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
