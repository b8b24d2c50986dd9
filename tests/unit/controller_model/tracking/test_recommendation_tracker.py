"""Recommendations: when one is made, when it is not repeated, and how it is graded."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import TopicPartition
from controller_model.records.events import RecommendationMade
from controller_model.records.recommendations import (
    CLEAR_MS,
    GRADES_KEPT,
    REPEAT_MS,
    SETTLE_MS,
    WATCH_MS,
    BrokerRatio,
    Outcome,
    RebalanceSummary,
)
from controller_model.records.views import RecommendationView
from controller_model.state.control_plane import Assumed
from controller_model.tracking import recommendation_tracker
from tests.support.histories import Fold, only, small_cluster
from tests.support.recommended_cluster import (
    BEAT_MS,
    PARTITIONS,
    beat,
    begun,
    graded,
    lead,
    made,
    recommended,
)


def test_a_broker_above_the_threshold_is_reported_once_it_has_stayed_there() -> None:
    """With the partitions, their number, and the exact command."""
    history, fold = begun()
    lead(history, 1, 3, 5)
    beat(history, fold, SETTLE_MS // BEAT_MS)
    assert made(fold) == []
    beat(history, fold, 1)
    reported = only(fold.accounts, RecommendationMade)
    assert reported.number == 1
    assert reported.brokers == (0,)
    assert reported.threshold_percentage == 10
    assert reported.partition_count == 2
    assert reported.partitions == (TopicPartition("t", 3), TopicPartition("t", 5))
    assert reported.at == history.now + 1
    shown = fold.cluster_view().rebalance
    assert shown == RebalanceSummary(
        exceeding=(0,),
        mendable=(0,),
        electable=2,
        blocked={"not_live": 0, "not_in_isr": 0},
        recommendation=1,
        recommended_at=reported.at,
        recommended=2,
        made=1,
    )


def test_at_the_threshold_nothing_is_reported() -> None:
    """Kafka acts strictly above it: one of ten is not above ten percent."""
    history, fold = begun()
    lead(history, 1, 3)
    beat(history, fold, 20)
    assert fold.cluster_view().rebalance.exceeding == ()
    assert made(fold) == []


def test_the_threshold_is_the_assumed_setting() -> None:
    """The setting replaces leader.imbalance.per.broker.percentage."""
    history, fold = begun()
    fold.state.control.assumed = Assumed(leader_imbalance_per_broker_percentage=5)
    lead(history, 1, 3)
    beat(history, fold, 4)
    assert only(fold.accounts, RecommendationMade).threshold_percentage == 5
    assert fold.cluster_view().rebalance.threshold_percentage == 5


def test_blocked_partitions_are_not_recommended_for_election() -> None:
    """The preferred replica is gone, or not in the ISR: reported as blocked."""
    history, fold = begun()
    lead(history, 1, 1, 2, isr=(1, 2))
    beat(history, fold, 10)
    assert fold.cluster_view().rebalance.blocked == {"not_live": 0, "not_in_isr": 2}
    history.broker_gone(0)
    lead(history, 1, *range(PARTITIONS), isr=(1, 2))
    beat(history, fold, 10)
    assert fold.cluster_view().rebalance.blocked == {"not_live": PARTITIONS, "not_in_isr": 0}
    assert fold.cluster_view().rebalance.exceeding == (0,)
    assert made(fold) == []


def test_a_standing_recommendation_is_not_reported_again() -> None:
    """Not after an hour, and not if more partitions of the same broker are added."""
    history, fold = recommended(3, 5)
    lead(history, 1, 7)
    beat(history, fold, 2 * REPEAT_MS // BEAT_MS)
    assert len(made(fold)) == 1
    assert graded(fold) == []


def test_a_short_change_neither_makes_nor_withdraws_a_recommendation() -> None:
    """A replica that leaves the ISR for a moment changes nothing, however often it does."""
    history, fold = recommended(3, 5)
    for _ in range(2):
        lead(history, 1, 3, 5, isr=(1, 2))
        beat(history, fold, CLEAR_MS // BEAT_MS)
        lead(history, 1, 3, 5)
        beat(history, fold, 10)
    assert len(made(fold)) == 1
    assert graded(fold) == []


def test_each_grade_counts_the_elections_of_its_own_recommendation() -> None:
    """Nothing of an earlier one is left: neither elections and their origins, nor deleted topics."""
    history, fold = recommended(3, 5)
    stories = (1, (3, 5), "rebalance"), (2, (5,), "other")
    for number, partitions, elected_by in stories:
        lead(history, 0, *partitions)
        beat(history, fold, (WATCH_MS + CLEAR_MS) // BEAT_MS + 1)
        grade = graded(fold)[-1]
        assert (grade.number, grade.outcome) == (number, Outcome.MENDED)
        assert (grade.elections, grade.regained, grade.gone) == (len(partitions),) * 2 + (0,)
        assert grade.elected_by == {elected_by: len(partitions)}
        lead(history, 1, 3, 5)
        beat(history, fold, SETTLE_MS // BEAT_MS + 1)
        assert len(made(fold)) == number + 1


def test_a_recommendation_without_remaining_partitions_is_withdrawn() -> None:
    """The replicas left the ISR; when they are back there is a new recommendation."""
    history, fold = recommended(3, 5)
    lead(history, 1, 3, 5, isr=(1, 2))
    beat(history, fold, CLEAR_MS // BEAT_MS + 1)
    (grade,) = graded(fold)
    assert grade.outcome is Outcome.WITHDRAWN
    assert grade.elected_at is None
    assert (grade.watched, grade.regained, grade.not_regained) == (2, 0, 2)
    assert grade.regained_after_ms is None
    assert fold.cluster_view().rebalance.recommendation is None
    assert fold.state.control.recommendations.watched == {}
    lead(history, 1, 3, 5)
    beat(history, fold, SETTLE_MS // BEAT_MS + 1)
    assert [each.number for each in made(fold)] == [1, 2]


def test_a_second_unbalanced_broker_replaces_the_recommendation() -> None:
    """The first is withdrawn; the new one contains both brokers' partitions."""
    history = small_cluster(
        t=dict.fromkeys(range(5), (0, 1, 2)), u=dict.fromkeys(range(5), (2, 1, 0))
    )
    fold = Fold()
    lead(history, 1, 3)
    beat(history, fold, 5)
    assert only(fold.accounts, RecommendationMade).brokers == (0,)
    history.state("u", 1, leader=1, isr=(2, 1, 0), leader_epoch=1)
    history.state("u", 2, leader=1, isr=(2, 1, 0), leader_epoch=1)
    beat(history, fold, 5)
    second = made(fold)[1]
    assert second.brokers == (2, 0), "worst first"
    assert second.partition_count == 3
    assert [grade.outcome for grade in graded(fold)] == [Outcome.WITHDRAWN]


