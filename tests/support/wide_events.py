"""A cluster whose newest events concern about 10,000 partitions each."""

from __future__ import annotations

from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.event_records import EventId, EventRecord
from controller_model.records.events import IsrShrunk
from exporter.api.newest_events import EVENTS_SHOWN
from tests.support.api_server import Served
from tests.support.samples import T0, as_of, broker_view, cluster_view


def wide_events() -> Served:
    """Return a cluster with as many events as one answer shows, each of 10,000 partitions."""
    served = Served()
    served.write(broker_view(0), cluster_view(at=as_of(EVENTS_SHOWN + 10)))
    partitions = tuple(TopicPartition(f"topic-{n // 100}", n % 100) for n in range(10_000))
    for seq in range(1, EVENTS_SHOWN + 1):
        fact = IsrShrunk(
            at=T0,
            position=Position(1, seq),
            who=(1,),
            leader=0,
            by_controller=False,
            partitions=partitions,
        )
        id_ = EventId("L1", 1, seq, 0)
        served.publish(EventRecord(v=1, cluster="prod", id=id_, event=fact))
    return served
