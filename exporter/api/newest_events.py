"""Keep the newest events and controller changes of a cluster as the API's JSON.

An event is read and converted once. The first question searches all kept events; later ones
search only those that arrived since.
"""

from collections import deque
from collections.abc import Collection

from controller_model.kafka.ids import AsOf
from controller_model.records.event_records import EventId, decode_event
from controller_model.records.events import Baseline, ControllerElected, ControllerVacated
from exporter.api import cluster_answers
from exporter.api.answers import Json
from exporter.intake.event_store import EventPage, EventStore

EVENTS_SHOWN = 50
"""Number of newest events in the answer about a cluster."""

_CONTROLLER_CHANGES = tuple(
    kind.__name__ for kind in (Baseline, ControllerElected, ControllerVacated)
)
_MAX_AT_ONCE = 500
"""Most new events read in one step; where there are more it is cheaper to begin again."""


class NewestEvents:
    """The newest events of one cluster, updated from the store; used by one thread at a time."""

    def __init__(self, store: EventStore, cluster: str, *, most: int, most_changes: int) -> None:
        self._store = store
        self._cluster = cluster
        self._lineage: str | None = None
        self._newest: EventId | None = None
        self.events: deque[Json] = deque(maxlen=most)
        """The newest events, newest first."""
        self.controller_changes: deque[Json] = deque(maxlen=most_changes)
        """The newest elections and vacancies of the controller, and where counting began; newest first."""

    @property
    def changes_from(self) -> int | None:
        """Since when no change of the controller is missing, in ms since 1970; None: it is not known."""
        if len(self.controller_changes) == self.controller_changes.maxlen:
            return None
        return self._store.held_from(self._cluster)

    def follow(self, up_to: AsOf) -> bool:
        """Read the events up to those that the views have reached; return whether there was a new one."""
        if self._newest is None or self._lineage != up_to.lineage:
            return self._begin(up_to)
        page = self._store.search(self._cluster, up_to=up_to, most=_MAX_AT_ONCE, after=self._newest)
        if len(page.values) == _MAX_AT_ONCE:
            return self._begin(up_to)
        self._newest = page.newer
        for event in map(_in_words, page.values):
            self.events.appendleft(event)
            if event["kind"] in _CONTROLLER_CHANGES:
                self.controller_changes.appendleft(event)
        return bool(page.values)

    def _begin(self, up_to: AsOf) -> bool:
        self._lineage = up_to.lineage
        page = self._read(self.events, up_to)
        self._read(self.controller_changes, up_to, _CONTROLLER_CHANGES)
        self._newest = page.newer
        return bool(page.values)

    def _read(self, into: deque[Json], up_to: AsOf, kinds: Collection[str] = ()) -> EventPage:
        """Fill one of the two deques from the store."""
        page = self._store.search(self._cluster, up_to=up_to, most=into.maxlen or 0, kinds=kinds)
        into.clear()
        into.extend(map(_in_words, page.values))
        return page


def _in_words(value: bytes) -> Json:
    return cluster_answers.event(decode_event(value))
