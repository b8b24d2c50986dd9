"""Keep the newest events of every cluster, from the raw records of kcm.events.

The rule: ids rise per cluster, so a record that is not above the highest seen is a repetition and is
dropped. Events are kept as bytes, bounded in number and size per cluster and in total size, and shown only
once the views have reached them. A lineage that folds the log again emits the events of an older one again:
then only its own are shown. One thread applies records, any thread may read.
"""

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from controller_model.kafka.ids import AsOf
from controller_model.records.event_records import EventId, EventRecord, as_of, decode_event
from pipeline.topic_records import Record

MAX_RING_BYTES = 32 * 1024 * 1024
"""Most bytes of one cluster's events: a single event may list 10,000 partitions."""
MAX_BYTES = 256 * 1024 * 1024
"""Most bytes of all events: a quarter of the memory that the chart gives the exporter. Beyond it the cluster with
the most bytes drops its oldest events, so that each of many keeps an equal share and a quiet one keeps all."""
_OBJECTS_BYTES = 400
"""Bytes that an event takes in addition to its JSON: its id, its time and their place in the deque."""


class _Kept(NamedTuple):
    id: EventId
    kind: str
    at: int
    value: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.value) + _OBJECTS_BYTES


class EventPage(NamedTuple):
    """The events found, and the events between which the search took place."""

    values: list[bytes]
    """The events as the bytes in which they were read: decoded, a thousand wide ones take a hundred times as much."""
    older: EventId | None
    """The event before which a search for older ones continues; None: no older ones are kept."""
    newer: EventId | None
    """The event after which a search for newer ones continues; None: there has been no event yet."""


@dataclass
class _Ring:
    events: deque[_Kept] = field(default_factory=deque)
    size_bytes: int = 0
    highest: EventId | None = None

    def drop_oldest(self) -> int:
        """Drop the oldest event; return its size in bytes."""
        size_bytes = self.events.popleft().size_bytes
        self.size_bytes -= size_bytes
        return size_bytes


class EventStore:
    """The newest events of each cluster, in the order in which they happened."""

    def __init__(self, *, kept: int) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._rings: dict[str, _Ring] = {}
        self._size_bytes = 0

    def apply(self, record: Record) -> EventRecord | None:
        """Apply a record; return its event, or None if it is a repetition.

        Raises UnreadableRecordError for a record that cannot be read, which changes nothing.
        """
        value = record.value or b""
        event = decode_event(value)
        with self._lock:
            ring = self._rings.setdefault(event.cluster, _Ring())
            if ring.highest is not None and event.id <= ring.highest:
                return None
            ring.highest = event.id
            kept = _Kept(event.id, type(event.event).__name__, event.event.at, value)
            ring.events.append(kept)
            ring.size_bytes += kept.size_bytes
            self._size_bytes += kept.size_bytes
            while len(ring.events) > self._kept or (
                ring.size_bytes > MAX_RING_BYTES and len(ring.events) > 1
            ):
                self._size_bytes -= ring.drop_oldest()
            while self._size_bytes > MAX_BYTES:
                largest = max(self._rings.values(), key=lambda ring: ring.size_bytes)
                if len(largest.events) == 1:
                    break
                self._size_bytes -= largest.drop_oldest()
        return event

    def held_from(self, cluster: str) -> int | None:
        """Return the time of the oldest event that is still kept; None: there is none."""
        with self._lock:
            ring = self._rings.get(cluster)
            return ring.events[0].at if ring and ring.events else None

    def search(
        self,
        cluster: str,
        *,
        up_to: AsOf,
        most: int,
        kinds: Collection[str] = (),
        since: int | None = None,
        before: EventId | None = None,
        after: EventId | None = None,
    ) -> EventPage:
        """Return at most `most` events: the oldest first if `after` is given, else the newest first.

        No kinds mean all kinds. The search is bounded by the number of events that are kept.
        """
        shown = self._shown(cluster, up_to, after)
        if before is not None:
            shown = [each for each in shown if each.id < before]
        found: list[bytes] = []
        searched_to: EventId | None = None
        order: Iterable[_Kept] = shown if after is not None else reversed(shown)
        for event in order:
            if len(found) == most:
                break
            searched_to = event.id
            if (not kinds or event.kind in kinds) and (since is None or event.at >= since):
                found.append(event.value)
        if after is not None:
            return EventPage(found, None, searched_to or after)
        is_oldest = not shown or searched_to == shown[0].id
        return EventPage(found, None if is_oldest else searched_to, shown[-1].id if shown else None)

    def _shown(self, cluster: str, up_to: AsOf, after: EventId | None = None) -> list[_Kept]:
        """Return the events that may be shown, those after `after` if it is given, oldest first."""
        with self._lock:
            ring = self._rings.get(cluster)
            kept = list(ring.events) if ring else []
        first = 0 if after is None else bisect_right(kept, after, key=lambda event: event.id)
        shown = _each_once([each for each in kept[first:] if as_of(each.id) <= up_to])
        if after is None or not shown or shown[-1].id.lineage == after.lineage:
            return shown
        # A client that has followed an older lineage up to `after` has seen what the newer one emits again.
        is_kept = first > 0 and kept[first - 1].id == after
        seen_at = kept[first - 1].at if is_kept else None
        return [each for each in shown if not _was_seen(each, after, seen_at)]

    def forget(self, cluster: str) -> None:
        """Drop the events of a cluster that is no longer shown."""
        with self._lock:
            ring = self._rings.pop(cluster, None)
            if ring is not None:
                self._size_bytes -= ring.size_bytes


def _each_once(kept: list[_Kept]) -> list[_Kept]:
    """Return the events without those that the newest lineage has emitted again: older ones from its first event on.

    The time is compared as well as the place: in a log that was recreated, places begin at 0 again.
    """
    if not kept or kept[0].id.lineage == kept[-1].id.lineage:
        return kept
    newest = kept[-1].id.lineage
    first = next(each for each in kept if each.id.lineage == newest)
    return [
        each
        for each in kept
        if each.id.lineage == newest or _place(each.id) < _place(first.id) or each.at < first.at
    ]


def _was_seen(event: _Kept, after: EventId, seen_at: int | None) -> bool:
    """Return whether an event repeats one that the older lineage of `after` emitted up to `after`.

    `seen_at` is the time of `after`; None where that event has been dropped since: then the place alone decides.
    """
    if event.id.lineage == after.lineage or _place(event.id) > _place(after):
        return False
    return seen_at is None or event.at <= seen_at


def _place(id_: EventId) -> tuple[int, int]:
    return id_.generation, id_.seq
