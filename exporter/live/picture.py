"""Make what the live page shows: a row for each cluster, and one cluster's picture.

The field names are those of /api/v1, so that a reader of one knows the other.
"""

from collections.abc import Iterable
from typing import Any

from controller_model.insight.quorum_loss import lose_controllers, quorum_state
from controller_model.insight.worst_first import trouble
from controller_model.records.completeness import Completeness, Status
from controller_model.records.views import ClusterView, Counts
from exporter.api import cluster_answers
from exporter.api.answers import Json
from exporter.api.insight_answers import safe_to_stop
from exporter.api.problems import ClusterProblem, ProblemSeverity, severity_of
from exporter.core.records import ClusterSnapshot

_PARTITIONS_NAMED = 3
"""Most partitions that an event on the page names; the API lists more."""

_OF_BROKERS = (
    "id", "leaders", "replicas", "in_isr", "preferred", "preferred_not_led", "imbalance_ratio",
)  # fmt: skip
_OF_RECORDS = ("live", "fenced", "since", "host", "rack")
"""The fields of a broker, and of its record, that the page shows."""

_NOT_OF_EVENTS = frozenset({"position", "source_number"})


def fleet_row(
    snapshot: ClusterSnapshot, completeness: Completeness, problems: list[ClusterProblem]
) -> Json:
    """Return a cluster's row of the fleet."""
    view, controller = snapshot.view, snapshot.view.controller
    live, brokers = view.brokers_live, snapshot.brokers.values()
    ids = {broker.id for broker in brokers}
    is_known = not any(None in {each.record.live, each.replicas} for each in brokers)
    return {
        "name": snapshot.name,
        "severity": severity_of(problems, completeness),
        "status": completeness.status,
        "since": completeness.since,
        "headline": problems[0].text if problems else None,
        "problem_count": len(problems),
        "controller": {
            name: None if controller is None else getattr(controller, name)
            for name in ("id", "elected_at", "vacant_since")
        }
        # The controller of a KRaft cluster need not be a broker.
        | {"is_broker": controller is None or view.has_zookeeper or controller.id in ids},
        "brokers_live": None if live is None else len(live),
        "brokers_gone": sum(not b.record.live and b.replicas != 0 for b in brokers)
        if is_known and live is not None
        else None,
        "counts": view.counts,
    }


def failed_row(name: str) -> Json:
    """Return the row of a cluster whose own row cannot be made: it has no figures.

    If it were left out, the cluster would seem not to be watched, and a single other one would seem to be the only one.
    """
    return {
        "name": name,
        "severity": ProblemSeverity.WARNING,
        "status": None,
        "since": None,
        "headline": "The exporter failed to judge it: see its log",
        "problem_count": 1,
        "controller": {"id": None, "elected_at": None, "vacant_since": None, "is_broker": True},
        "brokers_live": None,
        "brokers_gone": None,
        "counts": dict.fromkeys(Counts.__struct_fields__),
    }


def badness(row: Json) -> tuple[Any, ...]:
    """Return the sort key that puts the worst row first; a row without figures is before all others."""
    severity = list(ProblemSeverity).index(row["severity"])
    if row["status"] is None:
        return ()
    counts: Counts = row["counts"]
    return (
        trouble(
            is_followed=row["status"] not in {Status.BEHIND, Status.BLIND, Status.KRAFT},
            controller=row["controller"]["id"],
            offline=counts.offline,
            under_min_isr=counts.under_min_isr,
            under_replicated=counts.under_replicated,
        ),
        severity,
        row["name"],
    )


def cluster_picture(
    snapshot: ClusterSnapshot,
    problems: list[ClusterProblem],
    events: Iterable[Json],
    elections: Iterable[Json],
    elections_from: int | None,
) -> Json:
    """Return what the page shows of one cluster; of its brokers some of the API's fields; events newest first.

    `elections_from`: since when no election is missing, in ms since 1970; None: it is not known.
    """
    return cluster_answers.cluster_answer(snapshot.view) | {
        "name": snapshot.name,
        "problems": problems,
        "brokers": [
            {name: getattr(broker, name) for name in _OF_BROKERS}
            | {name: getattr(broker.record, name) for name in _OF_RECORDS}
            | {"safe_to_stop": safe_to_stop(broker)}
            for broker in snapshot.brokers.values()
        ],
        "controllers_if_lost": _controllers_if_lost(snapshot.view),
        "events": [_event(event) for event in events],
        "elections": [_event(event) for event in elections],
        "elections_from": elections_from,
    }


def _controllers_if_lost(view: ClusterView) -> list[Json]:
    """Return for each controller of a KRaft cluster whether it may be stopped, and what that does to the quorum."""
    if view.quorum is None:
        return []
    state, safe = quorum_state(view.quorum), view.controllers_safe_to_stop
    return [
        {"id": each, "safe": safe.get(each), "text": lose_controllers(state, (each,)).text}
        for each in sorted(state.ids)
    ]


def _event(event: Json) -> Json:
    """Return an event as the page shows it: some of the API's fields."""
    shown = {name: value for name, value in event.items() if name not in _NOT_OF_EVENTS}
    if isinstance(shown.get("partitions"), list):
        shown["partitions"] = shown["partitions"][:_PARTITIONS_NAMED]
    return shown
