"""Whether a quorum commits, who follows, and who is registered and gone, as one answer of its leader shows it."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from controller_model.insight.quorum import (
    GONE_MS,
    OBSERVER_SESSION_MS,
    STANDSTILL_MS,
    commits_have_stopped,
    gone_registrations,
    lags,
    leader_is_silent,
    spare_voters,
    why_past,
)
from controller_model.records.metadata_log import CAUGHT_UP_MS, QuorumReplica, QuorumSample
from controller_model.records.quorum import QuorumView, RegisteredController
from controller_model.records.views import ClusterView, ControllerView
from tests.support.samples import broker_view, cluster_view

AT = 10 * GONE_MS
LED_MS = 2 * OBSERVER_SESSION_MS


def replica(node: int, behind_ms: int | None = 0, fetched_ms: int | None = 0) -> QuorumReplica:
    """Return a replica that was caught up, and fetched, so long before the answer; None: not under this leader."""
    caught_up = None if behind_ms is None else AT - behind_ms
    return QuorumReplica(node, 50, None if fetched_ms is None else AT - fetched_ms, caught_up)


def view_of(
    *voters: QuorumReplica, observers: tuple[QuorumReplica, ...] = (), **fields: Any
) -> ClusterView:
    """Return a KRaft cluster whose leader 1 has answered so; brokers 11 and 12 are live."""
    sample = QuorumSample(AT, 1, 7, 50, voters, observers)
    known = {
        "is_sampled": True,
        "leader": 1,
        "leader_epoch": 7,
        "high_watermark": 50,
        "high_watermark_since": AT,
    }
    return cluster_view(
        quorum=QuorumView(**{"sample": sample} | known | fields),
        controller=ControllerView(id=1, epoch=7, elected_at=AT - LED_MS),
        brokers_live=(11, 12),
        brokers_known=(11, 12, 13),
    )


@pytest.mark.parametrize("voters", range(1, 8))
def test_as_many_voters_may_be_lost_as_leave_a_majority(voters: int) -> None:
    """Over every set of voters that follow: it is the largest number whose loss leaves more than half of all voters."""
    for others in itertools.product((0, CAUGHT_UP_MS, CAUGHT_UP_MS + 1, None), repeat=voters - 1):
        view = view_of(replica(1), *(replica(2 + n, ms) for n, ms in enumerate(others)))
        following = 1 + sum(ms in {0, CAUGHT_UP_MS} for ms in others)
        may_be_lost = [n for n in range(following + 1) if 2 * (following - n) > voters]
        assert spare_voters(view) == max(may_be_lost, default=0)


def test_what_the_leader_does_not_say_now_is_not_known() -> None:
    """Neither an answer of another leader or epoch, nor one from before nobody answered, says how far anybody is."""
    past: tuple[dict[str, Any], ...] = (
        {"leader": 2},
        {"leader": -1, "leader_epoch": 8},
        {"leader_epoch": 8},
        {"sample": None},
        {"unreachable_since": AT},
        {"leader_silent_since": AT},
        {"is_sampled": False},
        {"epoch": 8},
    )
    for fields in past:
        view = view_of(replica(1), **fields)
        assert view.quorum is not None
        assert spare_voters(view) is None
        assert commits_have_stopped(view.quorum) is None
        assert (lags(view).voters, lags(view).brokers) == ((), ())
        found = gone_registrations(view, (), AT)
        assert found == {"broker": ()}
    assert spare_voters(cluster_view()) is None
    assert gone_registrations(cluster_view(), (), AT) is None


def test_a_leader_is_silent_only_where_others_name_it() -> None:
    """Where nobody answers, or they name none, nothing is known of a leader."""
    for fields, is_silent in (
        ({}, False),
        ({"leader_silent_since": AT}, True),
        ({"leader_silent_since": AT, "unreachable_since": AT}, None),
        ({"leader": -1}, None),
        ({"leader": None}, None),
    ):
        quorum = view_of(replica(1), **fields).quorum
        assert quorum is not None
        assert leader_is_silent(quorum) is is_silent
        is_reason = "does not answer the watcher" in (why_past(quorum) or "")
        assert is_reason is (is_silent is True)


def test_commits_have_stopped_only_if_the_leader_says_so() -> None:
    """A watcher that is cut off sees the high watermark stand still as well: the leader's own answer must be newer."""
    known: dict[str, Any] = {"high_watermark_since": AT - STANDSTILL_MS}
    for fields, expected in (
        (known, True),
        (known | {"high_watermark": 49}, False),  # the leader's own is higher
        ({"high_watermark_since": AT - STANDSTILL_MS + 1}, False),
        ({"high_watermark_since": AT + STANDSTILL_MS}, False),  # grew since it answered
    ):
        quorum = view_of(replica(1), **fields).quorum
        assert quorum is not None
        assert commits_have_stopped(quorum) is expected


