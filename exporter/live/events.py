"""The newest events and controller changes of a cluster that somebody looks at.

The rule: what was read once is not read again. All kept events are searched when a cluster is
first looked at; from then on only those that came since.
"""

from __future__ import annotations

from collections import deque

from controller_model.kafka.ids import AsOf
from controller_model.records.event_records import EventId, EventRecord, decode_event
from controller_model.records.events import ControllerElected, ControllerVacated
from exporter.intake.event_store import EventStore

EVENTS_SHOWN = 15
"""A glance at what happens now; the API has the others."""
ELECTIONS_SHOWN = 60
"""More controller changes than a screen can tell apart."""
_KINDS = (ControllerElected.__name__, ControllerVacated.__name__)
_AT_ONCE = 500
"""Events taken in one step, so that a flood does not hold up what else is told."""


class RecentEvents:
    """What of one cluster's events the page shows, kept up with the store."""

    def __init__(self, events: EventStore, cluster: str) -> None:
        self._store = events
        self._cluster = cluster
        self._lineage: str | None = None
        self._newest: EventId | None = None
        self._events: deque[EventRecord] = deque(maxlen=EVENTS_SHOWN)
        self._elections: deque[EventRecord] = deque(maxlen=ELECTIONS_SHOWN)

    @property
    def events(self) -> list[EventRecord]:
        """The newest events, newest first."""
        return list(self._events)

    @property
    def elections(self) -> list[EventRecord]:
        """The newest changes of the controller, newest first."""
        return list(self._elections)

    def follow(self, up_to: AsOf) -> bool:
        """Take in what the views have come to; tell whether there was anything new."""
        if self._newest is None or self._lineage != up_to.lineage:
            return self._begin(up_to)
        page = self._store.search(self._cluster, up_to=up_to, most=_AT_ONCE, after=self._newest)
        self._newest = page.newer
        for record in map(decode_event, page.values):
            self._events.appendleft(record)
            if isinstance(record.event, ControllerElected | ControllerVacated):
                self._elections.appendleft(record)
        return bool(page.values)

    def _begin(self, up_to: AsOf) -> bool:
        self._lineage = up_to.lineage
        page = self._store.search(self._cluster, up_to=up_to, most=EVENTS_SHOWN)
        elections = self._store.search(
            self._cluster, up_to=up_to, most=ELECTIONS_SHOWN, kinds=_KINDS
        )
        self._events.clear()
        self._events.extend(page.events)
        self._elections.clear()
        self._elections.extend(elections.events)
        self._newest = page.newer
        return bool(page.values)
