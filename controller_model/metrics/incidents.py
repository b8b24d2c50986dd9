"""The figures of incidents and of balance: what the monitor sums up and what it recommends.

The rule: a point in time is absent before the first one, and a recommendation's own figures while
none stands; counts are there from the start, so that `increase()` sees their first event.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller_model.insights.wording import duration
from controller_model.metrics.metric import (
    Metric,
    Sample,
    counter,
    each_of,
    gauge,
    labelled,
    seconds,
)
from controller_model.records.recommendations import Outcome
from controller_model.records.views import ClusterView


def _open_incident(view: ClusterView) -> Iterable[Sample]:
    incidents = view.incidents
    if incidents.open is None:
        return ()
    return [((str(incidents.open), incidents.opened_by or ""), 1)]


def _last_closed(view: ClusterView) -> Iterable[Sample]:
    last = view.incidents.last_closed
    if last is None:
        return ()
    labels = (
        str(last.number),
        last.opened_by,
        str(last.end),
        duration(last.lasted_ms),
        str(last.brokers_lost),
        str(last.controller_elections),
        str(last.leaders_moved),
        str(last.offline),
    )
    return [(labels, last.last_abnormal_at / 1000)]


INCIDENTS: tuple[Metric[ClusterView], ...] = (
    gauge(
        "kafka_cluster_incident_open",
        "1 while an incident is open: from the first abnormal thing (a broker lost, /controller "
        "vacated, partitions offline, an unclean election) until all was well for a minute; 0 in a "
        "healthy cluster.",
        lambda view: int(view.incidents.open is not None),
    ),
    labelled(
        "kafka_cluster_incident_info",
        "1 while an incident is open, with its number and the event that opened it; absent "
        "otherwise, so that a board can mark the time of each.",
        ("number", "opened_by"),
        _open_incident,
    ),
    counter(
        "kafka_cluster_incidents_total",
        "Incidents opened; flat in a healthy cluster. A broker that you restart makes one; what "
        "follows within a minute, such as the next restart, belongs to it.",
        lambda view: view.incidents.total,
    ),
    counter(
        "kafka_cluster_incident_seconds_total",
        "How long the closed incidents lasted, from the first abnormal thing to the last.",
        lambda view: seconds(view.incidents.total_ms),
    ),
    gauge(
        "kafka_cluster_incident_started_timestamp_seconds",
        "When the newest incident began; absent before the first.",
        lambda view: seconds(view.incidents.last_started_at),
    ),
    gauge(
        "kafka_cluster_incident_abnormal_timestamp_seconds",
        "When something was abnormal last, in the newest incident; absent before the first.",
        lambda view: seconds(view.incidents.last_abnormal_at),
    ),
    gauge(
        "kafka_cluster_incident_closed_timestamp_seconds",
        "When the last closed incident was closed; absent before the first.",
        lambda view: seconds(view.incidents.last_closed_at),
    ),
    labelled(
        "kafka_cluster_incident_last_timestamp_seconds",
        "When something was abnormal last in the incident that was closed last, whose figures are "
        "its labels (offline: partitions at once), so that a board can tell them; absent before "
        "the first.",
        (
            "number",
            "opened_by",
            "end",
            "lasted",
            "brokers_lost",
            "controller_elections",
            "leaders_moved",
            "offline",
        ),
        _last_closed,
    ),
)

BALANCE: tuple[Metric[ClusterView], ...] = (
    gauge(
        "kafka_cluster_imbalance_threshold_ratio",
        "The imbalance ratio above which the controller rebalances a broker: "
        "leader.imbalance.per.broker.percentage, which ZooKeeper does not hold, as assumed.",
        lambda view: view.rebalance.threshold_percentage / 100,
    ),
    gauge(
        "kafka_cluster_imbalanced_brokers",
        "Brokers whose imbalance ratio is above the threshold; 0 in a balanced cluster.",
        lambda view: len(view.rebalance.exceeding),
    ),
    gauge(
        "kafka_cluster_imbalanced_brokers_mendable",
        "Those of them to which a preferred election run now would give partitions back.",
        lambda view: len(view.rebalance.mendable),
    ),
    gauge(
        "kafka_cluster_rebalance_electable_partitions",
        "Partitions that the controller's next check would elect back to the brokers above the "
        "threshold, if auto.leader.rebalance.enable is on; 0 in a balanced cluster.",
        lambda view: view.rebalance.electable,
    ),
    labelled(
        "kafka_cluster_rebalance_blocked_partitions",
        "Partitions of brokers above the threshold that no election can give back now: their "
        "preferred replica is not_live or not_in_isr.",
        ("reason",),
        lambda view: each_of(("not_live", "not_in_isr"), view.rebalance.blocked),
    ),
    gauge(
        "kafka_cluster_recommendation_standing",
        "1 while the monitor recommends preferred elections: a broker has been above the threshold "
        "for half a minute and they would mend it; `kcm recommend` tells which.",
        lambda view: int(view.rebalance.recommendation is not None),
    ),
    gauge(
        "kafka_cluster_recommended_partitions",
        "Partitions that the recommendation is about; 0 while none stands.",
        lambda view: view.rebalance.recommended,
    ),
    gauge(
        "kafka_cluster_recommendation_made_timestamp_seconds",
        "When the recommendation that stands was made; absent while none does.",
        lambda view: seconds(view.rebalance.recommended_at),
    ),
    counter(
        "kafka_cluster_recommendations_total",
        "Recommendations made; flat while the controller, or you, keep the leaders in balance.",
        lambda view: view.rebalance.made,
    ),
    labelled(
        "kafka_cluster_recommendations_graded_total",
        "What became of recommendations: mended, partly, relapsed (leaders were lost again within "
        "5 minutes), or withdrawn because nobody elected and there was nothing to elect any more.",
        ("outcome",),
        lambda view: each_of(Outcome, view.rebalance.graded),
    ),
)
