"""Preferred elections without a visible request: whether the controller's own check held them.

The rule: KafkaController.checkAndTriggerAutoLeaderRebalance (3.9) elects, for each broker above
leader.imbalance.per.broker.percentage, all partitions at once that the broker can get back, and none for any other
broker. So elections for a broker are the check's if the broker was above the threshold before them, they follow each
other without a pause, nothing is left that it could get back, and no election at the same time has another origin.
This is inferred: elections of the same partitions by hand look the same. If auto.leader.rebalance.enable is set to
off, nothing is inferred.
"""

from controller_model.records.election_requests import ElectionOrigin
from controller_model.records.events import LeadersElected
from controller_model.state import figures
from controller_model.state.control_plane import ControlPlane
from controller_model.state.recommendation_state import ElectionRound, RecommendationState

PAUSE_MS = 5_000
"""Writes of one check are not further apart; elections that are closer may belong together."""


def count_elections(
    recommendations: RecommendationState, event: LeadersElected, *, is_watched: bool
) -> None:
    """Count preferred elections; `is_watched`: for a broker of the current recommendation."""
    memory = recommendations.brokers.get(event.to_broker)
    above = memory is not None and memory.mendable_since is not None
    if event.by is not None or not above:
        recommendations.others_at = event.at
    if not is_watched:
        return
    count = len(event.partitions)
    if event.by is not None:
        _count(recommendations, event.by, count)
        return
    found = recommendations.rounds.get(event.to_broker)
    if found is None:
        found = ElectionRound(count, event.at, event.at, could_be_check=above)
        recommendations.rounds[event.to_broker] = found
        return
    found.count += count
    found.could_be_check = found.could_be_check and event.at - found.last_at <= PAUSE_MS
    found.last_at = event.at


def judge_rounds(control: ControlPlane, now: int, *, all_of_them: bool = False) -> None:
    """Judge the rounds that are over, or all of them, by what their brokers could still get back."""
    recommendations = control.recommendations
    for broker, found in list(recommendations.rounds.items()):
        if all_of_them or now - found.last_at > PAUSE_MS:
            del recommendations.rounds[broker]
            if _is_check(control, broker, found):
                _count(recommendations, ElectionOrigin.REBALANCE, found.count)


def elected_by(recommendations: RecommendationState) -> dict[str, int]:
    """Return how many elections for a recommendation's brokers each origin asked for; the sum is all of them."""
    counts = dict(recommendations.elected_by)
    if left := recommendations.elections - sum(counts.values()):
        counts[ElectionOrigin.OTHER.value] = left
    return counts


def _is_check(control: ControlPlane, broker: int, found: ElectionRound) -> bool:
    others_at = control.recommendations.others_at
    is_alone = (
        others_at is None
        or others_at < found.began_at - PAUSE_MS
        or others_at > found.last_at + PAUSE_MS
    )
    return (
        control.assumed.auto_leader_rebalance
        and found.could_be_check
        and is_alone
        and not figures.electable(control, [broker])
    )


def _count(recommendations: RecommendationState, origin: ElectionOrigin, count: int) -> None:
    if origin is not ElectionOrigin.OTHER:
        counts = recommendations.elected_by
        counts[origin.value] = counts.get(origin.value, 0) + count
