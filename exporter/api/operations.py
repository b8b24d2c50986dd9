"""The table of the HTTP API's operations: each path, its parameters, and the schema of its answer.

Routes, checks of parameters and the OpenAPI document are all made from this table, so they
cannot differ.
"""

from typing import NamedTuple

from controller_model.records.events import AnyEvent
from controller_model.records.incidents import INCIDENTS_KEPT
from exporter.api.activity_answers import DEFAULT_WINDOW_S, LONGEST_WINDOW_S
from exporter.core.parameters import Parameter
from exporter.partitions.conditions import Condition
from pipeline.runtime import API_VERSION

ROOT = f"/api/{API_VERSION}"
CLUSTER = f"{ROOT}/clusters/{{name}}"

INCIDENTS_SHOWN = INCIDENTS_KEPT + 1
"""The most incidents there can be: the closed ones that are kept, and an open one."""

LONGEST_STEP = 24_000
"""Most characters of a step, which may hold a file: fewer than the head of a request may have."""

EVENT_KINDS = tuple(sorted(kind.__name__ for kind in AnyEvent.__args__))


class Operation(NamedTuple):
    """One path, requested with GET."""

    path: str
    handler: str
    """The method of `ApiPages` that answers."""
    summary: str
    answer: str
    """The schema of its answer."""
    parameters: tuple[Parameter, ...] = ()


def _whole(name: str, text: str, least: int, most: int, default: int | None = None) -> Parameter:
    return Parameter(name, text, is_whole=True, least=least, most=most, default=default)


def _limit(default: int, most: int, what: str) -> Parameter:
    text = f"At most so many {what}; a page may hold fewer and still have a next one."
    return _whole("limit", text, 1, most, default)


def _limit_without_pages(default: int, most: int, what: str) -> Parameter:
    return _whole("limit", f"At most so many {what}; there is no next page.", 1, most, default)


def _about_cluster(handler: str, summary: str, answer: str, *parameters: Parameter) -> Operation:
    """Return the operation below a cluster's path that has the handler's name, with dashes."""
    path = f"{CLUSTER}/{handler.replace('_', '-')}"
    return Operation(path, handler, summary, answer, parameters)


_AFTER = Parameter("after", "The `next` of the page before; without it, the first page.")
_CONDITION = Parameter(
    "filter", "What partitions must be; repeated, all of it.", tuple(Condition), many=True
)
_CONTAINS = Parameter("contains", "Only topics whose name holds this text.")
_BROKER = _whole("broker", "Only what has to do with this broker.", 0, 2**31)

