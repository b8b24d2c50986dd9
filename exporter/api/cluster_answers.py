"""The JSON of /api/v1: what the views hold, and how complete that is.

The rule: numbers of 64 bits (generation, zxid, broker epoch) go as text, because browsers and many
JSON readers round them. Every answer about a cluster carries its `completeness`. Times are
milliseconds since 1970.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from controller_model.kafka.ids import AsOf
from controller_model.records.completeness import Completeness
from controller_model.records.event_records import EventId, EventRecord
from controller_model.records.events import BrokerStarted, BrokerStopped, RecommendationGraded
from controller_model.records.views import BrokerView, ClusterView
from exporter.api.account_answers import grade_answer
from exporter.api.answers import Place, Summary, SummaryController
from exporter.core.parameters import whole_number
from exporter.core.records import ClusterSnapshot

_PARTITIONS_SHOWN = 20
"""Partitions listed with an event; the number of all stands beside."""

Json = dict[str, Any]


def summary(snapshot: ClusterSnapshot, completeness: Completeness) -> Summary:
    """Return what the list of clusters says about one."""
    view = snapshot.view
    return Summary(
        name=snapshot.name,
        # Relative to the list's own address, which a prefix may stand before.
        href=f"clusters/{quote(snapshot.name, safe='')}",
        completeness=completeness,
        controller=SummaryController(id=view.controller.id, epoch=view.controller.epoch),
        elections=view.controller.elections,
        brokers_live=view.brokers_live,
        counts=view.counts,
    )


def detail(snapshot: ClusterSnapshot, completeness: Completeness, events: list[Json]) -> Json:
    """Return all that is known of a cluster, topics apart, and these events of it."""
    body = cluster_answer(snapshot.view)
    return {
        "name": snapshot.name,
        "completeness": msgspec.to_builtins(completeness),
        **body,
        "brokers": [broker_answer(broker) for broker in snapshot.brokers.values()],
        "events": events,
    }


def event(record: EventRecord) -> Json:
    """Return an event; of many partitions the first ones and how many they are."""
    fact = record.event
    count = None
    partitions = getattr(fact, "partitions", None)
    if isinstance(partitions, tuple):
        # Of thousands only those that are shown are put into words.
        count, shown = len(partitions), partitions[:_PARTITIONS_SHOWN]
        fact = msgspec.structs.replace(fact, partitions=())
    body: Json = msgspec.to_builtins(fact)
    generation, seq = fact.position
    body["position"] = {"generation": str(generation), "seq": seq}
    if fact.zxid is not None:
        body["zxid"] = str(fact.zxid)
    if isinstance(fact, BrokerStarted | BrokerStopped) and fact.epoch is not None:
        body["epoch"] = str(fact.epoch)
    if count is not None:
        # Of what is recommended only the first ones are listed, with the number of all.
        body.setdefault("partition_count", count)
        body["partitions"] = [each._asdict() for each in shown]
    if isinstance(fact, RecommendationGraded):
        body["grade"] = grade_answer(fact.grade)
    return {"id": event_id(record.id), **body}


def event_id(id_: EventId) -> str:
    """Return an event's name, as text that a request may give back."""
    return f"{id_.lineage}/{id_.generation}/{id_.seq}/{id_.index}"


def read_event_id(text: str) -> EventId:
    """Return an event's name; raises ValueError if it is none.

    >>> read_event_id("L1/7/12/0")
    EventId(lineage='L1', generation=7, seq=12, index=0)
    """
    lineage, generation, seq, index = text.rsplit("/", 3)
    return EventId(lineage, whole_number(generation), whole_number(seq), whole_number(index))


def place(as_of: AsOf) -> Place:
    """Return up to which change of the log an answer holds."""
    return Place(lineage=as_of.lineage, generation=str(as_of.generation), seq=as_of.seq)


def cluster_answer(view: ClusterView) -> Json:
    """Return what is known of a cluster, its brokers and topics apart."""
    body = _plain(view)
    body["as_of"]["generation"] = str(view.as_of.generation)
    body["log"]["read_zxid"] = str(view.log.read_zxid)
    generation, seq = view.views_from
    body["views_from"] = {"generation": str(generation), "seq": seq}
    return body


def broker_answer(view: BrokerView) -> Json:
    """Return what is known of a broker."""
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
