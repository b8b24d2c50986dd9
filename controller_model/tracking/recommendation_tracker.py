"""Recommendations, kept while the log is folded: when one is made, and what became of it.

Whether there is anything to recommend is computed from the totals, at the health samples;
partitions are listed once, when a recommendation is made. It is current until its elections have
been watched to the end, or nothing of it is left to elect. While its brokers stay above the
threshold it is repeated only REPEAT_MS after its grade.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from controller_model.kafka.ids import NO_LEADER, TopicPartition
from controller_model.records.events import (
    AnyEvent,
    LeaderElectionKind,
    LeadersElected,
    PartitionsOffline,
    RecommendationGraded,
    RecommendationMade,
    TopicDeleted,
)
from controller_model.records.recommendations import (
    CLEAR_MS,
    GRADES_KEPT,
    MAX_PARTITIONS,
    REPEAT_MS,
    SETTLE_MS,
    TOPICS_LOOKED_AT,
    WATCH_MS,
    BrokerRatio,
    Grade,
    Outcome,
    RebalanceSummary,
    Recommended,
)
from controller_model.state import figures
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.incident_state import HealthSample
from controller_model.state.recommendation_state import BrokerMemory, RecommendationState, Watched
from controller_model.tracking import election_rounds

EXAMPLES = 20
"""Partitions that a grade names; it also holds the number of all."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Grade)


def track(
    state: ClusterState, events: Iterable[AnyEvent], sample: HealthSample | None
) -> list[AnyEvent]:
    """Process events, and then the sample after the last change; return recommendations made or graded."""
    recommendations = state.control.recommendations
    if (standing := recommendations.standing) is not None:
        for event in events:
            if isinstance(event, LeadersElected):
                _handle_election(recommendations, standing.brokers, event)
            elif isinstance(event, PartitionsOffline):
                _handle_move(recommendations, event.partitions, NO_LEADER, event.at)
            elif isinstance(event, TopicDeleted):
                recommendations.gone += len(recommendations.watched.pop(event.topic, ()))
    if sample is None or not sample.is_sure:
        return []
    return _handle_sample(state, sample)


def summary(control: ControlPlane) -> RebalanceSummary:
    """Return the summary of balance for the cluster's view."""
    recommendations = control.recommendations
    standing = recommendations.standing
    exceeding = figures.exceeding(control)
    electable = figures.electable(control, exceeding)
    return RebalanceSummary(
        threshold_percentage=figures.threshold_percentage(control)
        if control.quorum is None
        else None,
        auto_leader_rebalance=control.assumed.auto_leader_rebalance,
        exceeding=exceeding,
        mendable=tuple(electable),
        electable=sum(electable.values()),
        blocked=figures.blocked(control, exceeding),
        recommendation=standing.number if standing else None,
        recommended_at=standing.made_at if standing else None,
        recommended=standing.partition_count if standing else 0,
        made=recommendations.made,
        graded=recommendations.graded,
    )


def standing_now(recommendations: RecommendationState) -> Recommended | None:
    """Return the current recommendation, with the time of its first election."""
    if recommendations.standing is None:
        return None
    return msgspec.structs.replace(recommendations.standing, elected_at=recommendations.elected_at)


def newest_grades(recommendations: RecommendationState) -> tuple[Grade, ...]:
    """Return the stored grades, the newest first."""
    return tuple(_decoder.decode(data) for data in reversed(recommendations.grades))


def _handle_election(
    recommendations: RecommendationState, brokers: Collection[int], event: LeadersElected
) -> None:
    if event.election is LeaderElectionKind.PREFERRED:
        is_watched = event.to_broker in brokers
        election_rounds.count_elections(recommendations, event, is_watched=is_watched)
        if is_watched:
            recommendations.elections += len(event.partitions)
            recommendations.elected_at = recommendations.elected_at or event.at
            recommendations.revision += 1
    _handle_move(recommendations, event.partitions, event.to_broker, event.at)


