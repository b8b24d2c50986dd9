"""The newest events of each cluster in the API's words, for the answer about a cluster.

The rule: an event is put into words once, however often somebody asks how a cluster is; so only
what is new since the last question is work, and nobody who asks waits for a what-if.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from controller_model.records.event_records import EventId, decode_event
from exporter.api import cluster_answers
from exporter.core.records import ClusterSnapshot
from exporter.intake.event_store import EventStore

EVENTS_SHOWN = 50
"""Newest events in the answer about a cluster."""

Json = dict[str, Any]


class NewestEvents:
    """What the last answers held; asked by one thread at a time."""

    def __init__(self, events: EventStore) -> None:
        self._events = events
        self._told: dict[str, dict[EventId, Json]] = {}

    def of(self, snapshot: ClusterSnapshot, held: Collection[str]) -> list[Json]:
        """Return the newest events that the views have come to, newest first.

        Of clusters that are not held any more nothing is kept.
        """
        told = self._told.get(snapshot.name, {})
        newest = self._events.newest_values(snapshot.name, EVENTS_SHOWN, snapshot.view.as_of)
        told = {
            id_: told.get(id_) or cluster_answers.event(decode_event(value))
            for id_, value in newest
        }
        self._told = {name: old for name, old in self._told.items() if name in held}
        self._told[snapshot.name] = told
        return list(told.values())
