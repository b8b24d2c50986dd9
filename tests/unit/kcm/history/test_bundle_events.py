"""The events of an incident, and the report of missing ones."""

from __future__ import annotations

import json
from collections.abc import Sequence

from controller_model.records.event_records import encode_event, number
from controller_model.records.events import AnyEvent
from kcm.history.bundle_log import IncidentEvents
from tests.support.bundles import two_resyncs
from tests.support.histories import Fold, History, small_cluster


def events_of(history: History) -> Sequence[AnyEvent]:
    """Return the events of a history."""
    return Fold().follow(history)


def test_events_of_the_incident_are_kept_once() -> None:
    """They are selected by time and cluster; an event that a batch published twice is kept once."""
    history, _, finished = two_resyncs()
    records = number("prod", "l1", events_of(history))
    other = number("alpha", "l1", events_of(small_cluster()))
    begin = next(r.event.at for r in records if type(r.event).__name__ == "ControllerVacated")
    events = IncidentEvents("prod", from_ms=begin, to_ms=begin + 5)
    for record in [*records, *other, *records]:
        events.add_message(encode_event(record))
    kinds = [json.loads(line)["event"]["kind"] for line in events.kept]
    assert kinds == ["ControllerVacated", "BrokerStopped"]
    assert events.missing("kcm.events", is_cut=False) == []
    assert finished.observed_at < begin


def test_missing_events_are_reported() -> None:
    """No event at all, a deleted earlier part, damage, and two lineages each give a line."""
    history, _, _ = two_resyncs()
    reported = events_of(history)
    empty = IncidentEvents("prod", from_ms=0, to_ms=10**15)
    assert empty.missing("kcm.events", is_cut=True) == [
        "kcm.events has no event of the cluster: the fold has published none"
    ]
    earliest = min(event.at for event in reported)
    for from_ms, is_cut, count in ((earliest - 1, True, 1), (earliest, True, 0), (0, False, 0)):
        events = IncidentEvents("prod", from_ms=from_ms, to_ms=10**15)
        for record in number("prod", "l1", reported):
            events.add_message(encode_event(record))
        assert len(events.missing("kcm.events", is_cut=is_cut)) == count
    events.add_message(b"damaged")
    for record in number("prod", "l2", reported):
        events.add_message(encode_event(record))
    assert events.missing("kcm.events", is_cut=False) == [
        "1 events cannot be read",
        "the events are of 2 lineages: a later one publishes again what an earlier one published",
    ]
