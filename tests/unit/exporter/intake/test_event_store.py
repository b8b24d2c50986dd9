"""The event store: ids rise, rings are bounded, events are shown when the views have come so far."""

from __future__ import annotations

import pytest

from controller_model.records.event_records import EventRecord
from exporter.intake import event_store
from exporter.intake.event_store import EventStore
from tests.support.samples import EVENTS, as_of, elected, event_record, raw

FAR = as_of(10**9)


def size_bytes() -> int:
    """Return what an event of a controller election takes."""
    value = event_record(elected(6)).value
    assert value is not None
    return len(value) + event_store._OBJECTS_BYTES


def ids(events: list[EventRecord]) -> list[tuple[int, int]]:
    """Return what tells test events apart."""
    return [(event.id.seq, event.id.index) for event in events]


def test_repeated_events_are_dropped() -> None:
    """An event whose id is not above the highest seen is a repetition."""
    store = EventStore(kept=10)
    for event in (elected(1), elected(1, 1), elected(2), elected(1, 1), elected(2)):
        store.apply(event_record(event))
    assert ids(store.search("prod", most=10, up_to=FAR).events) == [(2, 0), (1, 1), (1, 0)]
    assert store.repeated == 2


def test_a_new_lineage_continues_above_the_older() -> None:
    """The first event of a newer lineage is above all of an older one, whatever its seq."""
    store = EventStore(kept=10)
    store.apply(event_record(elected(500)))
    assert store.apply(event_record(elected(1, lineage="L2"))) is not None


def test_the_ring_keeps_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the number nor the size of the events kept grows beyond its bound."""
    store = EventStore(kept=3)
    for seq in range(1, 6):
        store.apply(event_record(elected(seq)))
    assert ids(store.search("prod", most=10, up_to=FAR).events) == [(5, 0), (4, 0), (3, 0)]
    monkeypatch.setattr(event_store, "MAX_RING_BYTES", 2 * size_bytes())
    store.apply(event_record(elected(6)))
    assert ids(store.search("prod", most=10, up_to=FAR).events) == [(6, 0), (5, 0)]


def test_events_ahead_of_the_views_are_not_shown_yet() -> None:
    """An event is shown once the views hold the change that told it."""
    store = EventStore(kept=10)
    store.apply(event_record(elected(1)))
    store.apply(event_record(elected(2)))
    assert ids(store.search("prod", most=10, up_to=as_of(1)).events) == [(1, 0)]


def test_clusters_have_rings_of_their_own() -> None:
    """A busy cluster does not push out a quiet one's events, and one can be forgotten."""
    store = EventStore(kept=1)
    store.apply(event_record(elected(1, cluster="quiet")))
    for seq in range(1, 4):
        store.apply(event_record(elected(seq, cluster="busy")))
    assert ids(store.search("quiet", most=5, up_to=FAR).events) == [(1, 0)]
    store.forget("quiet")
    assert store.search("quiet", most=5, up_to=FAR).events == []


def test_all_clusters_share_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds most gives its oldest: a quiet cluster keeps all, busy ones the same share."""
    monkeypatch.setattr(event_store, "MAX_BYTES", 10 * size_bytes() + 50)
    store = EventStore(kept=100)
    store.apply(event_record(elected(1, cluster="idle")))
    for seq in range(10, 30):
        store.apply(event_record(elected(seq, cluster="lone")))
    assert len(store.search("lone", most=100, up_to=FAR).events) == 9
    for seq in range(10, 30):
        store.apply(event_record(elected(seq, cluster="busy")))
    held = {c: store.search(c, most=100, up_to=FAR).events for c in ("idle", "lone", "busy")}
    assert [len(events) for events in held.values()] == [1, 4, 5]
    assert ids(held["busy"])[0] == (29, 0)
    assert store.held_from("busy") == held["busy"][-1].event.at
    store.forget("busy")
    store.forget("lone")
    assert store.held_from("busy") is None
    for seq in range(30, 50):
        store.apply(event_record(elected(seq, cluster="idle")))
    assert len(store.search("idle", most=100, up_to=FAR).events) == 10, (
        "what was forgotten is free again"
    )


@pytest.mark.parametrize("value", [None, b"", b"{}", b"\xff", b'{"v":2}'])
def test_garbage_is_counted(value: bytes | None) -> None:
    """A record that is not an event of this version is skipped."""
    store = EventStore(kept=1)
    assert store.apply(raw(b"prod", value, topic=EVENTS)) is None
    assert store.unreadable == 1
