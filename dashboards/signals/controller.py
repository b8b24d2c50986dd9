"""Signals about the controller: which broker it is, how stable, and whether it does its work.

The rule: elections are counted by the controller epoch, so none is lost between scrapes. A figure that is not
known has no series and is never shown as 0.
"""

from dashboards.signals.signal import DemoStep, DrillStep, Signal, age, grown, highest, newest

FLAPPING_WINDOW = "10m"
"""Contains several elections of a flapping controller, and is short enough that the alert ends soon after them."""

FLAPPING_LONG_WINDOW = "6h"
"""Contains the elections of one night, and several of a controller that is lost every half hour."""


def _recent(window: str) -> str:
    """Return the elections within a window by their own times; from an older exporter, by the epoch."""
    counted = highest("kafka_controller_recent_elections", only=f'window="{window}"')
    return f"{counted} or {grown('kafka_controller_epoch', window)}"


_UNDER_WAY = 'state="under_way"'

CONTROLLER_ID = Signal(
    expr=newest("kafka_controller_id"),
    unit="prefix:broker ",
    description="The broker that holds /controller; nobody (-1) should last milliseconds.",
    legend="controller",
    moved_by=DemoStep.KILL_CONTROLLER,
)
CONTROLLER_EPOCH = Signal(
    expr=highest("kafka_controller_epoch"),
    description="The controller epoch; grows by one with each election, and stands still in a "
    "healthy cluster.",
    legend="epoch",
    moved_by=DemoStep.DEPOSE,
)
ELECTIONS_RECENT = Signal(
    expr=_recent(FLAPPING_WINDOW),
    description=f"Controller elections within {FLAPPING_WINDOW}, by ZooKeeper's times, so that "
    "none is lost between scrapes and old ones read late do not count; 0 in a healthy cluster, 1 after the controller's "
    "broker restarted. If it is higher again and again, the controller flaps.",
    legend="elections",
    moved_by=DemoStep.DEPOSE,
)
ELECTIONS_HOUR = Signal(
    expr=grown("kafka_controller_epoch", "1h"),
    description="Controller elections within an hour, counted by the epoch; 0 in a healthy "
    "cluster.",
    legend="elections",
    moved_by=DemoStep.DEPOSE,
)
ID_CHANGES_HOUR = Signal(
    expr=grown("kafka_controller_id_changes_total", "1h"),
    description="Elections within an hour that another broker than before won; fewer than the "
    "elections means that a controller lost /controller and won it back.",
    legend="won by another",
    moved_by=DemoStep.KILL_CONTROLLER,
)
VACANT_NOW = Signal(
    expr=highest("kafka_controller_vacant_seconds"),
    unit="s",
    description="Time since /controller became vacant; 0 while somebody holds it.",
    legend="vacant now",
    moved_by=DrillStep.VACATE,
)
VACANCY_HOUR = Signal(
    expr=grown("kafka_controller_vacancy_seconds_total", "1h"),
    unit="s",
    description="Time without a controller within an hour (ended vacancies), as a lower bound; a "
    "broker's clean stop costs milliseconds, and so does its death, counted from the "
    "end of its session.",
    legend="at least",
    moved_by=DemoStep.DEPOSE,
)
VACANCY_AT_MOST_HOUR = Signal(
    expr=grown("kafka_controller_vacancy_at_most_seconds_total", "1h"),
    unit="s",
    description="The same as an upper bound, which is higher where a vacancy was not seen live.",
    legend="at most",
    moved_by=DemoStep.DEPOSE,
)
LAST_VACANCY = Signal(
    expr=highest("kafka_controller_last_vacancy_seconds"),
    unit="s",
    description="How long the last ended vacancy lasted, as a lower bound; empty before the first.",
    legend="at least",
    moved_by=DemoStep.KILL_CONTROLLER,
)
LAST_VACANCY_AT_MOST = Signal(
    expr=highest("kafka_controller_last_vacancy_at_most_seconds"),
    unit="s",
    description="The same, as an upper bound.",
    legend="at most",
    moved_by=DemoStep.KILL_CONTROLLER,
)
FAILOVER = Signal(
    expr=f"{highest('kafka_controller_failover', 'state')} == 1",
    description="State of the failover work that the controller found when it was elected, as "
    "leader writes show it: not_needed or done in a healthy cluster, under_way for "
    "seconds after its predecessor was lost.",
    legend="{{state}}",
    moved_by=DemoStep.KILL_CONTROLLER,
)
LAST_FAILOVER = Signal(
    expr=highest("kafka_controller_last_failover_seconds"),
    unit="s",
    description="How long the last finished failover work took. Until it finished, partitions had "
    "no leader although a controller was elected. Seconds; grows with the partitions "
    "of a broker.",
    legend="took",
    moved_by=DemoStep.KILL_CONTROLLER,
)
PENDING_LEADER_WRITES = Signal(
    expr=highest("kafka_controller_pending_leader_writes"),
    description="Partitions whose leader is gone, so that the controller must write a new one; 0 "
    "in a healthy cluster. If it stays above 0, the controller does not do its work.",
    legend="pending writes",
    moved_by=DrillStep.ZOMBIE,
)
ELECTIONS_LONG = Signal(
    expr=_recent(FLAPPING_LONG_WINDOW),
    description=f"Controller elections within {FLAPPING_LONG_WINDOW}, by ZooKeeper's times; in a "
    "healthy cluster, the number of restarts of the controller's broker. A controller that is "
    "lost every half hour shows only here.",
    legend="elections",
    moved_by=DemoStep.DEPOSE,
)
MISSED_ELECTIONS_HOUR = Signal(
    expr=grown("kafka_controller_missed_elections_total", "1h"),
    description="Elections within an hour that were not seen live and are known only because the "
    "epoch jumped. 0 while the monitor follows.",
    legend="missed",
    moved_by=DrillStep.UNWATCHED,
)
CONTROLLER_HEALTH = Signal(
    expr=f"{highest('kafka_controller_health', 'health')} == 1",
    description="Health of the controller: not_needed in a quiet cluster, working for seconds "
    "after a failure; zombie is a zombie controller, which owes writes while nobody "
    "writes under its epoch.",
    legend="{{health}}",
    moved_by=DrillStep.ZOMBIE,
)
ZOMBIE = Signal(
    expr=highest("kafka_controller_health", only='health="zombie"'),
    description="1 while the holder of /controller does not make the writes that it owes; 0 in a "
    "healthy cluster.",
    legend="zombie",
    moved_by=DrillStep.ZOMBIE,
)
PENDING_WRITES = Signal(
    expr=highest("kafka_controller_pending_writes", "kind"),
    description="Writes that the controller owes, by kind; 0 in a healthy cluster, except for "
    "seconds after a failure or a request.",
    legend="{{kind}}",
    moved_by=DrillStep.ZOMBIE,
)
OLDEST_PENDING_WRITE = Signal(
    expr=age("kafka_controller_oldest_write_due_timestamp_seconds"),
    unit="s",
    description="For how long the oldest write has been due; empty when nothing is due.",
    legend="oldest due",
    moved_by=DrillStep.ZOMBIE,
)
FAILOVER_AGE = Signal(
    expr=f"({age('kafka_controller_failover_since_timestamp_seconds')}) and on (cluster) "
    f"({highest('kafka_controller_failover', only=_UNDER_WAY)} == 1)",
    unit="s",
    description="For how long the failover work has been under way; empty while there is none. "
    "Seconds; up to about 15 with 10,000 partitions.",
    legend="under way",
    moved_by=DrillStep.IDLE,
)
STALE_WRITES_HOUR = Signal(
    expr=grown("kafka_controller_stale_writes_total", "1h"),
    description="Leaders written within an hour under an older controller epoch than the "
    "current; 0 with Kafka 2.1 and newer, which fences them.",
    legend="stale writes",
    moved_by=DrillStep.MEDDLE,
)
MIGRATING = Signal(
    expr=highest("kafka_controller_migrating_to_kraft"),
    description="1 while the cluster migrates to KRaft; 0 in a cluster that stays with ZooKeeper.",
    legend="migrating",
    moved_by=None,
    unmoved="Nothing in the demo or the drill begins a migration.",
)
CONTROLLER_ELECTED_AT = Signal(
    expr=f"1000 * {highest('kafka_controller_elected_timestamp_seconds')}",
    unit="dateTimeAsIso",
    description="When the controller was elected, by ZooKeeper's clock.",
    legend="controller elected",
    moved_by=DemoStep.KILL_CONTROLLER,
)
