"""Write events of the monitor's API as one line each."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from controller_model.insight.wording import counted

NOT_SHOWN = {
    "kind",
    "at",
    "position",
    "source_number",
    "id",
    "partitions",
    "partition_count",
    "controller_epoch",
    "elected_at",
    "held_until",
    "of_quorum",
}
"""Fields that only programs need, or that are shown in another way."""


def event_time(event: Mapping[str, Any]) -> str:
    """Return when an event happened, in local time."""
    seconds, milliseconds = divmod(int(event.get("at", 0)), 1000)
    return f"{time.strftime('%H:%M:%S', time.localtime(seconds))}.{milliseconds // 100}"


def event_text(event: Mapping[str, Any]) -> str:
    """Return an event as text.

    >>> event_text({"kind": "ControllerElected", "from_broker": 0, "to_broker": 1, "epoch": 2})
    'ControllerElected broker 0 -> 1, epoch 2'
    >>> event_text({"kind": "ControllerVacated", "from_broker": 3001, "epoch": 2, "of_quorum": True})
    'ControllerVacated from node 3001, epoch 2'
    >>> event_text({"kind": "IsrShrunk", "who": [2], "leader": 1, "partition_count": 9})
    'IsrShrunk, who 2, leader 1, 9 partitions'
    >>> event_text({"kind": "IncidentClosed", "incident": {"number": 3, "summary": "All well."}})
    'IncidentClosed 3: All well.'
    """
    summed_up = _SUMMED_UP.get(str(event.get("kind")))
    if summed_up is not None:
        return summed_up(event)
    facts = {name: value for name, value in event.items() if name not in NOT_SHOWN}
    of = "node" if event.get("of_quorum") else "broker"
    move = _move(facts.pop("from_broker", None), facts.pop("to_broker", None), of)
    words = [f"{event.get('kind', '?')}{move}"]
    words += [f"{name.replace('_', ' ')} {_value(value)}" for name, value in facts.items()]
    if count := event.get("partition_count"):
        words.append(counted(count, "partition"))
    return ", ".join(words)


def _incident(event: Mapping[str, Any]) -> str:
    incident = event["incident"]
    return f"IncidentClosed {incident['number']}: {incident['summary']}"


def _recommendation(event: Mapping[str, Any]) -> str:
    brokers = _value(list(event["brokers"]))
    electable = counted(event["partition_count"], "partition")
    limit = event["threshold_percentage"]
    above = f"above {limit}% imbalance" if limit else "with any imbalance"
    return (
        f"RecommendationMade {event['number']}: broker {brokers} {above}, "
        f"{electable} electable (kcm recommend)"
    )


def _grade(event: Mapping[str, Any]) -> str:
    grade = event["grade"]
    after_ms = grade["regained_after_ms"]
    within = "" if after_ms is None else f" within {after_ms / 1000:.1f} s"
    gone = f", {grade['gone']} gone since" if grade["gone"] else ""
    elected_by = ", ".join(
        f"{count} {_ELECTED_BY[origin]}" for origin, count in sorted(grade["elected_by"].items())
    )
    elected = f"; elected: {elected_by}" if elected_by else ""
    return (
        f"RecommendationGraded {grade['number']}: {grade['outcome']}; of {grade['watched']} "
        f"watched {grade['regained']} regained their leader{within}, {grade['lost_again']} lost it "
        f"again, {grade['not_regained']} did not{gone}{elected}"
    )


_ELECTED_BY = {
    "kcm": "by kcm elect",
    "rebalance": "by the controller's own rebalance (inferred)",
    "znode": "by request under /admin",
    "other": "by others",
}
"""Who elected (ElectionOrigin), in words."""


_SUMMED_UP: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "IncidentClosed": _incident,
    "RecommendationMade": _recommendation,
    "RecommendationGraded": _grade,
}
"""Events whose content does not fit on a line."""


def _move(source: int | None, target: int | None, of: str) -> str:
    if source is None and target is None:
        return ""
    if target is None:
        return f" from {of} {source}"
    return f" to {of} {target}" if source is None else f" {of} {source} -> {target}"


def _value(value: object) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
