"""The origins of elections in a grade: kcm, a request by znode, the controller's check, or another."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.election_requests import ElectionOrigin
from controller_model.records.events import LeaderElectionKind, LeadersElected
from controller_model.records.recommendations import WATCH_MS
from controller_model.state.control_plane import Assumed
from controller_model.state.recommendation_state import RecommendationState
from controller_model.tracking import election_rounds
from controller_model.tracking.election_rounds import PAUSE_MS
from tests.support.histories import Fold, History, election_request, payload, small_cluster
from tests.support.recommended_cluster import BEAT_MS, beat, graded, lead, recommended

TO_THE_GRADE = WATCH_MS // BEAT_MS + 2


def elected_by(history: History, fold: Fold) -> dict[str, int]:
    """Wait for the grade; return its counts, whose sum is right."""
    beat(history, fold, TO_THE_GRADE)
    (grade,) = graded(fold)
    assert sum(grade.elected_by.values()) == grade.elections
    return grade.elected_by


ALL = (3, 5, 7)
BEAT = -1
"""In place of a partition: a heartbeat between two elections."""


@pytest.mark.parametrize(
    ("imbalanced", "requested", "steps", "origins"),
    [
        pytest.param(ALL, (), ALL, {"rebalance": 3}, id="all at once"),
        pytest.param(ALL, (), (3, 5), {"other": 2}, id="a part: the check would elect the rest"),
        pytest.param(
            ALL, (), (3, BEAT, 5, 7), {"other": 1, "rebalance": 2}, id="a part, later all the rest"
        ),
        pytest.param((3, 5), (), (3, BEAT, 5), {"other": 2}, id="then below the threshold"),
        pytest.param(ALL, (3, 5), ALL, {"kcm": 2, "other": 1}, id="one more than requested"),
        pytest.param(
            ALL, (3,), (3, BEAT, BEAT, 5, 7), {"kcm": 1, "rebalance": 2}, id="a check after kcm"
        ),
    ],
)
def test_a_round_has_the_origin_of_all_that_it_elects(
    imbalanced: tuple[int, ...],
    requested: tuple[int, ...],
    steps: tuple[int, ...],
    origins: dict[str, int],
) -> None:
    """The check elects all electable partitions of a broker above the threshold, and no part of them."""
    history, fold = recommended(*imbalanced)
    if requested:
        fold.feed([election_request("t", *requested)])
    for step in steps:
        if step == BEAT:
            beat(history, fold, 1)
        else:
            lead(history, 0, step)
    assert elected_by(history, fold) == origins


def test_no_origin_is_inferred_where_auto_leader_rebalance_is_off() -> None:
    """The assumed setting is auto.leader.rebalance.enable=false, as in the brokers' files."""
    history, fold = recommended(3, 5, 7)
    fold.state.control.assumed = Assumed(auto_leader_rebalance=False)
    lead(history, 0, 3, 5, 7)
    assert elected_by(history, fold) == {"other": 3}


@pytest.mark.parametrize(
    ("pause_ms", "origin"), [(PAUSE_MS - 100, "rebalance"), (PAUSE_MS + 100, "other")]
)
def test_the_pause_between_two_partial_rounds_decides_their_origin(
    pause_ms: int, origin: str
) -> None:
    """Between two heartbeats: the first of them elected only a part."""
    history, fold = recommended(3, 5, 7)
    lead(history, 0, 3, 5)
    history.now += pause_ms
    lead(history, 0, 7)
    assert elected_by(history, fold) == {origin: 3}


def test_a_round_that_includes_a_balanced_broker_has_the_origin_other() -> None:
    """A tool that elects everywhere also elects for brokers for which the check does nothing."""
    history = small_cluster(
        t=dict.fromkeys(range(5), (0, 1, 2)), u=dict.fromkeys(range(20), (2, 1, 0))
    )
    fold = Fold()
    lead(history, 1, 1, 3)
    history.state("u", 1, leader=1, isr=(2, 1, 0), leader_epoch=1)
    beat(history, fold, 5)
    lead(history, 0, 1, 3)
    history.state("u", 1, leader=2, isr=(2, 1, 0), leader_epoch=2)
    assert elected_by(history, fold) == {"other": 2}


def test_a_request_under_admin_is_named() -> None:
    """Legacy tools request elections through ZooKeeper."""
    history, fold = recommended(3, 5)
    asked = {"version": 1, "partitions": [{"topic": "t", "partition": p} for p in (3, 5)]}
    history.set("/admin/preferred_replica_election", payload(asked))
    lead(history, 0, 3, 5)
    history.delete("/admin/preferred_replica_election")
    assert elected_by(history, fold) == {"znode": 2}


def test_elections_found_by_a_resync_have_the_origin_other() -> None:
    """All of them are elected when they are read, but it is not known when each one was."""
    history, fold = recommended(3, 5)
    for partition in (3, 5):
        history.state(
            "t", partition, leader=0, isr=(0, 1, 2), leader_epoch=history.zxid, seen=False
        )
    history.resync()
    assert elected_by(history, fold) == {"other": 2}


def test_a_round_under_way_at_the_grade_is_counted_in_it() -> None:
    """No election is missing in the counts, however late it was."""
    history, fold = recommended(3, 5, 7)
    lead(history, 0, 3)
    beat(history, fold, WATCH_MS // BEAT_MS - 1)
    history.now += BEAT_MS - 1_000
    lead(history, 0, 5, 7)
    history.heartbeat(after_ms=1_000)
    assert elected_by(history, fold) == {"other": 1, "rebalance": 2}


def test_elections_towards_a_broker_without_recommendation_are_not_counted() -> None:
    """They belong to no recommendation, whatever their origin is."""
    held = RecommendationState()
    event = LeadersElected(
        election=LeaderElectionKind.PREFERRED,
        from_broker=1,
        to_broker=0,
        controller_epoch=1,
        partitions=(TopicPartition("t", 0),),
        by=ElectionOrigin.KCM,
        at=7,
        position=Position(1, 1),
    )
    election_rounds.count_elections(held, event, is_watched=False)
    assert held == RecommendationState(others_at=7)