def _handle_move(
    recommendations: RecommendationState, partitions: Iterable[TopicPartition], leader: int, at: int
) -> None:
    for topic, partition in partitions:
        watched = recommendations.watched.get(topic, {}).get(partition)
        if watched is None:
            continue
        if leader == watched.broker:
            watched.regained_at = watched.regained_at or at
        elif watched.regained_at is not None:
            watched.lost_at = watched.lost_at or at


def _handle_sample(state: ClusterState, seen: HealthSample) -> list[AnyEvent]:
    control = state.control
    recommendations = control.recommendations
    now = seen.at
    mendable = figures.electable(control, figures.exceeding(control))
    if not mendable and not recommendations.brokers and recommendations.standing is None:
        return []  # the usual case costs nothing
    election_rounds.judge_rounds(control, now)
    _remember(recommendations, mendable, now)
    events: list[AnyEvent] = []
    due = _due(recommendations, mendable, now)
    standing = recommendations.standing
    if standing is not None and _is_over(recommendations, standing, due, now):
        events.append(_grade(state, standing, now))
    if due and recommendations.standing is None:
        # Everything that can be elected, not only for the brokers that are due: one command fixes all.
        events.append(_make(state, mendable, now))
    return events


def _remember(recommendations: RecommendationState, mendable: Collection[int], now: int) -> None:
    for broker in mendable:
        memory = recommendations.brokers.setdefault(broker, BrokerMemory())
        memory.clear_since = None
        if memory.mendable_since is None:
            memory.mendable_since = now
    for broker in [broker for broker in recommendations.brokers if broker not in mendable]:
        memory = recommendations.brokers[broker]
        memory.mendable_since = None
        if memory.clear_since is None:
            memory.clear_since = now
        elif now - memory.clear_since >= CLEAR_MS:
            del recommendations.brokers[broker]


def _due(recommendations: RecommendationState, mendable: Collection[int], now: int) -> list[int]:
    is_free = recommendations.standing is None
    return [
        broker
        for broker in mendable
        if (memory := recommendations.brokers[broker]).mendable_since is not None
        and now - memory.mendable_since >= SETTLE_MS
        and (
            memory.recommended_at is None or (is_free and now - memory.recommended_at >= REPEAT_MS)
        )
    ]


def _is_over(
    recommendations: RecommendationState, standing: Recommended, due: Collection[int], now: int
) -> bool:
    if recommendations.elected_at is not None:
        return now - recommendations.elected_at >= WATCH_MS
    # A further broker makes a new recommendation necessary.
    return bool(due) or not any(broker in recommendations.brokers for broker in standing.brokers)


def _make(state: ClusterState, mendable: Mapping[int, int], now: int) -> RecommendationMade:
    control = state.control
    recommendations = control.recommendations
    recommendations.made += 1
    brokers = tuple(mendable)
    for broker in brokers:
        recommendations.brokers[broker].recommended_at = now
    found = list(itertools.islice(_electable(state, frozenset(brokers)), MAX_PARTITIONS))
    recommendations.elections = 0
    recommendations.elected_by = {}
    recommendations.elected_at = None
    recommendations.gone = 0
    for (topic, partition), broker in found:
        recommendations.watched.setdefault(topic, {})[partition] = Watched(broker)
    made = recommendations.standing = Recommended(
        number=recommendations.made,
        made_at=now,
        brokers=brokers,
        threshold_percentage=figures.threshold_percentage(control),
        partition_count=sum(mendable.values()),
        partitions=tuple(partition for partition, _ in found),
        ratios=tuple(
            BrokerRatio(broker=broker, before=figures.imbalance_ratio(control, broker))
            for broker in brokers
        ),
    )
    recommendations.revision += 1
    return RecommendationMade(
        at=now,
        position=control.log.position,
        number=made.number,
        brokers=made.brokers,
        threshold_percentage=made.threshold_percentage,
        partition_count=made.partition_count,
        partitions=made.partitions,
    )


