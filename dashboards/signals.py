"""Every query, once: what it asks, in which unit, and what an operator should expect to see.

The rule: boards and alerts take their expressions from here and nowhere else, so that a panel and
the alert beside it never disagree. Only metrics of the catalogue are named. Each selector holds the
mark `<cluster>`: a board puts its chosen cluster there, a rule all clusters. Each expression
aggregates the scrape's own labels away, so an exporter that moves to another pod or address goes on
with the same series, and two exporters of one cluster make one.
"""

from __future__ import annotations

import dataclasses

CLUSTER_MARK = "<cluster>"
"""Stands in each selector where the cluster is chosen."""

FLAPPING_WINDOW = "10m"
"""Long enough to hold several elections of a flapping controller, short enough to end with them."""

SEEN_WINDOW = "6h"
"""For how long a cluster that is served no more is missed: a night shift notices, and one taken
out on purpose is forgotten the same day."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """One query and all that a reader must know about its figure."""

    name: str
    expr: str
    """PromQL with CLUSTER_MARK in each selector."""
    unit: str
    """Grafana's name of the unit."""
    description: str
    """What it tells and what a healthy cluster shows."""
    legend: str
    """Grafana's template for the name of a series."""

    def on_board(self) -> str:
        """Return the expression for the cluster that a board's variable chooses."""
        return self.expr.replace(CLUSTER_MARK, 'cluster="$cluster"')

    def in_rules(self) -> str:
        """Return the expression for all clusters."""
        return self.expr.replace(CLUSTER_MARK, 'cluster!=""')


def _highest(metric: str, *labels: str) -> str:
    """Return the metric per cluster (and labels), whatever exporter it came from."""
    return f"max by ({', '.join(('cluster', *labels))}) ({metric}{{{CLUSTER_MARK}}})"


def _grown(metric: str, window: str) -> str:
    """Return by how much a figure that only grows has grown within a window.

    `increase()` stretches what it saw to the edges of the window (3 elections become 3.08) and
    loses the window when the exporter moves; the difference to the lowest is exact in both cases.
    After a reset it counts from the reset on, never below 0.

    >>> _grown("a_total", "1h")
    'max by (cluster) (a_total{<cluster>}) - min by (cluster) (min_over_time(a_total{<cluster>}[1h]))'
    """
    lowest = f"min by (cluster) (min_over_time({metric}{{{CLUSTER_MARK}}}[{window}]))"
    return f"{_highest(metric)} - {lowest}"


