"""The event store: ids rise, rings are bounded, events are shown once the views have reached them.

This includes events of a newer lineage, and those of another release.
"""

from __future__ import annotations

import json

import msgspec
import pytest

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.records.event_records import EventRecord, decode_event, encode_event
from exporter.intake import event_store
from exporter.intake.event_store import EventPage, EventStore
from tests.support.samples import (
    EVENTS,
    as_of,
    elected,
    event_record,
    raw,
)

FAR = as_of(10**9)


def size_bytes() -> int:
    """Return the size in bytes of an event of a controller election."""
    value = event_record(elected(6)).value
    assert value is not None
    return len(value) + event_store._OBJECTS_BYTES


def read(page: EventPage) -> list[EventRecord]:
    """Return the events of a page."""
    return [decode_event(value) for value in page.values]


def ids(events: list[EventRecord]) -> list[tuple[int, int]]:
    """Return the seq and index of each event."""
    return [(event.id.seq, event.id.index) for event in events]


def test_repeated_events_are_dropped() -> None:
    """An event whose id is not above the highest seen is a repetition."""
    store = EventStore(kept=10)
    events = (elected(1), elected(1, 1), elected(2), elected(1, 1), elected(2))
    taken = [store.apply(event_record(event)) for event in events]
    assert ids(read(store.search("prod", most=10, up_to=FAR))) == [(2, 0), (1, 1), (1, 0)]
    assert taken == [*events[:3], None, None]


def test_the_ring_keeps_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the number nor the size of the events kept grows beyond its bound."""
    store = EventStore(kept=3)
    for seq in range(1, 6):
        store.apply(event_record(elected(seq)))
    assert ids(read(store.search("prod", most=10, up_to=FAR))) == [(5, 0), (4, 0), (3, 0)]
    monkeypatch.setattr(event_store, "MAX_RING_BYTES", 2 * size_bytes())
    store.apply(event_record(elected(6)))
    assert ids(read(store.search("prod", most=10, up_to=FAR))) == [(6, 0), (5, 0)]


def test_clusters_have_rings_of_their_own() -> None:
    """A busy cluster does not push out a quiet one's events, and one can be forgotten."""
    store = EventStore(kept=1)
    store.apply(event_record(elected(1, cluster="quiet")))
    for seq in range(1, 4):
        store.apply(event_record(elected(seq, cluster="busy")))
    assert ids(read(store.search("quiet", most=5, up_to=FAR))) == [(1, 0)]
    store.forget("quiet")
    assert read(store.search("quiet", most=5, up_to=FAR)) == []


def test_all_clusters_share_one_size_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster with the most bytes drops its oldest: a quiet one keeps all events, busy ones an equal share."""
    monkeypatch.setattr(event_store, "MAX_BYTES", 10 * size_bytes() + 50)
    store = EventStore(kept=100)
    store.apply(event_record(elected(1, cluster="idle")))
    for seq in range(10, 30):
        store.apply(event_record(elected(seq, cluster="lone")))
    assert len(read(store.search("lone", most=100, up_to=FAR))) == 9
    for seq in range(10, 30):
        store.apply(event_record(elected(seq, cluster="busy")))
    held = {c: read(store.search(c, most=100, up_to=FAR)) for c in ("idle", "lone", "busy")}
    assert [len(events) for events in held.values()] == [1, 4, 5]
    assert ids(held["busy"])[0] == (29, 0)
    assert store.held_from("busy") == held["busy"][-1].event.at
    store.forget("busy")
    store.forget("lone")
    assert store.held_from("busy") is None
    for seq in range(30, 50):
        store.apply(event_record(elected(seq, cluster="idle")))
    assert len(read(store.search("idle", most=100, up_to=FAR))) == 10, (
        "what was forgotten is free again"
    )


@pytest.mark.parametrize("value", [None, b"", b"{}", b"\xff", b'{"v":2}'])
def test_a_malformed_event_is_refused(value: bytes | None) -> None:
    """A record that is not an event of this version is an error, and changes nothing."""
    store = EventStore(kept=1)
    with pytest.raises(UnreadableRecordError):
        store.apply(raw(b"prod", value, topic=EVENTS))
    assert store.held_from("prod") is None


def places(events: list[EventRecord]) -> list[tuple[str, int]]:
    """Return the lineage and seq of each event."""
    return [(event.id.lineage, event.id.seq) for event in events]


def refolded_store() -> EventStore:
    """Return a store of two lineages: the newer one's log begins at seq 3."""
    store = EventStore(kept=100)
    for seq in range(1, 6):
        store.apply(event_record(elected(seq)))
    for seq in range(3, 8):
        store.apply(event_record(elected(seq, lineage="L2")))
    return store


def test_events_that_a_newer_lineage_emits_again_are_shown_once() -> None:
    """Events that the newer lineage emits again are shown from it; those before are the older lineage's."""
    store = refolded_store()
    far = as_of(10**9, lineage="L2")
    expected = [*(("L1", seq) for seq in (1, 2)), *(("L2", seq) for seq in range(3, 8))]
    assert places(read(store.search("prod", most=10, up_to=far))) == expected[::-1]
    assert places(read(store.search("prod", most=1, up_to=far))) == expected[-1:]
    assert read(store.search("prod", most=0, up_to=far)) == []
    assert places(read(store.search("prod", most=10, up_to=far))) == expected[::-1]


def test_events_of_the_older_lineage_are_shown_until_the_swap() -> None:
    """Before the views swap, no event of the newer lineage is shown and none of the older one is left out."""
    shown = read(refolded_store().search("prod", most=10, up_to=as_of(5)))
    assert places(shown) == [("L1", seq) for seq in (5, 4, 3, 2, 1)]


def test_a_follower_gets_no_event_twice_after_a_lineage_swap() -> None:
    """After the swap a follower continues after the position that it had reached."""
    store = refolded_store()
    far = as_of(10**9, lineage="L2")
    page = store.search("prod", most=10, up_to=far, after=elected(5).id)
    assert places(read(page)) == [("L2", 6), ("L2", 7)]
    page = store.search("prod", most=10, up_to=as_of(5, lineage="L2"), after=elected(5).id)
    assert read(page) == []
    dropped = elected(4, index=9).id  # not among those that are kept
    page = store.search("prod", most=10, up_to=far, after=dropped)
    assert places(read(page)) == [("L2", 5), ("L2", 6), ("L2", 7)]


def test_events_of_a_recreated_log_are_new() -> None:
    """Its positions begin at 0 again; its times do not."""
    store = EventStore(kept=100)
    for seq in range(10, 13):
        store.apply(event_record(elected(seq)))
    later = elected(1, lineage="L2")
    later = msgspec.structs.replace(later, event=elected(20).event)
    store.apply(event_record(later))
    far = as_of(10**9, lineage="L2")
    assert len(read(store.search("prod", most=10, up_to=far))) == 4
    page = store.search("prod", most=10, up_to=far, after=elected(12).id)
    assert places(read(page)) == [("L2", 1)]


def test_an_event_of_an_unknown_kind_is_refused_and_later_ones_are_kept() -> None:
    """An older exporter continues with the next event that it knows."""
    store = EventStore(kept=10)
    store.apply(event_record(elected(1)))
    strange = json.loads(encode_event(elected(2)))
    strange["event"]["kind"] = "OfANewerRelease"
    with pytest.raises(UnreadableRecordError):
        store.apply(raw(b"prod", json.dumps(strange).encode(), topic=EVENTS))
    store.apply(event_record(elected(3)))
    shown = read(store.search("prod", most=10, up_to=as_of(10**9)))
    assert [event.id.seq for event in shown] == [3, 1]