def _electable(
    state: ClusterState, brokers: Collection[int]
) -> Iterator[tuple[TopicPartition, int]]:
    """Yield the partitions that an election gives back to these live brokers, and to which of them."""
    for name in sorted(state.topics.names())[:TOPICS_LOOKED_AT]:
        topic = state.topic(name)
        if not topic.exists or name in state.control.deleting:
            continue
        for partition, record in sorted(topic.partitions.items()):
            preferred = record.replicas[0] if record.replicas else None
            is_elsewhere = record.leader is not None and record.leader != preferred
            if is_elsewhere and preferred in brokers and preferred in record.isr:
                yield TopicPartition(name, partition), preferred


def _grade(state: ClusterState, standing: Recommended, now: int) -> RecommendationGraded:
    """End a recommendation, and return the event with its grade."""
    recommendations = state.control.recommendations
    _drop_others(state)
    election_rounds.judge_rounds(state.control, now, all_of_them=True)
    grade = _graded(state.control, standing, now)
    for broker in standing.brokers:
        if broker in recommendations.brokers:
            recommendations.brokers[broker].recommended_at = now
    recommendations.standing = None
    recommendations.watched = {}
    recommendations.grades.append(_encoder.encode(grade))
    del recommendations.grades[:-GRADES_KEPT]
    outcome = grade.outcome.value
    recommendations.graded[outcome] = recommendations.graded.get(outcome, 0) + 1
    recommendations.revision += 1
    return RecommendationGraded(at=now, position=state.control.log.position, grade=grade)


def _graded(control: ControlPlane, standing: Recommended, now: int) -> Grade:
    """Return the grade of a recommendation, from the partitions that were watched for it."""
    recommendations = control.recommendations
    elected_at = recommendations.elected_at
    each = [
        (TopicPartition(topic, partition), watched)
        for topic, partitions in recommendations.watched.items()
        for partition, watched in partitions.items()
    ]
    regained = [watched.regained_at for _, watched in each if watched.regained_at is not None]
    lost = [name for name, watched in each if watched.lost_at is not None]
    never = [name for name, watched in each if watched.regained_at is None]
    return Grade(
        number=standing.number,
        made_at=standing.made_at,
        elected_at=elected_at,
        graded_at=now,
        outcome=_outcome(control, standing, lost_again=bool(lost)),
        partition_count=standing.partition_count,
        elections=recommendations.elections,
        watched=len(each),
        regained=len(regained),
        lost_again=len(lost),
        not_regained=len(never),
        gone=recommendations.gone,
        elected_by=election_rounds.elected_by(recommendations),
        regained_after_ms=(
            None if elected_at is None or not regained else max(0, max(regained) - elected_at)
        ),
        examples_lost_again=tuple(lost[:EXAMPLES]),
        examples_not_regained=tuple(never[:EXAMPLES]),
        ratios=tuple(
            msgspec.structs.replace(ratio, after=figures.imbalance_ratio(control, ratio.broker))
            for ratio in standing.ratios
        ),
    )


def _drop_others(state: ClusterState) -> None:
    """Drop watched partitions that are deleted or have another preferred replica now."""
    recommendations = state.control.recommendations
    for name, watched in recommendations.watched.items():
        held = {} if name in state.control.deleting else state.topic(name).partitions
        for partition in list(watched):
            replicas = held[partition].replicas if partition in held else None
            if not replicas or replicas[0] != watched[partition].broker:
                del watched[partition]
                recommendations.gone += 1


def _outcome(control: ControlPlane, standing: Recommended, *, lost_again: bool) -> Outcome:
    if control.recommendations.elected_at is None:
        return Outcome.WITHDRAWN
    if set(standing.brokers).isdisjoint(figures.exceeding(control)):
        return Outcome.MENDED
    return Outcome.RELAPSED if lost_again else Outcome.PARTLY