CONTROLLER_ID = Signal(
    name="controller_id",
    expr=_highest("kafka_controller_id"),
    unit="prefix:broker ",
    description="The broker that holds /controller; nobody (-1) should last milliseconds.",
    legend="controller",
)
CONTROLLER_EPOCH = Signal(
    name="controller_epoch",
    expr=_highest("kafka_controller_epoch"),
    unit="none",
    description="The controller epoch; grows by one with each election, and stands still in a "
    "healthy cluster.",
    legend="epoch",
)
CONTROLLER_AGE = Signal(
    name="controller_age",
    expr=f"time() - {_highest('kafka_controller_elected_timestamp_seconds')}",
    unit="dtdurations",
    description="How long the controller has been in office (ZooKeeper's clock); days or weeks in "
    "a healthy cluster. Compares clocks of two machines.",
    legend="in office",
)
ELECTIONS_RECENT = Signal(
    name="elections_recent",
    expr=_grown("kafka_controller_epoch", FLAPPING_WINDOW),
    unit="none",
    description=f"Controller elections within {FLAPPING_WINDOW}, counted by the epoch, so none is "
    "lost between scrapes; 0 in a healthy cluster, 1 after the controller's broker restarted. "
    "More again and again: the controller flaps.",
    legend="elections",
)
ELECTIONS_HOUR = Signal(
    name="elections_hour",
    expr=_grown("kafka_controller_epoch", "1h"),
    unit="none",
    description="Controller elections within an hour, counted by the epoch; 0 in a healthy cluster.",
    legend="elections",
)
ID_CHANGES_HOUR = Signal(
    name="id_changes_hour",
    expr=_grown("kafka_controller_id_changes_total", "1h"),
    unit="none",
    description="Elections within an hour that another broker won; fewer than the elections means "
    "that a broker lost the office and won it back.",
    legend="won by another",
)
VACANT_NOW = Signal(
    name="vacant_now",
    expr=_highest("kafka_controller_vacant_seconds"),
    unit="s",
    description="For how long nobody has held /controller, now; 0 while somebody does.",
    legend="vacant now",
)
VACANCY_HOUR = Signal(
    name="vacancy_hour",
    expr=_grown("kafka_controller_vacancy_seconds_total", "1h"),
    unit="s",
    description="Time without a controller within an hour, at least (ended vacancies); a broker's "
    "clean stop costs milliseconds, and so does its death, counted from the end of its session.",
    legend="at least",
)
VACANCY_AT_MOST_HOUR = Signal(
    name="vacancy_at_most_hour",
    expr=_grown("kafka_controller_vacancy_at_most_seconds_total", "1h"),
    unit="s",
    description="The same, at most: above the least where a vacancy was not seen live.",
    legend="at most",
)
LAST_VACANCY = Signal(
    name="last_vacancy",
    expr=_highest("kafka_controller_last_vacancy_seconds"),
    unit="s",
    description="How long the last ended vacancy lasted, at least; empty before the first.",
    legend="at least",
)
LAST_VACANCY_AT_MOST = Signal(
    name="last_vacancy_at_most",
    expr=_highest("kafka_controller_last_vacancy_at_most_seconds"),
    unit="s",
    description="The same, at most.",
    legend="at most",
)
FAILOVER = Signal(
    name="failover",
    expr=f"{_highest('kafka_controller_failover', 'state')} == 1",
    unit="none",
    description="How far the controller's failover work is, as leader writes show it: not_needed "
    "or done in a healthy cluster, under_way for seconds after a broker was lost.",
    legend="{{state}}",
)
LAST_FAILOVER = Signal(
    name="last_failover",
    expr=_highest("kafka_controller_last_failover_seconds"),
    unit="s",
    description="How long the last finished failover work took: until then partitions were without "
    "a leader although a controller was elected. Seconds; grows with the partitions of a broker.",
    legend="took",
)
LEADER_WRITES_DUE = Signal(
    name="leader_writes_due",
    expr=_highest("kafka_controller_leader_writes_due"),
    unit="none",
    description="Partitions whose leader is gone, so that the controller owes a new one; 0 in a "
    "healthy cluster. Staying above 0: a controller that does not do its work.",
    legend="writes due",
)
OFFLINE = Signal(
    name="offline",
    expr=_highest("kafka_cluster_offline_partitions"),
    unit="none",
    description="Partitions without a live leader, told during controller outages, too; 0 in a "
    "healthy cluster: nobody can write to or read from them.",
    legend="offline",
)
UNDER_REPLICATED = Signal(
    name="under_replicated",
    expr=_highest("kafka_cluster_under_replicated_partitions"),
    unit="none",
    description="Partitions with fewer in-sync replicas than replicas; 0 in a healthy cluster, "
    "above it while a broker is down or behind.",
    legend="under-replicated",
)
UNDER_MIN_ISR = Signal(
    name="under_min_isr",
    expr=_highest("kafka_cluster_under_min_isr_partitions"),
    unit="none",
    description="Partitions below min.insync.replicas; 0 in a healthy cluster: producers with "
    "acks=all are refused.",
    legend="under min ISR",
)
IMBALANCE = Signal(
    name="imbalance",
    expr=_highest("kafka_cluster_preferred_replica_imbalance"),
    unit="none",
    description="Partitions not led by their preferred replica; near 0 in a balanced cluster, "
    "above it after a broker restarted, until leaders are elected back.",
    legend="not led by the preferred replica",
)
BROKER_LEADERS = Signal(
    name="broker_leaders",
    expr=_highest("kafka_broker_leaders", "broker"),
    unit="none",
    description="Partitions that each broker leads; about equal over brokers. 0 on one that is "
    "live: it came back and leaders were not elected back yet.",
    legend="broker {{broker}}",
)
BROKER_IMBALANCE = Signal(
    name="broker_imbalance",
    expr=_highest("kafka_broker_imbalance_ratio", "broker"),
    unit="percentunit",
    description="Share of each broker's preferred partitions that others lead; above 10 % (Kafka's "
    "default) the controller rebalances within 5 minutes, if it may.",
    legend="broker {{broker}}",
)
STATUS = Signal(
    name="status",
    expr=f"{_highest('kcm_cluster_status', 'status')} == 1",
    unit="none",
    description="What the figures are worth: live; behind (a stage is late), incomplete (changes "
    "may lack), divergent (proven wrong), blind (no ZooKeeper session): what was true then.",
    legend="{{status}}",
)
FOLLOWED = Signal(
    name="followed",
    expr=_highest("kcm_cluster_up"),
    unit="none",
    description="Whether the figures follow ZooKeeper now; if not, they are what was true when they "
    "last did. Not served: no exporter that serves the cluster is scraped.",
    legend="followed",
)
UNSEEN = Signal(
    name="unseen",
    expr=f"max by (cluster) (present_over_time(kcm_cluster_up{{{CLUSTER_MARK}}}[{SEEN_WINDOW}])) "
    f"unless ({FOLLOWED.expr} == 1)",
    unit="none",
    description=f"1 for a cluster that was served within {SEEN_WINDOW} and is not followed now: the "
    "watcher has no session, a stage is late, or no exporter is scraped that serves it.",
    legend="not followed",
)
DOUBTFUL = Signal(
    name="doubtful",
    expr=f"{_highest('kcm_cluster_incomplete')} + {_highest('kcm_cluster_divergent')}",
    unit="none",
    description="Whether changes may lack (incomplete) or an audit proved a difference to "
    "ZooKeeper (divergent); neither in good order, incomplete for seconds while a resync runs.",
    legend="incomplete or divergent",
)
VERIFIED_AGE = Signal(
    name="verified_age",
    expr=f"time() - {_highest('kcm_cluster_verified_timestamp_seconds')}",
    unit="dtdurations",
    description="How long ago a resync or an audit last proved the figures equal to ZooKeeper; a "
    "few minutes at most.",
    legend="ago",
)
BEHIND = Signal(
    name="behind",
    expr=_highest("kcm_cluster_behind_seconds", "stage"),
    unit="s",
    description="Time since the newest sign of life of each stage; up to about 10 s in a quiet "
    "cluster, late above 25 s. Compares clocks of several machines.",
    legend="{{stage}}",
)

SIGNALS: tuple[Signal, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Signal)
)
"""All of them, in the order in which they stand here."""
