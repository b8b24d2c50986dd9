"""The newest events of a cluster: updated from the store, each converted once."""

from __future__ import annotations

from typing import Any

from exporter.api.newest_events import EVENTS_SHOWN, NewestEvents
from exporter.intake.event_store import EventStore
from tests.support.samples import as_of, elected, event_record
from tests.support.wide_events import wide_events


def seq_of(event: dict[str, Any]) -> int:
    """Return the sequence number of an event in the log."""
    return int(event["position"]["seq"])


def test_an_event_is_converted_once() -> None:
    """It stays the same object; an event that is too old is dropped."""
    served = wide_events()
    as_of_views = served.views.clusters["prod"].view.as_of
    newest = NewestEvents(served.events, "prod", most=EVENTS_SHOWN, most_changes=0)
    assert newest.follow(as_of_views)
    first = list(newest.events)
    assert len(first) == EVENTS_SHOWN
    assert first[0]["partition_count"] == 10_000
    served.publish(elected(EVENTS_SHOWN + 1))
    assert newest.follow(as_of_views)
    again = list(newest.events)
    assert [each["kind"] for each in again[:2]] == ["ControllerElected", "IsrShrunk"]
    assert all(old is new for old, new in zip(first[:-1], again[1:], strict=True))


def test_following_and_reading_at_once_give_the_same_newest_events() -> None:
    """Following step by step and reading at once give the same newest events and elections."""
    store = EventStore(kept=1000)
    followed = NewestEvents(store, "prod", most=15, most_changes=60)
    for seq in range(1, 40):
        store.apply(event_record(elected(seq)))
        assert followed.follow(as_of(seq))
        assert not followed.follow(as_of(seq))
    at_once = NewestEvents(store, "prod", most=15, most_changes=60)
    at_once.follow(as_of(39))
    assert followed.events == at_once.events
    assert followed.controller_changes == at_once.controller_changes
    assert [seq_of(event) for event in followed.events] == list(range(39, 39 - 15, -1))


def test_events_that_are_ahead_of_the_views_are_left_out() -> None:
    """The page never lists an event that its figures do not show yet."""
    store = EventStore(kept=10)
    recent = NewestEvents(store, "prod", most=15, most_changes=60)
    for seq in (1, 2, 3):
        store.apply(event_record(elected(seq)))
    recent.follow(as_of(2))
    assert [seq_of(event) for event in recent.events] == [2, 1]
    recent.follow(as_of(3))
    assert [seq_of(event) for event in recent.events] == [3, 2, 1]


def test_events_of_a_new_lineage_are_listed_first() -> None:
    """Events of an older lineage are not mixed with the new one's."""
    store = EventStore(kept=10)
    recent = NewestEvents(store, "prod", most=15, most_changes=60)
    store.apply(event_record(elected(5)))
    recent.follow(as_of(5))
    store.apply(event_record(elected(1, lineage="L2")))
    recent.follow(as_of(1, lineage="L2"))
    assert recent.events[0]["id"].startswith("L2/")


def test_after_more_events_than_one_step_reads_the_newest_are_listed() -> None:
    """With more events than one step reads, the newest are still the newest."""
    store = EventStore(kept=2000)
    newest = NewestEvents(store, "prod", most=3, most_changes=3)
    store.apply(event_record(elected(1)))
    newest.follow(as_of(1))
    for seq in range(2, 1200):
        store.apply(event_record(elected(seq)))
    assert newest.follow(as_of(1199))
    assert [seq_of(event) for event in newest.events] == [1199, 1198, 1197]
    assert newest.controller_changes == newest.events
    assert not newest.follow(as_of(1199))


def test_changes_of_the_controller_are_complete_since_events_are_held() -> None:
    """Where the list is full, older ones may be missing from it."""
    store = EventStore(kept=10)
    newest = NewestEvents(store, "prod", most=15, most_changes=2)
    assert newest.changes_from is None
    store.apply(event_record(elected(3)))
    newest.follow(as_of(3))
    assert newest.changes_from == store.held_from("prod")
    store.apply(event_record(elected(4)))
    newest.follow(as_of(4))
    assert newest.changes_from is None