OPERATIONS = (
    Operation(ROOT, "root", "Where to begin.", "Root"),
    Operation(f"{ROOT}/openapi.json", "document", "This document.", "OpenApi"),
    Operation(
        f"{ROOT}/clusters",
        "clusters",
        "The clusters, with their main figures.",
        "Clusters",
        (_limit(1000, 10_000, "clusters"), _AFTER),
    ),
    Operation(CLUSTER, "cluster", "All about a cluster, without its topics.", "Cluster"),
    _about_cluster(
        "brokers",
        "The brokers, and whether each may be stopped.",
        "Brokers",
        _limit(1000, 10_000, "brokers"),
        _AFTER,
    ),
    _about_cluster(
        "topics",
        "The topics, each with how many of its partitions are offline, under-replicated and so on.",
        "Topics",
        _CONDITION,
        _CONTAINS,
        _limit(100, 1000, "topics"),
        _AFTER,
    ),
    _about_cluster(
        "partitions",
        "The partitions, by what they are.",
        "Partitions",
        _CONDITION,
        Parameter("topic", "Only partitions of this topic."),
        _CONTAINS,
        _BROKER,
        _limit(100, 1000, "partitions"),
        _AFTER,
    ),
    _about_cluster(
        "search",
        "All partitions that fit, by name and by what they are: how many there are in the whole cluster, "
        "and a page of them.",
        "PartitionsFound",
        Parameter(
            "text",
            "Only partitions whose topic holds this text, or whose name begins to: `orders-1` finds "
            "orders-1 and orders-12. Capitals make no difference.",
        ),
        _CONDITION,
        _BROKER,
        _whole(
            "limit", "At most so many partitions; `next` leads to those after them.", 1, 1000, 50
        ),
        _AFTER,
    ),
    _about_cluster(
        "events",
        "What happened: the newest first, or, after an event, the oldest first.",
        "Events",
        Parameter(
            "since",
            "Not before this time: milliseconds since 1970, or 2026-11-21T10:00:00Z.",
            is_time=True,
        ),
        Parameter("kind", "Only this kind; repeated, any of them.", EVENT_KINDS, many=True),
        _limit(100, 1000, "events"),
        Parameter("before", "Older than this event: the `older` of the page before."),
        Parameter("after", "Newer than this event, oldest first: the `newer` of a page."),
    ),
    _about_cluster(
        "incidents",
        "The incidents: what failed together, as one record each; the newest first.",
        "Incidents",
        Parameter("state", "Only incidents that are open, or closed.", ("open", "closed")),
        _limit_without_pages(
            INCIDENTS_SHOWN,
            INCIDENTS_SHOWN,
            "incidents; the newest are kept, and older ones are in the events (IncidentClosed)",
        ),
    ),
    _about_cluster(
        "flapping",
        "What changed again and again: ISRs, with the brokers at fault, and the controller, by the "
        "events that are held (`held_from`).",
        "Flapping",
        _whole(
            "window_s",
            "The events of so many seconds, up to now, count.",
            60,
            LONGEST_WINDOW_S,
            DEFAULT_WINDOW_S,
        ),
        _limit_without_pages(100, 1000, "partitions; those that shrank most often are listed"),
    ),
    _about_cluster(
        "pending_writes",
        "The controller's pending writes, partition by partition, and the values that it has to write.",
        "PendingWritesAnswer",
        _limit_without_pages(100, 1000, "writes"),
    ),
    _about_cluster(
        "recommendations",
        "Which preferred elections to run now, in chunks that kafka-leader-election takes.",
        "Recommendations",
        _whole("broker", "Only partitions that this broker is to lead.", 0, 2**31),
        _limit(20, 100, "chunks of 500 partitions"),
        Parameter(
            "after",
            "The `next` of the page before, refused with 409 when the recommendation has become "
            "another one since; or a chunk's number, to continue after it in any case.",
        ),
    ),
    _about_cluster(
        "what_if",
        "What would break if brokers, or controllers of a KRaft quorum, were lost now.",
        "WhatIf",
        Parameter(
            "lose_broker",
            "This broker is lost; repeated, all of them at once.",
            is_whole=True,
            most=2**31,
            many=True,
        ),
        Parameter("lose_rack", "All brokers of this rack are lost, too.", many=True),
        Parameter(
            "lose_controller",
            "This controller of a KRaft quorum is lost, too; repeated, all of them at once. A node that is broker and "
            "controller is lost as both, whichever of them is named.",
            is_whole=True,
            most=2**31,
            many=True,
        ),
        Parameter(
            "each",
            "Instead: each broker, each rack, each controller, or each node (broker or controller) is lost alone; or "
            "the pairs of brokers that break more together than apart, the worst 20 of them.",
            values=("broker", "rack", "controller", "node", "pair"),
        ),
        _whole(
            "margin",
            "How many voters more than a majority the quorum should have left, for its loss to be safe.",
            0,
            1000,
            0,
        ),
    ),
    _about_cluster(
        "rehearsal",
        "What the controller would do in each of these steps: a simulated controller performs them on "
        "the cluster as it is now.",
        "RehearsalAnswer",
        Parameter(
            "step",
            "A step; repeated, one after the other: stop-broker:N, kill-broker:N, start-broker:N, "
            "rolling-restart or rolling-restart:N,M, delete-controller, delete-topic:NAME, "
            "preferred-election, preferred-election:JSON (of kafka-leader-election), reassign:JSON "
            "(of kafka-reassign-partitions).",
            many=True,
            longest=LONGEST_STEP,
        ),
        _limit_without_pages(100, 10_000, "partitions in each list; the numbers are of all"),
    ),
)
