"""The figures of incidents and of balance: what kcm sums up and what it recommends.

A point in time is absent before the first one, and a recommendation's own figures while
there is none. Counts exist from the start, so that `increase()` sees their first event.
"""

from collections.abc import Callable

from controller_model.metrics.metric import Samples, Table, each_of, figure, of_part, seconds
from controller_model.records.incidents import IncidentsSummary, LastIncident
from controller_model.records.recommendations import Outcome, RebalanceSummary
from controller_model.records.views import ClusterView


def _of_last(text: str, read: Callable[[LastIncident], float | None]) -> Samples[IncidentsSummary]:
    """Return a figure of the last closed incident."""
    return figure(
        f"{text} in the most recently closed incident; absent before the first.",
        lambda held: None if (last := held.last_closed) is None else read(last),
    )


_INCIDENTS: Table[IncidentsSummary] = {
    "kafka_cluster_incident_open": figure(
        "Whether an incident is open (1) or not (0); it opens with the first abnormal event and "
        "closes when all has been well for a minute.",
        lambda held: int(held.open is not None),
    ),
    "kafka_cluster_incident_info": Samples(
        "Number of the open incident and the event that opened it; absent while none is open.",
        ("number", "opened_by"),
        lambda held: (
            [] if (number := held.open) is None else [((str(number), held.opened_by or ""), 1)]
        ),
    ),
    "kafka_cluster_incidents_total": figure(
        "Incidents opened; flat in a healthy cluster, except that each restart of a broker opens "
        "one.",
        lambda held: held.total,
    ),
    "kafka_cluster_incident_seconds_total": figure(
        "Seconds that the closed incidents lasted, from their first abnormal event to their last.",
        lambda held: seconds(held.total_ms),
    ),
    "kafka_cluster_incident_started_timestamp_seconds": figure(
        "Unix time in seconds when the newest incident began; absent before the first.",
        lambda held: seconds(held.last_started_at),
    ),
    "kafka_cluster_incident_abnormal_timestamp_seconds": figure(
        "Unix time in seconds when something was last abnormal in the newest incident; absent "
        "before the first.",
        lambda held: seconds(held.last_abnormal_at),
    ),
    "kafka_cluster_incident_closed_timestamp_seconds": figure(
        "Unix time in seconds when an incident was last closed; absent before the first.",
        lambda held: seconds(held.last_closed_at),
    ),
    "kafka_cluster_incident_last_timestamp_seconds": Samples(
        "Unix time in seconds when something was last abnormal in the most recently closed "
        "incident, by the event that opened it and how it ended; absent before the first.",
        ("opened_by", "end"),
        lambda held: (
            []
            if (last := held.last_closed) is None
            else [((last.opened_by, str(last.end)), last.last_abnormal_at / 1000)]
        ),
    ),
    "kafka_cluster_incident_last_duration_seconds": _of_last(
        "Seconds from the first abnormal event to the last", lambda last: seconds(last.lasted_ms)
    ),
    "kafka_cluster_incident_last_brokers_lost": _of_last(
        "Brokers that were lost", lambda last: last.brokers_lost
    ),
    "kafka_cluster_incident_last_controller_elections": _of_last(
        "Controller elections", lambda last: last.controller_elections
    ),
    "kafka_cluster_incident_last_leaders_moved": _of_last(
        "Partitions that got another leader", lambda last: last.leaders_moved
    ),
    "kafka_cluster_incident_last_offline_partitions": _of_last(
        "Highest number of partitions offline at once, without those offline before it,",
        lambda last: last.offline,
    ),
}

_BALANCE: Table[RebalanceSummary] = {
    "kafka_cluster_imbalance_threshold_ratio": figure(
        "Imbalance ratio above which the controller rebalances a broker, as the monitor's settings state it "
        "(ZooKeeper does not hold leader.imbalance.per.broker.percentage); absent in KRaft, which ignores it.",
        lambda held: None if (limit := held.threshold_percentage) is None else limit / 100,
    ),
    "kafka_cluster_imbalanced_brokers": figure(
        "Number of brokers whose imbalance ratio is above the threshold, in a KRaft cluster above 0; 0 in a balanced "
        "cluster.",
        lambda held: len(held.exceeding),
    ),
    "kafka_cluster_imbalanced_brokers_mendable": figure(
        "Number of brokers above the threshold to which a preferred election would give "
        "partitions back now.",
        lambda held: len(held.mendable),
    ),
    "kafka_cluster_rebalance_electable_partitions": figure(
        "Number of partitions that the controller's next check would elect back to brokers above "
        "the threshold, if auto.leader.rebalance.enable is on.",
        lambda held: held.electable,
    ),
    "kafka_cluster_rebalance_blocked_partitions": Samples(
        "Number of partitions that no election can give back to brokers above the threshold now, "
        "because their preferred replica is not_live or not_in_isr.",
        ("reason",),
        lambda held: each_of(("not_live", "not_in_isr"), held.blocked),
    ),
    "kafka_cluster_recommendation_standing": figure(
        "Whether the monitor recommends preferred elections now (1), which `kcm recommend` lists,"
        " or not (0).",
        lambda held: int(held.recommendation is not None),
    ),
    "kafka_cluster_recommended_partitions": figure(
        "Number of partitions in the current recommendation; 0 without one.",
        lambda held: held.recommended,
    ),
    "kafka_cluster_recommendation_made_timestamp_seconds": figure(
        "Unix time in seconds when the current recommendation was made; absent without one.",
        lambda held: seconds(held.recommended_at),
    ),
    "kafka_cluster_recommendations_total": figure(
        "Recommendations made; flat while leaders stay in balance.",
        lambda held: held.made,
    ),
    "kafka_cluster_recommendations_graded_total": Samples(
        "Finished recommendations, by outcome: mended, partly, relapsed (leaders lost again "
        "within 5 minutes) or withdrawn (no election was run).",
        ("outcome",),
        lambda held: each_of(Outcome, held.graded),
    ),
}

INCIDENTS: Table[ClusterView] = of_part(lambda view: view.incidents, _INCIDENTS)
BALANCE: Table[ClusterView] = of_part(lambda view: view.rebalance, _BALANCE)