def test_elections_are_graded_after_they_were_watched() -> None:
    """Which leaderships were regained, and after how long."""
    history, fold = recommended(3, 5)
    lead(history, 0, 3)
    first = history.now + 1
    history.now += 1_500
    lead(history, 0, 5)
    last = history.now + 1
    beat(history, fold, WATCH_MS // BEAT_MS - 1)
    assert graded(fold) == []
    fold.views()
    beat(history, fold, 1)
    (grade,) = graded(fold)
    view = fold.views()["prod/recommendation"]
    assert isinstance(view, RecommendationView)
    assert (view.standing, view.graded) == (None, (grade,))
    assert grade.outcome is Outcome.MENDED
    assert (grade.number, grade.elected_at) == (1, first)
    assert (grade.partition_count, grade.elections, grade.watched) == (2, 2, 2)
    assert (grade.regained, grade.lost_again, grade.not_regained) == (2, 0, 0)
    assert grade.regained_after_ms == last - first
    assert grade.graded_at - first >= WATCH_MS
    assert grade.ratios == (BrokerRatio(broker=0, before=0.2, after=0.0),)
    shown = fold.cluster_view().rebalance
    assert (shown.recommendation, shown.graded) == (None, {"mended": 1})


def test_a_recommendation_with_leaders_not_regained_is_graded_partly() -> None:
    """It is repeated after an hour, if it is still needed then."""
    history, fold = recommended(1, 2, 3)
    lead(history, 0, 1)
    beat(history, fold, WATCH_MS // BEAT_MS)
    (grade,) = graded(fold)
    assert grade.outcome is Outcome.PARTLY
    assert (grade.regained, grade.not_regained) == (1, 2)
    assert grade.examples_not_regained == (TopicPartition("t", 2), TopicPartition("t", 3))
    assert len(made(fold)) == 1
    beat(history, fold, REPEAT_MS // BEAT_MS - 1)
    assert len(made(fold)) == 1
    beat(history, fold, 1)
    assert [each.partition_count for each in made(fold)] == [3, 2]


def test_an_old_recommendation_is_repeated_only_an_hour_after_its_grade() -> None:
    """The hour starts with the grade, however long the recommendation was open."""
    history, fold = recommended(1, 2, 3)
    beat(history, fold, REPEAT_MS // BEAT_MS)
    lead(history, 0, 1)
    beat(history, fold, WATCH_MS // BEAT_MS + 10)
    assert [grade.outcome for grade in graded(fold)] == [Outcome.PARTLY]
    assert len(made(fold)) == 1


def test_partitions_of_a_topic_deleted_while_watched_are_graded_as_gone() -> None:
    """A topic created again under the same name is another one: neither regained nor lost again."""
    history, fold = recommended(3, 5)
    lead(history, 0, 3, 5)
    history.topic_gone("t")
    history.topic("t", dict.fromkeys(range(PARTITIONS), (0, 1, 2)))
    lead(history, 1, 3, 5)
    beat(history, fold, WATCH_MS // BEAT_MS + 1)
    (grade,) = graded(fold)
    assert (grade.watched, grade.regained, grade.lost_again, grade.gone) == (0, 0, 0, 2)
    assert grade.examples_not_regained == grade.examples_lost_again == ()
    assert fold.state.control.recommendations.gone == 2
    beat(history, fold, REPEAT_MS // BEAT_MS)
    assert len(made(fold)) == 2
    assert fold.state.control.recommendations.gone == 0


def test_partitions_with_a_new_preferred_replica_are_graded_as_gone() -> None:
    """A reassignment to another preferred replica lost no leader; neither did a pending deletion."""
    history = small_cluster(
        t=dict.fromkeys(range(5), (0, 1, 2)), u={0: (0, 1, 2)}, v={0: (0, 1, 2)}
    )
    fold = Fold()
    lead(history, 1, 1, 2)
    for topic in ("u", "v"):
        history.state(topic, 0, leader=1, isr=(0, 1, 2), leader_epoch=1)
    beat(history, fold, SETTLE_MS // BEAT_MS + 1)
    lead(history, 0, 1, 2)
    history.state("u", 0, leader=0, isr=(0, 1, 2), leader_epoch=2)
    history.topic("u", {0: (1, 0, 2)})
    history.state("u", 0, leader=1, isr=(0, 1, 2), leader_epoch=3)
    history.set("/admin/delete_topics/v", "")
    beat(history, fold, WATCH_MS // BEAT_MS + 1)
    (grade,) = graded(fold)
    assert grade.outcome is Outcome.MENDED
    assert (grade.watched, grade.regained, grade.lost_again, grade.not_regained) == (2, 2, 0, 0)
    assert grade.gone == 2


def test_leaders_that_are_lost_again_are_graded_as_a_relapse() -> None:
    """To another broker, or to none; partitions that are not watched do not count."""
    history, fold = recommended(1, 2, 3, 4)
    lead(history, 0, 1, 2, 3)
    lead(history, 1, 1)
    lead(history, -1, 2, isr=(0,))
    lead(history, 2, 9)
    lead(history, 2, 4)
    beat(history, fold, WATCH_MS // BEAT_MS + 1)
    (grade,) = graded(fold)
    assert grade.outcome is Outcome.RELAPSED
    assert (grade.regained, grade.lost_again, grade.not_regained) == (3, 2, 1)
    assert grade.examples_lost_again == (TopicPartition("t", 1), TopicPartition("t", 2))
    assert grade.lost_again_within_ms == WATCH_MS


def test_elections_towards_other_brokers_do_not_count_for_a_recommendation() -> None:
    """Only elections for its own brokers start the watching."""
    history = small_cluster(
        t=dict.fromkeys(range(5), (0, 1, 2)), u=dict.fromkeys(range(20), (2, 1, 0))
    )
    fold = Fold()
    lead(history, 1, 3)
    history.state("u", 1, leader=1, isr=(2, 1, 0), leader_epoch=1)
    beat(history, fold, 5)
    assert len(made(fold)) == 1
    history.state("u", 1, leader=2, isr=(2, 1, 0), leader_epoch=2)
    beat(history, fold, 1)
    standing = recommendation_tracker.standing_now(fold.state.control.recommendations)
    assert standing is not None
    assert standing.elected_at is None


def test_the_partition_list_is_limited_and_the_partition_count_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A limited number of partitions is listed and watched, from a limited number of topics."""
    monkeypatch.setattr(recommendation_tracker, "MAX_PARTITIONS", 2)
    monkeypatch.setattr(recommendation_tracker, "TOPICS_LOOKED_AT", 1)
    history = small_cluster(
        a=dict.fromkeys(range(2), (1, 0, 2)), t=dict.fromkeys(range(5), (0, 1, 2))
    )
    fold = Fold()
    lead(history, 1, 1, 2, 3)
    beat(history, fold, 5)
    reported = only(fold.accounts, RecommendationMade)
    assert (reported.partition_count, reported.partitions) == (3, ())
    monkeypatch.setattr(recommendation_tracker, "TOPICS_LOOKED_AT", 2)
    fold = Fold()
    fold.feed(history.changes)
    reported = only(fold.accounts, RecommendationMade)
    assert (reported.partition_count, len(reported.partitions)) == (3, 2)


def test_topics_that_go_and_new_partitions_are_not_listed() -> None:
    """Neither can be elected."""
    history, fold = begun()
    lead(history, 1, *range(5))
    history.topic("u", {0: (0, 1), 1: (0, 1)})
    history.state("u", 0, leader=1, isr=[1, 0], leader_epoch=1)
    history.set("/admin/delete_topics/u", "")
    history.topic("v", {0: (0, 1)})
    history.set("/config/topics/w", {"version": 1, "config": {"min.insync.replicas": "2"}})
    beat(history, fold, 5)
    reported = only(fold.accounts, RecommendationMade)
    assert reported.partition_count == 5
    assert {name for name, _ in reported.partitions} == {"t"}


def test_nothing_is_recommended_while_the_log_has_a_hole() -> None:
    """Figures that may lack changes are no basis for an election."""
    history, fold = begun()
    lead(history, 1, 3, 5)
    history.seq += 1
    beat(history, fold, 20)
    assert made(fold) == []


def test_the_view_holds_the_standing_recommendation_and_the_newest_grades() -> None:
    """The newest first, up to a limit."""
    history, fold = begun()
    for _ in range(GRADES_KEPT + 2):
        lead(history, 1, 3, 5)
        beat(history, fold, SETTLE_MS // BEAT_MS + 1)
        lead(history, 0, 3, 5)
        beat(history, fold, WATCH_MS // BEAT_MS + 1)
    lead(history, 1, 3, 5)
    beat(history, fold, SETTLE_MS // BEAT_MS + 1)
    view = fold.views()["prod/recommendation"]
    assert isinstance(view, RecommendationView)
    assert view.standing is not None
    assert view.standing.number == GRADES_KEPT + 3
    assert view.standing.elected_at is None
    assert view.standing.partitions == (TopicPartition("t", 3), TopicPartition("t", 5))
    newest = GRADES_KEPT + 2
    assert [grade.number for grade in view.graded] == list(range(newest, newest - GRADES_KEPT, -1))
