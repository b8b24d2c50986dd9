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
from exporter.partitions.conditions import Condition

_BROKERS_NAMED = 5
"""Brokers that one sentence names; the table below it has all of them."""
_PERCENT = 100


class ProblemSeverity(enum.StrEnum):
    """How bad it is, in Prometheus's words, the worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    NONE = "none"


class ClusterProblem(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    severity: ProblemSeverity
    text: str
    since: int | None = None
    """Milliseconds since 1970; None where it is not known."""
    filter: Condition | None = None
    """The condition by which its partitions are listed; None where it is not about partitions."""


_CRITICAL, _WARNING = ProblemSeverity.CRITICAL, ProblemSeverity.WARNING
_ARE, _HAVE = ("is", "are"), ("has", "have")

_OF_PARTITIONS = (
    (_CRITICAL, Condition.OFFLINE, _ARE, "offline: no writes, no reads"),
    (_CRITICAL, Condition.UNDER_MIN_ISR, _ARE, "under min ISR: writes with acks=all are refused"),
    (_WARNING, Condition.UNDER_REPLICATED, _ARE, "under-replicated"),
    # No alert is about these: they are as a topic's first moment, which may last.
    (_WARNING, Condition.WITHOUT_STATE, _HAVE, "no state yet: no leader"),
)
"""How bad it is, the condition, which `Counts` counts under the same name, and the words for it."""


def problems_of(snapshot: ClusterSnapshot) -> list[ClusterProblem]:
    """Return what is wrong with a cluster, critical first; empty when nothing is."""
    parts = (_controller, _partitions, _brokers, _balance)
    found = [problem for part in parts for problem in part(snapshot)]
    return sorted(found, key=lambda problem: problem.severity is not _CRITICAL)


def severity_of(problems: list[ClusterProblem], completeness: Completeness) -> ProblemSeverity:
    """Return how bad a cluster is off, doubt about its figures included."""
    found = {problem.severity for problem in problems}
    if not completeness.up or _CRITICAL in found:
        return _CRITICAL
    is_well = not found and completeness.status is Status.LIVE
    return ProblemSeverity.NONE if is_well else _WARNING


def _controller(snapshot: ClusterSnapshot) -> Iterator[ClusterProblem]:
    controller, due = snapshot.view.controller, snapshot.view.writes_due
    who = controller.id
    if who < 0:
        yield ClusterProblem(_CRITICAL, "Nobody is the controller", controller.vacant_since)
    elif due.verdict is ControllerHealth.GHOST:
        text = f"Broker {who} is the controller and does not do its work"
        yield ClusterProblem(_CRITICAL, text, due.owed_since)
    elif due.verdict is ControllerHealth.SLOW:
        text = f"The controller, broker {who}, is slow with its work"
        yield ClusterProblem(_WARNING, text, due.owed_since)
    elif controller.failover is Failover.UNDER_WAY:
        text = f"The failover work of controller {who} is under way"
        yield ClusterProblem(_WARNING, text, controller.failover_since)


def _partitions(snapshot: ClusterSnapshot) -> Iterator[ClusterProblem]:
    for severity, condition, (one, several), text in _OF_PARTITIONS:
        count: int | None = getattr(snapshot.view.counts, condition.name.lower())
        if count:
            verb = one if count == 1 else several
            said = f"{_number(count, 'partition')} {verb} {text}"
            yield ClusterProblem(severity, said, filter=condition)


def _brokers(snapshot: ClusterSnapshot) -> Iterator[ClusterProblem]:
    gone = [b for b in snapshot.brokers.values() if not b.live and b.replicas]
    if gone:
        replicas = sum(broker.replicas for broker in gone)
        # An outage of several is as old as the first of them, if that is known of all.
        times = [broker.since for broker in gone if broker.since is not None]
        yield ClusterProblem(
            _WARNING,
            f"{_named(gone)} not registered; {_number(replicas, 'replica')} there",
            min(times) if len(times) == len(gone) else None,
        )


def _balance(snapshot: ClusterSnapshot) -> Iterator[ClusterProblem]:
    limit = snapshot.view.rebalance.threshold_percentage / _PERCENT
    above = [
        broker
        for broker in snapshot.brokers.values()
        if broker.imbalance_ratio > limit and broker.preferred_electable
    ]
    if above:
        electable = _number(sum(broker.preferred_electable for broker in above), "leader")
        text = (
            f"{_named(above)} more than {limit:.0%} imbalanced; an election gives {electable} back"
        )
        yield ClusterProblem(_WARNING, text, filter=Condition.ELECTABLE)


def _named(brokers: list[BrokerView]) -> str:
    ids = ", ".join(str(broker.id) for broker in brokers[:_BROKERS_NAMED])
    more = len(brokers) - _BROKERS_NAMED
    if len(brokers) == 1:
        return f"Broker {ids} is"
    return f"Brokers {ids}{f' and {more} more' if more > 0 else ''} are"


def _number(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
