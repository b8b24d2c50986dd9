"""Answer what flaps, and which controller writes are pending, in the API's terms.

Both are read from what the exporter keeps in memory. Flapping ISRs are judged by the kept events, so the answer says
from when on events are kept; elections are counted as everywhere (`controller_model.records.recent`). Pending writes are read from every partition's state.
"""

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from controller_model.insight.flapping import FLAPPING_TIMES, controller_flapping, isr_flapping
from controller_model.insight.pending_writes import PendingWrite, health_of
from controller_model.records.completeness import Status
from controller_model.records.event_records import decode_event
from controller_model.records.events import ControllerElected, IsrShrunk
from controller_model.records.recent import ELECTIONS_KEPT_MS
from controller_model.records.views import ClusterView
from exporter.api.answers import Flapping, PendingWritesAnswer
from exporter.core.records import ClusterSnapshot
from exporter.intake.event_store import EventStore

E = TypeVar("E", IsrShrunk, ControllerElected)

DEFAULT_WINDOW_S = 3600
LONGEST_WINDOW_S = ELECTIONS_KEPT_MS // 1000

_MAX_EVENTS = 1_000_000
"""The most events that may be kept of a cluster, so the search is bounded by the events that are kept."""


def flapping_in(
    events: EventStore, snapshot: ClusterSnapshot, *, now: int, window_s: int
) -> Flapping:
    """Return everything that flapped in the window that ends at `now` (ms)."""
    window_ms, view = window_s * 1000, snapshot.view

    def of_kind(kind: type[E], since: int) -> Iterator[E]:
        page = events.search(
            snapshot.name, up_to=view.as_of, most=_MAX_EVENTS, kinds=(kind.__name__,), since=since
        )
        facts = (decode_event(value).event for value in page.values)
        return (fact for fact in facts if isinstance(fact, kind))

    isr = isr_flapping(of_kind(IsrShrunk, now - window_ms), now=now, window_ms=window_ms)
    # Elections are counted since counting began; an older lineage may have reported others.
    elected = of_kind(ControllerElected, max(now - window_ms, view.counters_since))
    recent = () if view.controller is None else view.controller.recent_elections
    controller = controller_flapping(recent, elected, now=now, window_ms=window_ms)
    is_known = view.controller is not None
    return Flapping(
        since=now - window_ms,
        until=now,
        **msgspec.structs.asdict(isr),
        held_from=events.held_from(snapshot.name),
        times=FLAPPING_TIMES,
        partition_count=len(isr.partitions),
        controller_flaps=controller.flapping if is_known else None,
        controller_elections=controller.elections if is_known else None,
        controller_changes=controller.id_changes if is_known else None,
    )


def pending_writes_answer(
    view: ClusterView, status: Status, writes: list[PendingWrite], limit: int
) -> PendingWritesAnswer:
    """Return how many writes are pending according to the view, and the first `limit` of those for partitions."""
    return PendingWritesAnswer(
        health=health_of(view, status),
        pending_since=view.pending_writes.pending_since,
        counts=view.pending_writes.counts or {},
        partition_count=len(writes),
        writes=writes[:limit],
    )
