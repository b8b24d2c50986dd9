"""Views, events and raw records for the exporter's tests, with the fields that a test sets."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from controller_model.kafka.ids import AsOf, Position, TopicPartition
from controller_model.records.changes import SessionState
from controller_model.records.completeness import LATE_MS, ReaderProgress
from controller_model.records.event_records import EventId, EventRecord, encode_event
from controller_model.records.events import ControllerElected
from controller_model.records.incidents import Incident, IncidentEnd, LastIncident
from controller_model.records.recommendations import BrokerRatio, Grade, Outcome, Recommended
from controller_model.records.views import (
    VERSION,
    AnyView,
    BrokerRecord,
    BrokerView,
    ClusterView,
    ControllerView,
    Counts,
    Deleted,
    IncidentsView,
    LogView,
    Pending,
    RecommendationView,
    TopicView,
    WatcherBeat,
    encode_view,
    view_key,
)
from controller_model.records.visibility import visible_cluster
from controller_model.sources.zookeeper.denied_paths import hidden_by
from exporter.core.records import TopicEntry
from pipeline.topic_records import Record

T0 = 1_795_250_708_000
"""A start time, in milliseconds."""

FRESH = ReaderProgress(read_ms=0, watcher_ms=0)
"""A reader that gets everything at once."""

VIEWS = "kcm.views"
EVENTS = "kcm.events"

_offsets = itertools.count()


def as_of(seq: int, *, generation: int = 1, lineage: str = "L1") -> AsOf:
    """Return a place in the log."""
    return AsOf(lineage, generation, seq)


def log_view(**fields: Any) -> LogView:
    """Return a log view without problems, with these fields changed; what denied paths hide is hidden."""
    fields.setdefault("hidden", hidden_by(fields.get("denied", ())))
    healthy = LogView(
        watcher="a1b2c3",
        session=SessionState.CONNECTED,
        session_since=T0,
        zookeeper="zk1:2181",
        heartbeat_at=T0,
        last_change_at=T0,
        verified_at=T0,
    )
    return msgspec.structs.replace(healthy, **fields)


def cluster_view(name: str = "prod", at: AsOf | None = None, **fields: Any) -> ClusterView:
    """Return a healthy cluster of brokers 0 and 1, with these fields changed; what is hidden is not known."""
    healthy = ClusterView(
        v=VERSION,
        cluster=name,
        as_of=at or as_of(1),
        counters_since=T0,
        folded_at=T0,
        controller=ControllerView(id=0, epoch=7, elected_at=T0, elections=7),
        counts=Counts(topics=2, partitions=12, under_min_isr=0, at_min_isr=0, min_isr_blocks=0),
        min_isr_assumed=1,
        pending=Pending(),
        log=log_view(),
        brokers_live=(0, 1),
        brokers_known=(0, 1),
    )
    return visible_cluster(msgspec.structs.replace(healthy, **fields))


def progress_by_view(view: ClusterView, now: int) -> ReaderProgress:
    """Return the progress of a reader with the watcher's clock, who knows only the view."""
    sign = view.log.sign_of_life
    age = None if sign is None else max(0, now - sign)
    return ReaderProgress(read_ms=0, watcher_ms=age, late_ms=LATE_MS)


def broker_view(
    id_: int, at: AsOf | None = None, cluster: str = "prod", **fields: Any
) -> BrokerView:
    """Return a live broker, with these fields changed."""
    live = BrokerView(
        v=VERSION,
        cluster=cluster,
        as_of=at or as_of(1),
        id=id_,
        record=BrokerRecord(
            live=True, epoch=2**60 + 1, since=T0, registrations=1, host=f"kafka{id_}", port=9092
        ),
    )
    of_record = {
        name: fields.pop(name) for name in BrokerRecord.__struct_fields__ if name in fields
    }
    record = msgspec.structs.replace(live.record, **of_record)
    return msgspec.structs.replace(live, record=record, **fields)


def topic_view(
    name: str, at: AsOf | None = None, cluster: str = "prod", **fields: Any
) -> TopicView:
    """Return a topic of two healthy partitions on brokers 0 and 1, with these fields changed.

    For other partitions, epochs that are not given are those of these two.
    """
    many = len(fields.get("partitions", (0, 1)))
    well = TopicView(
        v=VERSION,
        cluster=cluster,
        as_of=at or as_of(1),
        name=name,
        chunk=0,
        chunks=1,
        partitions=(0, 1),
        replicas=((0, 1), (1, 0)),
        leader=(0, 1),
        isr=((0, 1), (1, 0)),
        leader_epoch=(0,) * many,
        controller_epoch=(7,) * many,
        partition_epoch=(0,) * many,
        leader_recovery_state=(None,) * many,
    )
    return msgspec.structs.replace(well, **fields)


