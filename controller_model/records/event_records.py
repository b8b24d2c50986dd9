"""Events as records of kcm.events: joined by cause, numbered, and encoded as JSON.

The rule: an event's id rises per cluster, so that a reader may drop what it has seen. One cause
makes one record, however its changes arrived, up to a size that any reader accepts.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter

import msgspec

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import NOWHERE, AsOf, Position
from controller_model.records.decoding import decode_record
from controller_model.records.events import (
    AnyEvent,
    CoordinatorsMoved,
    IsrExpanded,
    IsrShrunk,
    LeadersElected,
    PartitionsOffline,
    PartitionsOnline,
    StaleControllerWrite,
)

VERSION = 1
"""The version that is written; a reader skips records of any other, and counts them."""

MAX_PARTITIONS_PER_EVENT = 10_000
"""Partitions that one event lists; a cause with more makes several events, so that no record is huge."""


class EventId(msgspec.Struct, frozen=True, order=True, array_like=True):
    """An event's id; ids rise per cluster, so a reader drops events that are not above its highest."""

    lineage: str
    generation: int
    seq: int
    index: int


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is in kcm.events."""

    v: int
    cluster: str
    id: EventId
    event: AnyEvent


_EACH_ITS_OWN = frozenset({"at", "position", "source_number", "partitions"})
"""The fields in which events of one cause may differ."""

_FACTS: dict[type, Callable[[AnyEvent], object]] = {
    kind: attrgetter(*[name for name in kind.__struct_fields__ if name not in _EACH_ITS_OWN])
    for kind in (
        LeadersElected,
        PartitionsOffline,
        PartitionsOnline,
        IsrShrunk,
        IsrExpanded,
        CoordinatorsMoved,
        StaleControllerWrite,
    )
}
"""The facts that events of one cause have in common, for the kinds that are joined."""

encode_event: Callable[[EventRecord], bytes] = msgspec.json.Encoder().encode
"""Returns an event's record as JSON."""
_decoder = msgspec.json.Decoder(EventRecord)


def coalesce(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """Join events of one cause: same kind and same facts, differing only in their partitions.

    The joined event keeps the first one's time and number and takes the last one's position, so
    positions still rise. Events without partitions are never joined.
    """
    groups: dict[object, list[AnyEvent]] = {}
    for index, event in enumerate(events):
        facts = _FACTS.get(type(event))
        cause: object = index if facts is None else (type(event), facts(event))
        groups.setdefault(cause, []).append(event)
    joined: list[AnyEvent] = []
    for group in groups.values():
        first, last = group[0], group[-1].position
        if len(group) == 1:
            joined.append(first)
            continue
        partitions = [p for event in group for p in event.partitions]  # type: ignore[union-attr]  # only kinds with partitions share a group
        for start in range(0, len(partitions), MAX_PARTITIONS_PER_EVENT):
            part = tuple(partitions[start : start + MAX_PARTITIONS_PER_EVENT])
            joined.append(msgspec.structs.replace(first, position=last, partitions=part))
    return sorted(joined, key=lambda event: event.position)


def number(
    cluster: str, lineage: str, events: Iterable[AnyEvent], *, after: EventId | None = None
) -> list[EventRecord]:
    """Return the records of one batch's events, with rising ids that are also above `after`.

    An event may be emitted after later ones: an election waits for its epoch. Its id is then the next
    one after theirs, because readers drop an id that does not rise.
    """
    records: list[EventRecord] = []
    last = after
    for event in events:
        before = NOWHERE if last is None else Position(last.generation, last.seq)
        generation, seq = max(event.position, before)
        index = 0
        if (generation, seq) == before:
            index = last.index + 1 if last else 1  # an unreadable record before any change
        last = EventId(lineage, generation, seq, index)
        records.append(EventRecord(v=VERSION, cluster=cluster, id=last, event=event))
    return records


def decode_event(data: bytes) -> EventRecord:
    """Return the record; raise UnreadableRecordError if it is not one of this version."""
    record = decode_record(_decoder, data, "an event")
    if record.v != VERSION:
        raise UnreadableRecordError(f"an event of version {record.v}; this release reads {VERSION}")
    return record


def as_of(record_id: EventId) -> AsOf:
    """Return the position up to which the log must be folded before this event is shown."""
    return AsOf(record_id.lineage, record_id.generation, record_id.seq)
