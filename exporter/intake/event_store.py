"""The newest events of every cluster, out of the raw records of kcm.events.

The rule: ids rise per cluster, so a record that is not above the highest seen is a repetition and
dropped. Events are kept as bytes, bounded in number and size per cluster and in size over all of
them, and shown only once the views have come as far. A lineage that folds the log again emits again
what an older one has emitted: then only its own events are shown. One thread applies records, any thread may read.
"""

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

from controller_model.kafka.ids import AsOf
from controller_model.records.event_records import EventId, EventRecord, as_of, decode_event
from pipeline.topic_records import Record

MAX_RING_BYTES = 32 * 1024 * 1024
"""Of the events of one cluster: a single event may list 10,000 partitions."""
MAX_BYTES = 256 * 1024 * 1024
"""Of all events: a quarter of the memory that the chart gives the exporter. Beyond it the cluster that
holds most gives its oldest, so that each of many keeps an equal share and a quiet one all it has."""
_OBJECTS_BYTES = 400
"""What an event takes beside its JSON: its id, its time and their place."""


class _Kept(NamedTuple):
    id: EventId
    kind: str
    at: int
    value: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.value) + _OBJECTS_BYTES


class EventPage(NamedTuple):
    """Events that were asked for, and between which events the search was."""

    values: list[bytes]
    """As they came in: a thousand wide ones take a hundred times as much when they are all read."""
    older: EventId | None
    """Before which to go on for older ones; None: there are none that are kept."""
    newer: EventId | None
    """After which to go on for newer ones; None: there has been none yet."""


class _Ring:
    def __init__(self) -> None:
        self.events: deque[_Kept] = deque()
        self.size_bytes = 0
        self.highest: EventId | None = None

    def drop_oldest(self) -> int:
        """Drop the oldest event; return how large it was."""
        size_bytes = self.events.popleft().size_bytes
        self.size_bytes -= size_bytes
        return size_bytes


class EventStore:
    """The last events of each cluster, newest last."""

    def __init__(self, *, kept: int) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._rings: dict[str, _Ring] = {}
        self._size_bytes = 0

    def apply(self, record: Record) -> EventRecord | None:
        """Take a record in; return its event, or None if it is a repetition.

        Raises UnreadableRecordError for a record that cannot be read; it changes nothing.
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
            self._share()
        return event

    def _share(self) -> None:
        """Drop the oldest of whoever holds most until all is within its bound."""
        while self._size_bytes > MAX_BYTES:
            largest = max(self._rings.values(), key=lambda ring: ring.size_bytes)
            if len(largest.events) == 1:
                return
            self._size_bytes -= largest.drop_oldest()

    def held_from(self, cluster: str) -> int | None:
        """Return when the oldest event was that is still held; None: there is none."""
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
        """Return events: after one of them the oldest first, else the newest first.

        No kinds: all of them. What is searched is bounded by what is kept.
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
        """Return what may be shown (after one of them), oldest first."""
        with self._lock:
            ring = self._rings.get(cluster)
            kept = list(ring.events) if ring else []
        first = 0 if after is None else bisect_right(kept, after, key=lambda event: event.id)
        shown = _each_once([each for each in kept[first:] if as_of(each.id) <= up_to])
        if after is None or not shown or shown[-1].id.lineage == after.lineage:
            return shown
        # Who has followed an older lineage to here has seen what the newer one emits again.
        is_kept = first > 0 and kept[first - 1].id == after
        seen_at = kept[first - 1].at if is_kept else None
        return [each for each in shown if not _was_seen(each, after, seen_at)]

    def forget(self, cluster: str) -> None:
        """Drop the events of a cluster that is gone."""
        with self._lock:
            ring = self._rings.pop(cluster, None)
            if ring is not None:
                self._size_bytes -= ring.size_bytes


def _each_once(kept: list[_Kept]) -> list[_Kept]:
    """Leave out what the newest lineage has emitted again: all from its first event on.

    Its time counts as well as its place: in a log that was recreated places begin at the bottom again.
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
    """Return whether an event repeats what an older lineage had up to a place of an older lineage.

    When that was is not known where the event has been dropped since; then the place alone decides.
    """
    if event.id.lineage == after.lineage or _place(event.id) > _place(after):
        return False
    return seen_at is None or event.at <= seen_at


def _place(id_: EventId) -> tuple[int, int]:
    return id_.generation, id_.seq
