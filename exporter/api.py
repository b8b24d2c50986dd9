"""The JSON of /api/v1: what the views hold, with the verdict on it.

The rule: numbers of 64 bits (generation, zxid, broker epoch) go as text, because browsers and many
JSON readers round them. Every answer about a cluster carries its `completeness`. Times are
milliseconds since 1970.
"""

from __future__ import annotations

from typing import Any

import msgspec

from controller_model.completeness import Completeness
from controller_model.events import BrokerStarted, BrokerStopped, EventRecord
from controller_model.views import BrokerView, ClusterView
from exporter.records import ClusterSnapshot

EVENTS_SHOWN = 50
"""Newest events in the answer about a cluster."""

_PARTITIONS_SHOWN = 20
"""Partitions listed with an event; the number of all stands beside."""

Json = dict[str, Any]


def summary(snapshot: ClusterSnapshot, completeness: Completeness) -> Json:
    """Return what the list of clusters says about one."""
    view = snapshot.view
    return {
        "name": snapshot.name,
        "href": f"/api/v1/clusters/{snapshot.name}",
        "completeness": msgspec.to_builtins(completeness),
        "controller": {"id": view.controller.id, "epoch": view.controller.epoch},
        "elections": view.controller.elections,
        "brokers_live": list(view.brokers_live),
        "counts": msgspec.to_builtins(view.counts),
    }


def detail(
    snapshot: ClusterSnapshot, completeness: Completeness, events: list[EventRecord]
) -> Json:
    """Return all that is known of a cluster, topics apart, and its newest events."""
    body = _cluster(snapshot.view)
    return {
        "name": snapshot.name,
        "completeness": msgspec.to_builtins(completeness),
        **body,
        "brokers": [_broker(broker) for broker in snapshot.brokers.values()],
        "events": [event(record) for record in events],
    }


def event(record: EventRecord) -> Json:
    """Return an event; of many partitions the first ones and how many they are."""
    fact = record.event
    body: Json = msgspec.to_builtins(fact)
    generation, seq = fact.position
    body["position"] = {"generation": str(generation), "seq": seq}
    if fact.zxid is not None:
        body["zxid"] = str(fact.zxid)
    if isinstance(fact, BrokerStarted | BrokerStopped) and fact.epoch is not None:
        body["epoch"] = str(fact.epoch)
    partitions = body.get("partitions")
    if isinstance(partitions, list | tuple):
        body["partition_count"] = len(partitions)
        body["partitions"] = [
            {"topic": topic, "partition": partition}
            for topic, partition in partitions[:_PARTITIONS_SHOWN]
        ]
    id_ = record.id
    return {"id": f"{id_.lineage}/{id_.generation}/{id_.seq}/{id_.index}", **body}


def problem(status: int, title: str, detail_text: str) -> Json:
    """Return an error as RFC 9457 wants it (application/problem+json)."""
    return {"type": "about:blank", "title": title, "status": status, "detail": detail_text}


def _cluster(view: ClusterView) -> Json:
    body = _plain(view)
    body["as_of"]["generation"] = str(view.as_of.generation)
    body["log"]["read_zxid"] = str(view.log.read_zxid)
    return body


def _broker(view: BrokerView) -> Json:
    body = _plain(view)
    del body["as_of"]
    if view.epoch is not None:
        body["epoch"] = str(view.epoch)
    return body


def _plain(view: ClusterView | BrokerView) -> Json:
    body: Json = msgspec.to_builtins(view, str_keys=True)
    for key in ("view", "v", "cluster"):
        body.pop(key, None)
    return body
