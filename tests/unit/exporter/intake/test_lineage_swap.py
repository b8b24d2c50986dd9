"""A newer lineage is shown once it has come as far as the one that is shown, and never before."""

from __future__ import annotations

import msgspec
import pytest

from controller_model.kafka.ids import Position
from controller_model.records.event_records import EventRecord
from exporter.intake.event_store import EventStore
from exporter.intake.view_store import UNPROVEN_AT_MOST_MS, ViewStore
from tests.support.samples import (
    T0,
    as_of,
    broker_view,
    cluster_view,
    deleted,
    elected,
    event_record,
    log_view,
    raw,
    record,
    topic_view,
)


def shown_store() -> ViewStore:
    """Return a store that shows lineage L1 as of its 900th change."""
    store = ViewStore()
    for view in (broker_view(0), broker_view(1), topic_view("old"), cluster_view(at=as_of(900))):
        store.apply(record(view))
    return store


def shown(store: ViewStore) -> tuple[str, Position]:
    """Return which lineage is shown, and as of what."""
    place = store.clusters["prod"].view.as_of
    return place.lineage, Position(place.generation, place.seq)


def l2(seq: int, *, at: int = T0, generation: int = 1, verified_at: int | None = T0) -> bytes:
    """Return a commit mark of the newer lineage, by the log's clock."""
    log = log_view(heartbeat_at=at, last_change_at=at, verified_at=verified_at)
    view = cluster_view(at=as_of(seq, generation=generation, lineage="L2"), log=log)
    return record(view).value or b""


def test_a_log_that_is_folded_again_is_not_shown_on_its_way() -> None:
    """States of days ago stay unseen; at the place where the older lineage stands all swaps."""
    store = shown_store()
    store.apply(record(broker_view(5, as_of(1, lineage="L2"))))
    store.apply(record(topic_view("told", at=as_of(1, lineage="L2"))))
    for seq in (1, 500, 899):
        assert store.apply(raw(b"prod/cluster", l2(seq, at=T0 - 1000))) is None
        assert shown(store) == ("L1", (1, 900))
        assert {entry.name for entry in store.clusters["prod"].topics.values()} == {"old"}
    assert store.apply(raw(b"prod/cluster", l2(900, at=T0 - 1000))) == "prod"
    assert shown(store) == ("L2", (1, 900))
    assert {entry.name for entry in store.clusters["prod"].topics.values()} == {"told"}


def test_a_log_made_anew_has_come_as_far_by_its_clock() -> None:
    """Its positions begin at the bottom again, and its first heartbeat is newer than the last one."""
    store = shown_store()
    assert store.apply(raw(b"prod/cluster", l2(3, at=T0 - 1))) is None
    assert store.apply(raw(b"prod/cluster", l2(4, at=T0))) == "prod"
    assert shown(store) == ("L2", (1, 4))


def test_proven_figures_are_not_replaced_by_unproven_ones_at_once() -> None:
    """A log that lost its beginning has no whole resync: the answer to the one asked for is waited for."""
    store = shown_store()
    assert store.apply(raw(b"prod/cluster", l2(950, at=T0 + 1, verified_at=None))) is None
    assert shown(store) == ("L1", (1, 900))
    assert store.apply(raw(b"prod/cluster", l2(960, at=T0 + 2))) == "prod"
    assert shown(store) == ("L2", (1, 960))


def test_a_proof_that_does_not_come_is_not_waited_for_for_ever() -> None:
    """After ten minutes of the log incomplete figures, which say so, are better than old ones."""
    store = shown_store()
    late = T0 + UNPROVEN_AT_MOST_MS
    assert store.apply(raw(b"prod/cluster", l2(950, at=late, verified_at=None))) is None
    assert store.apply(raw(b"prod/cluster", l2(951, at=late + 1, verified_at=None))) == "prod"


def test_unproven_figures_are_replaced_by_unproven_ones() -> None:
    """Where nothing was proven there is nothing to keep."""
    store = ViewStore()
    store.apply(record(cluster_view(at=as_of(9), log=log_view(verified_at=None))))
    assert store.apply(raw(b"prod/cluster", l2(9, verified_at=None))) == "prod"


