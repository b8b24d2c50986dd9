"""Write clusters, brokers and events as the JSON of /api/v1.

The rule: numbers of 64 bits (generation, zxid, broker epoch) are written as text, because browsers and
many JSON readers round them. Every answer about a cluster carries its `completeness`. Times are
milliseconds since 1970.
"""

from urllib.parse import quote

import msgspec

from controller_model.insight.quorum import commits_have_stopped, lags, spare_voters
from controller_model.kafka.ids import AsOf, TopicPartition
from controller_model.metrics.metric import Moment
from controller_model.records.completeness import Completeness
from controller_model.records.event_records import EventId, EventRecord
from controller_model.records.events import (
    AnyEvent,
    BrokerStarted,
    BrokerStopped,
    RecommendationGraded,
)
from controller_model.records.recommendations import Grade, Recommended
from controller_model.records.views import BrokerView, ClusterCounters, ClusterView
from exporter.api.answers import Json, Place, Summary, SummaryController
from exporter.api.problems import ClusterProblem
from exporter.core.parameters import whole_number
from exporter.core.records import ClusterSnapshot

OF_ZNODES = ("znodes", "read_zxid", "stale", "missed_updates")
"""What is null in the `log` of a KRaft cluster, which has no znodes."""
_PARTITIONS_SHOWN = 20
"""Most partitions listed with an event; their total number is given next to them."""


def summary(snapshot: ClusterSnapshot, completeness: Completeness) -> Summary:
    """Return the entry of a cluster in the list of clusters."""
    view, controller = snapshot.view, snapshot.view.controller
    return Summary(
        name=snapshot.name,
        # Relative to the list's own address, because a reverse proxy may add a prefix to it.
        href=f"clusters/{quote(snapshot.name, safe='')}",
        completeness=completeness,
        controller=SummaryController(
            id=None if controller is None else controller.id,
            epoch=None if controller is None else controller.epoch,
        ),
        elections=None if controller is None else controller.elections,
        brokers_live=view.brokers_live,
        counts=view.counts,
    )


def detail(
    snapshot: ClusterSnapshot, moment: Moment, problems: list[ClusterProblem], events: list[Json]
) -> Json:
    """Return everything known about a cluster except its topics, and the given events."""
    return {
        "name": snapshot.name,
        "completeness": moment.completeness,
        "problems": problems,
        **cluster_answer(snapshot.view),
        "elections_within": moment.recent_elections,
        "brokers": [broker_answer(broker) for broker in snapshot.brokers.values()],
        "events": events,
    }


def event(record: EventRecord) -> Json:
    """Return an event; of many partitions only the first ones, and how many there are."""
    fact = record.event
    partitions = getattr(fact, "partitions", None)
    if isinstance(partitions, tuple):
        # There may be thousands of partitions: convert only those that are shown.
        fact = msgspec.structs.replace(fact, partitions=partitions[:_PARTITIONS_SHOWN])
    body = by_name(fact)
    if isinstance(partitions, tuple):
        # Only the first recommended elections are listed, with their total number.
        body.setdefault("partition_count", len(partitions))
    generation, seq = fact.position
    body["position"] = {"generation": str(generation), "seq": seq}
    if fact.source_number is not None:
        body["source_number"] = str(fact.source_number)
    if isinstance(fact, BrokerStarted | BrokerStopped) and fact.epoch is not None:
        body["epoch"] = str(fact.epoch)
    if isinstance(fact, RecommendationGraded):
        body["grade"] = by_name(fact.grade)
    return {"id": event_id(record.id), **body}


def event_id(id_: EventId) -> str:
    """Return an event's id as text that a request may give back."""
    return f"{id_.lineage}/{id_.generation}/{id_.seq}/{id_.index}"


def read_event_id(text: str) -> EventId:
    """Return the event's id that a text names; raises ValueError if it names none.

    >>> read_event_id("L1/7/12/0")
    EventId(lineage='L1', generation=7, seq=12, index=0)
    """
    lineage, generation, seq, index = text.rsplit("/", 3)
    return EventId(lineage, whole_number(generation), whole_number(seq), whole_number(index))


def by_name(record: AnyEvent | Recommended | Grade) -> Json:
    """Return a record as JSON with its partitions by name."""
    body: Json = msgspec.to_builtins(record)
    for name, value in msgspec.structs.asdict(record).items():
        if value and isinstance(value, tuple) and isinstance(value[0], TopicPartition):
            body[name] = [partition._asdict() for partition in value]
    return body


def place(as_of: AsOf) -> Place:
    """Return up to which change of the log an answer holds."""
    return Place(lineage=as_of.lineage, generation=str(as_of.generation), seq=as_of.seq)


def cluster_answer(view: ClusterView) -> Json:
    """Return what is known about a cluster, without its brokers and topics."""
    body = _plain(view)
    counters = body.pop("counters") or dict.fromkeys(ClusterCounters.__struct_fields__)
    body |= body.pop("config") | counters
    migration = view.config.migration
    body["kraft_controller"] = None if migration is None else migration.controller
    if migration is not None:
        body["migration"]["metadata_offset"] = str(migration.metadata_offset)
    body["as_of"]["generation"] = str(view.as_of.generation)
    body["log"]["read_zxid"] = str(view.log.read_zxid)
    if not view.has_zookeeper:
        body["log"] |= dict.fromkeys(OF_ZNODES)
    if view.quorum is not None:
        body["quorum"] |= {
            "commits_stopped": commits_have_stopped(view.quorum),
            "spare_voters": spare_voters(view),
            "lags": msgspec.to_builtins(lags(view)),
        }
    generation, seq = view.views_from
    body["views_from"] = {"generation": str(generation), "seq": seq}
    return body


def broker_answer(view: BrokerView) -> Json:
    """Return what is known about a broker."""
    body = _plain(view)
    del body["as_of"]
    body |= body.pop("record")
    if view.record.epoch is not None:
        body["epoch"] = str(view.record.epoch)
    return body


def _plain(view: ClusterView | BrokerView) -> Json:
    body: Json = msgspec.to_builtins(view, str_keys=True)
    for key in ("view", "v", "cluster"):
        body.pop(key, None)
    return body