def test_a_replica_is_behind_since_it_was_caught_up_or_the_election() -> None:
    """Of a live broker that the leader does not list, the leader has forgotten how long; a controller is no broker."""
    view = view_of(
        replica(1),
        replica(2, None, None),
        observers=(replica(3, 5), replica(11, 70), replica(13, None)),
    )
    found = lags(view)
    assert [(lag.node, lag.ms) for lag in found.voters] == [(1, 0), (2, LED_MS)]
    assert [(lag.node, lag.ms) for lag in found.observers] == [(3, 5)]
    assert [(lag.node, lag.ms) for lag in found.brokers] == [
        (11, 70),
        (12, OBSERVER_SESSION_MS),
        (13, LED_MS),
    ]
    young = msgspec.structs.replace(
        view, controller=ControllerView(id=1, epoch=7, elected_at=AT - 900)
    )
    assert [(lag.node, lag.ms) for lag in lags(young).brokers] == [(11, 70), (12, 900), (13, 900)]
    unknown = msgspec.structs.replace(view, controller=None)
    assert [(lag.node, lag.ms) for lag in lags(unknown).brokers] == [
        (11, 70),
        (12, None),
        (13, None),
    ]


def test_a_combined_node_is_a_voter_and_a_broker() -> None:
    """It has one replica of the log, which counts as both."""
    found = lags(view_of(replica(11, 3)))
    assert [(lag.node, lag.ms) for lag in found.voters] == [(11, 3)]
    assert (11, 3) in [(lag.node, lag.ms) for lag in found.brokers]


def test_who_is_registered_and_gone_blocks_an_upgrade() -> None:
    """Brokers once they were fenced for a day; controllers that the leader does not know, or has not heard of for one."""
    brokers = [
        broker_view(11, fenced=False),
        broker_view(12, live=False, fenced=None, since=0),  # not registered
        broker_view(13, live=False, fenced=True, since=AT - GONE_MS),
        broker_view(14, live=False, fenced=True, since=AT - GONE_MS - 1),
        broker_view(15, live=False, fenced=True, since=None),  # since before anybody watched
    ]
    registered = dict.fromkeys((1, 2, 3, 4, 5), RegisteredController())
    view = view_of(
        replica(1, 0, None),
        replica(2, 0, GONE_MS),
        replica(3, 0, GONE_MS + 1),
        observers=(replica(4),),
        controllers=registered,
    )
    view = msgspec.structs.replace(view, counters_since=0)
    assert gone_registrations(view, brokers, AT) == {"broker": (14, 15), "controller": (3, 5)}
    young = msgspec.structs.replace(
        view, controller=ControllerView(id=1, epoch=7, elected_at=AT - OBSERVER_SESSION_MS + 1)
    )
    # A new leader has not heard of everybody yet.
    assert gone_registrations(young, brokers, AT) == {"broker": (14, 15), "controller": ()}
    hidden = msgspec.structs.replace(view, brokers_live=None)
    assert gone_registrations(hidden, brokers, AT) is None
