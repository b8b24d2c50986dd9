"""The origins of preferred elections, by requests in the log and under /admin."""

from __future__ import annotations

import copy

import pytest

from controller_model.records.election_requests import MAX_PARTITIONS, ElectionOrigin
from controller_model.records.events import AnyEvent, LeadersElected, PreferredElectionRequested
from controller_model.tracking import asked_elections
from controller_model.tracking.asked_elections import MAX_ASKED, MAX_HELD_MS
from tests.support.histories import (
    Fold,
    begun,
    election_request,
    kinds,
    only,
    payload,
    small_cluster,
)
from tests.support.recommended_cluster import BEAT_MS, beat, lead

ADMIN = "/admin/preferred_replica_election"


def origins(events: list[AnyEvent]) -> list[tuple[tuple[int, ...], ElectionOrigin | None]]:
    """Return the elected partitions, and the origin of their election."""
    return [
        (tuple(p.partition for p in event.partitions), event.by)
        for event in events
        if isinstance(event, LeadersElected)
    ]


def test_a_request_is_the_origin_of_the_next_preferred_election_only() -> None:
    """For each partition by itself; the next election of the same partition is not the request's."""
    history, fold = begun(t={0: (0, 1, 2), 1: (0, 1, 2), 2: (0, 1, 2)})
    lead(history, 1, 0, 1, 2)
    fold.follow(history)
    fold.feed([election_request("t", 0, 1)])
    lead(history, 0, 0, 2)
    lead(history, 0, 1)
    assert origins(fold.follow(history)) == [
        ((0,), ElectionOrigin.KCM),
        ((2,), None),
        ((1,), ElectionOrigin.KCM),
    ]
    lead(history, 1, 0)
    lead(history, 0, 0)
    assert origins(fold.follow(history))[-1] == ((0,), None)
    assert fold.state.control.elections.asked == {}


def test_a_request_names_preferred_elections_alone() -> None:
    """Elections after a broker's death are not the requested ones."""
    history, fold = begun(t={0: (0, 1, 2)})
    fold.feed([election_request("t", 0)])
    history.broker_gone(0)
    lead(history, 1, 0, isr=(1, 2))
    assert origins(fold.follow(history)) == [((0,), None)]


@pytest.mark.parametrize(("beats", "by"), [(8, ElectionOrigin.KCM), (9, None)])
def test_a_request_is_kept_for_its_own_hold_time(beats: int, by: ElectionOrigin | None) -> None:
    """By the log's clock, which may be late by a heartbeat at the request's position."""
    history, fold = begun(t={0: (0, 1, 2)})
    lead(history, 1, 0)
    fold.follow(history)
    fold.feed([election_request("t", 0, holds_ms=6 * BEAT_MS)])
    beat(history, fold, beats)
    lead(history, 0, 0)
    assert origins(fold.follow(history)) == [((0,), by)]


def test_kept_requests_are_limited_in_time_and_number() -> None:
    """Endless requests neither fill the state nor keep the newest one out."""
    history, fold = begun()
    for number in range(MAX_ASKED // MAX_PARTITIONS):
        fold.feed([election_request(f"t{number}", *range(MAX_PARTITIONS), holds_ms=2**62)])
    assert sum(map(len, fold.state.control.elections.asked.values())) == MAX_ASKED
    fold.feed([election_request("t", 0)])
    held = fold.state.control.elections.asked
    assert {topic: set(partitions) for topic, partitions in held.items()} == {"t": {0}}
    fold.feed([election_request("u", 0, holds_ms=2**62)])
    beat(history, fold, MAX_HELD_MS // BEAT_MS + 3)
    assert fold.state.control.elections.asked == {}


def test_a_request_changes_nothing_else() -> None:
    """Position, clock, digest, counters and views stay the same; before the baseline it is ignored."""
    fold = Fold()
    fold.feed([election_request("t", 0)])
    assert fold.state.control.elections.asked == {}
    history, fold = begun()
    fold.views()
    before, views = copy.deepcopy(fold.state.control), fold.views()
    assert fold.feed([election_request("t", 0), election_request("none", 7)] * 2) == []
    after = copy.deepcopy(fold.state.control)
    assert set(after.elections.asked) == {"t", "none"}
    after.elections = before.elections
    assert after == before
    assert fold.views() == views
    history.heartbeat()
    assert fold.follow(history) == []
    assert fold.state.control.log.view.holes == 0


def test_a_pending_znode_under_admin_is_the_origin_of_its_elections() -> None:
    """Until the controller deletes it, and a little longer, because its writes may be read after that."""
    history, fold = begun(t={0: (0, 1, 2), 1: (0, 1, 2), 2: (0, 1, 2)})
    lead(history, 1, 0, 1, 2)
    asked = {"version": 1, "partitions": [{"topic": "t", "partition": p} for p in (0, 1, 2)]}
    history.set(ADMIN, payload(asked))
    lead(history, 0, 0)
    history.delete(ADMIN)
    lead(history, 0, 1)
    events = fold.follow(history)
    assert len(only(events, PreferredElectionRequested).partitions) == 3
    assert origins(events)[-2:] == [((0,), ElectionOrigin.ZNODE), ((1,), ElectionOrigin.ZNODE)]
    beat(history, fold, 4)
    lead(history, 0, 2)
    assert origins(fold.follow(history)) == [((2,), None)]


def test_the_end_of_a_request_under_admin_leaves_others_alone() -> None:
    """A request of `kcm elect` is kept for its own hold time."""
    history, fold = begun(t={0: (0, 1, 2)})
    lead(history, 1, 0)
    history.set(ADMIN, payload({"version": 1, "partitions": []}))
    fold.follow(history)
    fold.feed([election_request("t", 0, holds_ms=6 * BEAT_MS)])
    history.delete(ADMIN)
    beat(history, fold, 5)
    lead(history, 0, 0)
    assert origins(fold.follow(history)) == [((0,), ElectionOrigin.KCM)]


def test_an_election_found_by_a_resync_has_another_origin_unless_requested() -> None:
    """When it was held, and with which others, was not seen; requested elections are known all the same."""
    history = small_cluster(t={0: (0, 1, 2), 1: (0, 1, 2)})
    fold = Fold()
    lead(history, 1, 0, 1)
    fold.follow(history)
    fold.feed([election_request("t", 1)])
    for partition in (0, 1):
        history.state("t", partition, leader=0, isr=(0, 1, 2), leader_epoch=1000, seen=False)
    history.resync()
    events = fold.follow(history)
    assert "LeadersElected" in kinds(events)
    assert origins(events) == [((0,), ElectionOrigin.OTHER), ((1,), ElectionOrigin.KCM)]


def test_a_deleted_request_that_was_never_read_is_ignored() -> None:
    """The znode may be created and deleted before the watcher reads it."""
    _, fold = begun()
    asked_elections.expire_tool_request(fold.state.control)
    assert fold.state.control.elections.asked == {}