def beat(number: int, *, seq: int = 1, generation: int = 1, **fields: Any) -> WatcherBeat:
    """Return a beat of a healthy watcher, with these fields changed."""
    well = WatcherBeat(
        v=VERSION,
        cluster="prod",
        watcher="a1b2c3",
        sent_steady=0,
        generation=generation,
        seq=seq,
        number=number,
        session=SessionState.CONNECTED,
        source_answered_ms=5,
        log_complete_ms=5,
        sent_at=T0,
    )
    return msgspec.structs.replace(well, **fields)


def topic_entry(topic: TopicView) -> TopicEntry:
    """Return a topic's view in the form that the exporter keeps."""
    return TopicEntry.of(topic, encode_view(topic))


def incident(number: int, **fields: Any) -> Incident:
    """Return a closed incident, with these fields changed."""
    over = Incident(
        number=number,
        started_at=T0,
        last_abnormal_at=T0 + 1,
        closed_at=T0 + 60_001,
        end=IncidentEnd.RECOVERED,
        opened_by="BrokerStopped",
        summary="Broker 1 crashed and came back.",
        brokers_lost=(1,),
        brokers_back=(1,),
        broker_ends={"crashed": 1},
        leader_elections={"offline": 2},
    )
    return msgspec.structs.replace(over, **fields)


def last_incident() -> LastIncident:
    """Return the figures of a closed incident."""
    return LastIncident(
        number=2,
        opened_by="BrokerStopped",
        end=IncidentEnd.RECOVERED,
        last_abnormal_at=T0,
        lasted_ms=72_000,
        brokers_lost=1,
        controller_elections=1,
        leaders_moved=42,
        offline=17,
    )


def incidents_view(*incidents: Incident, at: AsOf | None = None, total: int = 7) -> IncidentsView:
    """Return the incidents of a cluster, the newest first."""
    return IncidentsView(
        v=VERSION, cluster="prod", as_of=at or as_of(1), total=total, incidents=incidents
    )


def recommendation_view(at: AsOf | None = None) -> RecommendationView:
    """Return the current recommendation, and a grade of the one before it."""
    ratio = BrokerRatio(broker=1, before=0.5, after=0.25)
    partitions = (TopicPartition("t", 1),)
    return RecommendationView(
        v=VERSION,
        cluster="prod",
        as_of=at or as_of(1),
        standing=Recommended(
            number=2,
            made_at=T0,
            brokers=(1,),
            threshold_percentage=10,
            partition_count=1,
            partitions=partitions,
            ratios=(msgspec.structs.replace(ratio, after=None),),
        ),
        graded=(
            Grade(
                number=1,
                made_at=T0,
                elected_at=T0,
                graded_at=T0,
                outcome=Outcome.RELAPSED,
                partition_count=3,
                elections=2,
                elected_by={"kcm": 2},
                watched=3,
                regained=2,
                lost_again=1,
                not_regained=1,
                regained_after_ms=5,
                examples_lost_again=partitions,
                examples_not_regained=partitions,
                ratios=(ratio,),
            ),
        ),
    )


def deleted(at: AsOf, cluster: str = "prod") -> Deleted:
    """Return a delete."""
    return Deleted(v=VERSION, cluster=cluster, as_of=at)


def raw(key: bytes | None, value: bytes | None, *, topic: str = VIEWS) -> Record:
    """Return a record as Kafka's client returns it."""
    return Record(topic, 0, next(_offsets), key, value, T0)


def record(view: AnyView, key: str | None = None) -> Record:
    """Return the record of a view; a delete needs its key."""
    if key is None:
        assert not isinstance(view, Deleted)
        key = view_key(view)
    return raw(key.encode(), encode_view(view))


def elected(
    seq: int, index: int = 0, *, cluster: str = "prod", lineage: str = "L1", to: int = 1
) -> EventRecord:
    """Return the event of a controller election."""
    fact = ControllerElected(
        at=T0 + seq,
        position=Position(1, seq),
        source_number=2**60 + seq,
        from_broker=0,
        to_broker=to,
        epoch=seq,
    )
    return EventRecord(v=1, cluster=cluster, id=EventId(lineage, 1, seq, index), event=fact)


def event_record(event: EventRecord) -> Record:
    """Return the raw record of an event."""
    return raw(event.cluster.encode(), encode_event(event), topic=EVENTS)