def test_the_older_lineage_cannot_come_between() -> None:
    """Once a newer lineage is on its way, what the older one still wrote is not newer."""
    store = shown_store()
    store.apply(raw(b"prod/cluster", l2(10, at=T0 - 1000)))
    assert store.apply(record(cluster_view(at=as_of(901)))) is None
    assert shown(store) == ("L1", (1, 900))
    assert store.counts.not_newer == 1


@pytest.mark.parametrize(
    "value", [None, record(deleted(as_of(11, lineage="L2")), "prod/cluster").value]
)
def test_a_cluster_that_goes_goes_with_what_was_on_its_way(value: bytes | None) -> None:
    """A delete drops both, so that nothing of it comes back as a later batch's base."""
    store = shown_store()
    store.apply(raw(b"prod/cluster", l2(10, at=T0 - 1000)))
    assert store.apply(raw(b"prod/cluster", value)) == "prod"
    assert not store.clusters
    assert store.apply(raw(b"prod/cluster", l2(12))) == "prod"
    assert store.clusters["prod"].topics == {}


def told(events: list[EventRecord]) -> list[tuple[str, int]]:
    """Return what tells test events apart."""
    return [(event.id.lineage, event.id.seq) for event in events]


def retold_store() -> EventStore:
    """Return a store of two lineages: the newer one's log begins at seq 3."""
    store = EventStore(kept=100)
    for seq in range(1, 6):
        store.apply(event_record(elected(seq)))
    for seq in range(3, 8):
        store.apply(event_record(elected(seq, lineage="L2")))
    return store


def test_what_is_told_again_is_shown_once() -> None:
    """Facts that the newer lineage's log still holds are its own; the older ones are of the older."""
    store = retold_store()
    far = as_of(10**9, lineage="L2")
    expected = [*(("L1", seq) for seq in (1, 2)), *(("L2", seq) for seq in range(3, 8))]
    assert told(store.search("prod", most=10, up_to=far).events) == expected[::-1]
    assert told(store.search("prod", most=1, up_to=far).events) == expected[-1:]
    assert store.search("prod", most=0, up_to=far).events == []
    assert told(store.search("prod", most=10, up_to=far).events) == expected[::-1]


def test_until_the_swap_the_older_lineage_tells() -> None:
    """Nothing of the newer lineage is shown, and nothing of the older one left out, before the views swap."""
    shown = retold_store().search("prod", most=10, up_to=as_of(5)).events
    assert told(shown) == [("L1", seq) for seq in (5, 4, 3, 2, 1)]


def test_who_follows_hears_nothing_twice() -> None:
    """After the swap a follower goes on behind the place that it had come to."""
    store = retold_store()
    far = as_of(10**9, lineage="L2")
    page = store.search("prod", most=10, up_to=far, after=elected(5).id)
    assert told(page.events) == [("L2", 6), ("L2", 7)]
    page = store.search("prod", most=10, up_to=as_of(5, lineage="L2"), after=elected(5).id)
    assert page.events == []
    dropped = elected(4, index=9).id  # not among those that are kept
    page = store.search("prod", most=10, up_to=far, after=dropped)
    assert told(page.events) == [("L2", 5), ("L2", 6), ("L2", 7)]


def test_events_of_a_log_made_anew_are_new() -> None:
    """Its places begin at the bottom again; its times do not."""
    store = EventStore(kept=100)
    for seq in range(10, 13):
        store.apply(event_record(elected(seq)))
    later = elected(1, lineage="L2")
    later = msgspec.structs.replace(later, event=elected(20).event)
    store.apply(event_record(later))
    far = as_of(10**9, lineage="L2")
    assert len(store.search("prod", most=10, up_to=far).events) == 4
    page = store.search("prod", most=10, up_to=far, after=elected(12).id)
    assert told(page.events) == [("L2", 1)]
