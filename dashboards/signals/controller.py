"""Signals about the controller: which node it is, how stable, and whether it does its work.

The rule: elections within a window are counted by the model (`controller_model.records.recent`), so none is lost
between scrapes and every board and alert shows the count that the live page and `kcm status` show. A figure that is
not known has no series and is never shown as 0.
"""

from dashboards.signals.signal import CONTEXT, Signal, age, grown, highest, newest

FLAPPING_WINDOW = "10m"
"""Contains several elections of a flapping controller, and is short enough that the alert ends soon after them."""

FLAPPING_LONG_WINDOW = "6h"
"""Contains the elections of one night, and several of a controller that is lost every half hour."""

_UNDER_WAY = 'state="under_way"'
_RECENT_ELECTIONS = "kafka_controller_recent_elections"

CONTROLLER_ID = Signal(
    expr=newest("kafka_controller_id"),
    unit="prefix:node ",
    meaning="The active controller: the broker that holds /controller, or a node of a KRaft quorum. -1 means nobody.",
    normal="a node id; nobody for milliseconds during an election, in a KRaft cluster for a second or two.",
    action="See whether a majority of the quorum runs, or check /brokers/ids and /controller with zookeeper-shell.",
    runbook="KafkaControllerMissing",
    legend="controller",
)
CONTROLLER_EPOCH = Signal(
    expr=highest("kafka_controller_epoch"),
    meaning="The controller epoch. Each election increases it by 1; in a KRaft cluster each candidacy does.",
    normal="constant.",
    action="If it grows again and again, the controller flaps.",
    runbook="KafkaControllerFlapping",
    legend="epoch",
)
ELECTIONS_RECENT = Signal(
    expr=highest(_RECENT_ELECTIONS, only=f'window="{FLAPPING_WINDOW}"'),
    meaning=f"Controller elections within {FLAPPING_WINDOW}, by the cluster's times.",
    normal="0; 1 after a restart of the controller's node.",
    action="Find out why the role is lost: expired sessions, GC pauses, a slow ZooKeeper, a slow disk or network of voters.",
    runbook="KafkaControllerFlapping",
    legend="elections",
)
ELECTIONS_HOUR = Signal(
    expr=highest(_RECENT_ELECTIONS, only='window="1h"'),
    meaning="Controller elections within an hour, by the cluster's times.",
    normal="0; 1 after a restart of the controller's node.",
    action="Compare the times of the elections with restarts, GC pauses and expired sessions.",
    runbook="KafkaControllerFlapping",
    legend="elections",
)
ID_CHANGES_HOUR = Signal(
    expr=grown("kafka_controller_id_changes_total", "1h"),
    meaning="Controller elections within an hour that another node than before won. If it is lower than the number "
    "of elections, a node lost the role and took it again.",
    normal="0; 1 after a restart of the controller's node.",
    action="Read the log of the node that lost the role for expired sessions or resignations.",
    runbook="KafkaControllerFlapping",
    legend="won by another",
)
VACANT_NOW = Signal(
    expr=highest("kafka_controller_vacant_seconds"),
    unit="s",
    meaning="Time for which there has been no active controller.",
    normal="0: there is one.",
    action="See whether a majority of the quorum runs, or whether brokers are registered in /brokers/ids.",
    runbook="KafkaControllerMissing",
    legend="vacant now",
)
VACANCY_HOUR = Signal(
    expr=grown("kafka_controller_vacancy_seconds_total", "1h"),
    unit="s",
    meaning="Time without a controller within an hour: the lower bound. Vacancies that last are not in it "
    "yet.",
    normal="0; milliseconds for each restart of the controller's broker, in a KRaft cluster a second or two.",
    action="If it is more, see why nobody is elected.",
    runbook="KafkaControllerMissing",
    legend="at least",
)
VACANCY_AT_MOST_HOUR = Signal(
    expr=grown("kafka_controller_vacancy_at_most_seconds_total", "1h"),
    unit="s",
    meaning="Time without a controller within an hour: the upper bound. It is above the lower bound if the watcher "
    "did not see a vacancy live, and in a KRaft cluster by the half second between two no-ops.",
    normal="equal to the lower bound, or little more.",
    action="Check on the board Pipeline when the watcher did not follow.",
    legend="at most",
)
LAST_VACANCY = Signal(
    expr=highest("kafka_controller_last_vacancy_seconds"),
    unit="s",
    meaning="Length of the last vacancy that ended: the lower bound. Empty before the first vacancy.",
    normal="milliseconds, in a KRaft cluster a second or two.",
    action="If it was more, read controller.log of the live brokers, or the controllers' logs, at that time.",
    runbook="KafkaControllerMissing",
    legend="at least",
)
LAST_VACANCY_AT_MOST = Signal(
    expr=highest("kafka_controller_last_vacancy_at_most_seconds"),
    unit="s",
    meaning="Length of the last vacancy that ended: the upper bound.",
    normal="equal to the lower bound, or little more.",
    action="Check on the board Pipeline when the watcher did not follow.",
    legend="at most",
)
FAILOVER = Signal(
    expr=f"{highest('kafka_controller_failover', 'state')} == 1",
    meaning="State of the failover: whether the controller has given a new leader to each partition whose leader was gone "
    "when it was elected.",
    normal="not_needed or done; under_way for seconds after a controller was lost.",
    action="If it stays under_way, see whether the pending leader writes fall.",
    runbook="KafkaControllerFailoverSlow",
    legend="{{state}}",
    only_in_zookeeper=True,
)
LAST_FAILOVER = Signal(
    expr=highest("kafka_controller_last_failover_seconds"),
    unit="s",
    meaning="Duration of the last finished failover. Partitions had no leader until it finished, although a controller "
    "was elected.",
    normal="seconds; it grows with the partitions of a broker.",
    action="Check ZooKeeper's latency and the CPU of the controller's broker.",
    runbook="KafkaControllerFailoverSlow",
    legend="took",
    only_in_zookeeper=True,
)
PENDING_LEADER_WRITES = Signal(
    expr=highest("kafka_controller_pending_leader_writes"),
    meaning="Partitions whose leader is gone and for which the controller has not yet written a new one.",
    normal="0; above 0 for seconds after a broker is lost.",
    action="If it does not fall, take a thread dump of the controller's broker.",
    runbook="KafkaControllerZombie",
    legend="pending writes",
    only_in_zookeeper=True,
)
ELECTIONS_LONG = Signal(
    expr=highest(_RECENT_ELECTIONS, only=f'window="{FLAPPING_LONG_WINDOW}"'),
    meaning=f"Controller elections within {FLAPPING_LONG_WINDOW}, by the cluster's times. It shows a controller that is "
    "lost every half hour.",
    normal="the number of restarts of the controller's node.",
    action="Compare the times of the elections with GC logs and planned jobs.",
    runbook="KafkaControllerFlappingSlowly",
    legend="elections",
)
MISSED_ELECTIONS_HOUR = Signal(
    expr=grown("kafka_controller_missed_elections_total", "1h"),
    meaning="Elections within an hour that the watcher did not see live. They are known because the "
    "controller epoch jumped. A metadata log holds all of them, so there are none in a KRaft cluster.",
    normal="0.",
    action="Check on the board Pipeline when the watcher did not follow.",
    legend="missed",
)
CONTROLLER_HEALTH = Signal(
    expr=f"{highest('kafka_controller_health', 'health')} == 1",
    meaning="Health of the controller. not_needed: no write is pending. working: it writes. zombie: writes are pending, "
    "and it has written nothing under its epoch for the write timeout.",
    normal="not_needed; working for seconds after a failure.",
    action="If it is a zombie, take a thread dump and restart that broker.",
    runbook="KafkaControllerZombie",
    legend="{{health}}",
    only_in_zookeeper=True,
)
ZOMBIE = Signal(
    expr=highest("kafka_controller_health", only='health="zombie"'),
    meaning="1 while the broker that holds /controller has pending writes and makes none of them.",
    normal="0.",
    action="Take a thread dump and restart that broker.",
    runbook="KafkaControllerZombie",
    legend="zombie",
    only_in_zookeeper=True,
)
PENDING_WRITES = Signal(
    expr=highest("kafka_controller_pending_writes", "kind"),
    meaning="Writes that the controller has to make and has not made yet, by kind.",
    normal="0; above 0 for seconds after a failure or a request.",
    action="If they do not fall, the controller hangs or ZooKeeper is slow.",
    runbook="KafkaControllerZombie",
    legend="{{kind}}",
    only_in_zookeeper=True,
)
OLDEST_PENDING_WRITE = Signal(
    expr=age("kafka_controller_oldest_pending_write_timestamp_seconds"),
    unit="s",
    meaning="Age of the oldest pending write of the controller. Empty if no write is pending.",
    normal="empty, or seconds.",
    action="If it grows, the controller hangs or ZooKeeper is slow.",
    runbook="KafkaControllerZombie",
    legend="oldest",
    only_in_zookeeper=True,
)
FAILOVER_AGE = Signal(
    expr=f"({age('kafka_controller_failover_since_timestamp_seconds')}) and on (cluster) "
    f"({highest('kafka_controller_failover', only=_UNDER_WAY)} == 1)",
    unit="s",
    meaning="Time since the failover began that is under way. Empty if none is.",
    normal="empty, or seconds: up to 15 s with 10,000 partitions.",
    action="See whether the pending leader writes fall.",
    runbook="KafkaControllerFailoverSlow",
    legend="under way",
    only_in_zookeeper=True,
)
STALE_WRITES_HOUR = Signal(
    expr=grown("kafka_controller_stale_writes_total", "1h"),
    meaning="Partition states written within an hour under an older controller epoch than the current one. Kafka 2.1 and "
    "newer fences such writes.",
    normal="0.",
    action="Find out who wrote: an old controller that still runs, or a tool that writes znodes by hand.",
    runbook="KafkaControllerZombie",
    legend="stale writes",
    only_in_zookeeper=True,
)
FOREIGN_WRITES = Signal(
    expr=highest("kafka_cluster_foreign_writes", "kind"),
    meaning="Znodes, or partitions, as no Kafka writes them, by what that takes away: a hand, a tool, a restored backup or a "
    "KRaft controller that is gone has written them.",
    normal="0.",
    action="See in the events (Anomaly) which znode it is.",
    runbook="KafkaForeignWrites",
    legend="{{kind}}",
    only_in_zookeeper=True,
)
MIGRATING = Signal(
    expr=highest("kafka_controller_migrating_to_kraft"),
    meaning="1 while a KRaft controller runs the cluster, during a migration and after it.",
    normal="0.",
    action="If the migration is not planned, check zookeeper.metadata.migration.enable of the brokers.",
    runbook="KafkaMigratingToKraft",
    legend="migrating",
    only_in_zookeeper=True,
)
CONTROLLER_ELECTED_AT = Signal(
    expr=f"1000 * {highest('kafka_controller_elected_timestamp_seconds')}",
    unit="dateTimeAsIso",
    meaning="When the controller was elected, by the cluster's clock.",
    normal="days or weeks ago.",
    action=CONTEXT,
    legend="controller elected",
)
