"""What flaps, and which writes the controller owes, in the API's words.

The rule: both are read from what the exporter holds. Flapping is judged by the events that are
held, so the answer says since when they are; writes due are read from every partition's state.
Partitions are counted, and a bounded number of them listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from controller_model.insights.cluster_facts import ClusterFacts
from controller_model.insights.flapping import (
    ControllerFlapping,
    FlappingIsr,
    IsrFlapping,
    controller_flapping,
    isr_flapping,
)
from controller_model.insights.writes_due import DueWrite, due_writes
from controller_model.kafka.ids import AsOf, TopicPartition
from controller_model.records.event_records import decode_event
from controller_model.records.events import ControllerElected, IsrShrunk
from exporter.core.records import ClusterSnapshot
from exporter.intake.event_store import EventStore
from exporter.partitions.partition_pages import all_partitions

E = TypeVar("E", IsrShrunk, ControllerElected)

DEFAULT_WINDOW_S = 3600
LONGEST_WINDOW_S = 7 * 24 * 3600

_MOST_EVENTS = 1_000_000
"""As many as may be held of a cluster: the search is bounded by what is held."""


class FlappingInsight(NamedTuple):
    """What flapped in a window, and since when events are held."""

    isr: IsrFlapping
    controller: ControllerFlapping
    held_from: int | None


def flapping_in(
    events: EventStore, cluster: str, *, up_to: AsOf, now: int, window_s: int
) -> FlappingInsight:
    """Return what flapped in the window that ends now, of the events that are held."""
    window_ms = window_s * 1000

    def of_kind(kind: type[E]) -> Iterator[E]:
        page = events.search(
            cluster, up_to=up_to, most=_MOST_EVENTS, kinds=(kind.__name__,), since=now - window_ms
        )
        facts = (decode_event(value).event for value in page.values)
        return (fact for fact in facts if isinstance(fact, kind))

    return FlappingInsight(
        isr_flapping(of_kind(IsrShrunk), now=now, window_ms=window_ms),
        controller_flapping(of_kind(ControllerElected), now=now, window_ms=window_ms),
        events.held_from(cluster),
    )


def fields_of(record: FlappingIsr | DueWrite) -> dict[str, Any]:
    """Return a record's fields as the API has them: its partition's topic and number beside them."""
    fields = msgspec.structs.asdict(record)
    partition: TopicPartition = fields.pop("partition")
    return fields | partition._asdict()


def writes_due_in(snapshot: ClusterSnapshot, facts: ClusterFacts) -> list[DueWrite]:
    """Return the writes that the controller owes for partitions, in order of topics."""
    return list(due_writes(all_partitions(snapshot.topics.values()), facts))
